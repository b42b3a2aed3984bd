"""Drawing noise: every algorithm that turns a tape of random words into noise; NumPy in and out."""
