"""Tables whose histogram of counts survives: mechanisms with a fixed point, and the theory behind them."""
