"""Composition of several releases and budgets.

budget       A budget of privacy loss, and the loss that guarantees spend together.
composition  The joint guarantee of several releases.
ledger       The joint loss and public information of all releases of one table.
"""
