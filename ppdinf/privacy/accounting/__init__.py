"""Composition of several releases and budgets.

budget       a budget of privacy loss, and what promises take from it together
composition  what several releases promise together
ledger       what all releases of one table have spent, and what they give away together
"""
