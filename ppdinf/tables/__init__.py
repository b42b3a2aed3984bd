"""Labelled integer tables: reading, checking and converting them.

count_ranges  Counts as published tables write them: ranges such as ``1-9`` and ``<5``, suppression marks, empty values.
frame         Validated labels of a table, and the labels of all dimensions without counts, the only input of public
              statements.
percentages   Ranges of counts from percentages, rates and averages of known numbers.
table         Labelled integer tables: conversion from xarray, pandas and NumPy with all checks.
totals        Totals among the labels of a table, found by their names, their numbers and their codes.
"""
