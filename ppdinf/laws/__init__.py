"""Laws of noise, stated once: weights, norms and how far noise reaches."""
