"""Privacy noise that keeps public totals exact, and inference that accounts for both."""
