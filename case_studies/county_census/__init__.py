"""County populations with state totals, and the demonstration data of the census."""
