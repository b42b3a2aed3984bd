"""Faults among positions of truths, looked for as the replicates come."""

import numpy as np

from ppdinf.diagnostics.calibration import calibrate, uniformity


def noticed(simulate, infer, quantity, *, replicates, each=100, alarm=1e-6):
    """Whether a fault shows by `replicates`, the number at which what is right is tested.

    It is looked at after every `each` of them and the first look that sees it ends the run, so that what is right
    would be taken for a fault with a probability of at most ``replicates / each * alarm``.
    """
    rng, found = np.random.default_rng(1), []
    while len(found) < replicates:
        found += calibrate(simulate, infer, replicates=each, rng=rng)[quantity].tolist()
        if uniformity(found) < alarm:
            return True
    return False
