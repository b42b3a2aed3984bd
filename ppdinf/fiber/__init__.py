"""Integer points with given sums: their total weight, draws, and walks among them; NumPy in and out."""
