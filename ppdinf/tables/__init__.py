"""Labelled integer tables: reading, checking and converting them.

count_ranges   Ranges of counts as published tables write them, and suppression marks.
frame          Labels of a table without its counts, the only input of public statements.
labels         Validation of labels.
pandas_tables  Conversion of Series and DataFrames of counts to labelled arrays, without changes.
table          Labelled integer tables: conversion from xarray, pandas and NumPy with all checks.
"""
