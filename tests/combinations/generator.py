"""Random compositions of features, as code and for the enumerator.

A composition is a list of stages. Each stage has lines of Python, which define a model or measurements in a namespace,
and a `Posed`: the same posterior for the enumerator. `show` prints the lines of all stages.
"""

import numpy as np

from combinations import data_models, frames, mechanisms
from combinations.composition import Composition, Stage
from combinations.enumerator import FAR, Listed, TooManyError
from combinations.measured import measurements
from combinations.mechanisms import released
from combinations.posed import Posed
from combinations.posteriors import change, posterior


def without_model(rng):
    """Build measurements only, for `denoise` with a flat prior."""
    features = {"way: denoise"}
    frame = frames.frame(rng)
    features.add(f"shape: {frame.shape}")
    if rng.random() < 0.15:
        features.add("denoised release")
        law = data_models.Counts("flat", "", np.zeros(frame.size, int), np.full(frame.size, FAR), None)
        text, system, terms, truth, y, _ = released(rng, frame, law, features)
        if not terms or len(terms[0].cells) < frame.size or "nonnegative" in text:
            raise TooManyError
        setup = f"seen = ppd.Release({frame.table_code(y)}, {text})"
    else:
        setup, system, terms, truth = measurements(rng, frame, None, features)
    measured = np.zeros(frame.size, dtype=bool)
    for cells in [term.cells for term in terms] + [np.flatnonzero(row) for row, _ in system.equal]:
        measured[list(cells)] = True
    if not (measured | (system.high < FAR)).all():  # flat on all counts: improper posterior
        raise TooManyError
    listed = Listed.of(system, terms)
    assert np.isfinite(listed.log_weight_of(truth)), "impossible"
    if any(len(log_w) > 1 and (log_w[[-1]] > log_w.max() - 20).any() and len(tables) > 1000
           for _, tables, log_w in listed.groups):  # fmt: skip
        raise TooManyError  # censored from above only: improper posterior
    return features, Stage(setup, Posed(frame, system, terms), "measured"), truth


def compose(seed):
    """Return the composition of a seed: the first random one with a limited number of tables."""
    rng = np.random.default_rng([37, seed])
    for _ in range(500):
        try:
            if seed % 5 == 3:
                features, stage, truth = without_model(rng)
                return Composition(seed, features, [stage], truth, "denoise")
            if seed % 5 == 4:
                return mechanisms.compose(seed, rng)
            features, stage, truth = posterior(rng)
            stages = [stage]
            for number in range(int(rng.choice([0, 1, 1, 2]))):
                later = change(rng, stages[-1], features, truth, f"late{number}")
                stages += [later] if later else []
            for one in stages:
                for start in range(6 if one.posed.latent() else 1):
                    listed, _ = one.posed.listed(one.posed.point(np.random.default_rng(start), truth))
                    assert start or np.isfinite(listed.log_total), "impossible"
            return Composition(seed, features, stages, truth)
        except TooManyError:
            continue
    raise AssertionError(seed)
