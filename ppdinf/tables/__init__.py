"""Labelled integer tables: reading, checking and converting them.

frame          labels of a table without its counts: all that public statements are allowed to look at
labels         what a label may be
pandas_tables  series and DataFrames of counts as labelled arrays, exactly as they are or refused
table          labelled integer tables: one way in for xarray, pandas and NumPy, with every check in one place
"""
