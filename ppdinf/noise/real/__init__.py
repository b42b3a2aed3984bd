"""Real-valued noise: K-norm laws and uniform points in convex bodies."""
