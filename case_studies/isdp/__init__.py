"""Integer noise with public sums: convergence of the published chain, and exact draws."""
