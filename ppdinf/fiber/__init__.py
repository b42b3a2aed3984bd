"""Tables that share what is public, NumPy in and out: summed over, drawn, or walked; no release, no PyMC.

- `fiber`: what is public, windows of counts and moves that connect them.
- `fiber_walk`: walks on them.
- `totals`: counts given disjoint public totals: log coefficients, marginals, draws. Its steps: `cell_windows`,
  `saddlepoint`, `fourier` and `taylor`, `convolution`, `value_and_gradient`, `conditional_draws`.
"""
