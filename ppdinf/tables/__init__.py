"""Labelled integer tables: reading, checking and converting them.

count_ranges   Ranges of counts as published tables write them.
frame          Labels of a table without its counts, the only input of public statements.
hidden_counts  The rule by which a publisher hides counts: marks, and the meaning of empty values.
labels         Validation of labels.
pandas_tables  Conversion of Series and DataFrames of counts to labelled arrays, without changes.
table          Labelled integer tables: conversion from xarray, pandas and NumPy with all checks.
totals         Totals among the labels of a table, found by their names, their numbers and their codes.
"""
