"""Effects of labels in models of log rates: priors of neighbours and times, a rough fit, coordinates for NUTS.

Rule: arrays and transforms only; `ppdinf.models.label_effects` adds the variables to a model.

adjacency     Neighbours of labels: an adjacency in any of four forms, as edges.
coordinates   Transforms of effects of labels under which NUTS takes long steps.
icar          Spectrum of an intrinsic autoregression on a graph, scaled to unit typical variance.
rough_fit     A rough fit of effects to a release, and the information about each effect.
whitening     Whitening of independent normal variables given a normal likelihood: values and gradients.
whitening_op  The same whitening as PyTensor Ops, compiled once per installation.
"""
