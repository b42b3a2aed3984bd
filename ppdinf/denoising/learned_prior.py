"""A prior of the cells of a table that learns its level, spread and sparsity.

    x_i ~ negative binomial of mean mu_i and shape a,   log mu_i = level + one effect for the label of i in each factor,

with normal effects whose standard deviation in each factor is half-normal a priori. Small shapes describe sparse
tables: most cells are 0, a few are large. Parameters are updated given the table (`ppdinf.denoising.parameter_moves`)
and jointly with the table (`ppdinf.denoising.joint_updates`).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf.denoising.parameter_moves import Prior, list_weights, update_parameters
from ppdinf.tables.frame import Frame

SWEEPS = 4
"""Updates of the table and its prior per stored draw."""

LEVEL, SPREAD, SHAPE = 5.0, 1.5, (-1.0, 2.0)
"""Prior scales: sd of the level; scale of the sds of the effects; mean and sd of the log shape."""

EFFECTS = 5000
"""Largest number of labels of a factor."""

FEW, SELDOM, TURNS = 300, 1 / 4, 3
"""Number of cells of a label up to which its effect is always updated jointly with them; smallest probability of a
joint update; passes over factors whose labels all have so few cells, since possibly empty labels mix slowest."""

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]


class FixedPrior:
    """Prior without parameters."""

    def __init__(self, log_h: Reals, slope: Reals) -> None:
        d, none, no_cells = slope.size, np.zeros(0), np.zeros(0, dtype=np.int64)
        self.arrays = Prior(
            False, log_h, np.exp(log_h), slope, np.ones(d, dtype=bool), np.arange(d), np.zeros((0, d), dtype=np.int64),
            np.zeros((0, d), dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), no_cells,
            no_cells, none, np.zeros(2), none, none, np.zeros(2), np.zeros(2), np.zeros(4),
        )  # fmt: skip

    def log_weights(self) -> tuple[Reals, Reals]:
        """Return `log_h` and `slope`."""
        return self.arrays.log_h, self.arrays.slope

    def update(self, table: Ints, rng: np.random.Generator, *, tune: bool) -> None:
        """Keep the prior, which does not depend on the table."""

    @property
    def parameters(self) -> dict[str, float | Reals]:
        """An empty dictionary."""
        return {}


class LearnedPrior:
    """Parameters of the prior and their updates."""

    def __init__(self, frame: Frame, possible: NDArray[np.bool_], start: Ints, largest: int) -> None:
        self.names, self.left_out, labels_of = [], [], []
        for name, (_, values) in frame.coords.items():
            codes, labels = pd.factorize(frame.broadcast(name)) if values.dtype.kind == "f" else frame.codes(name)
            if 2 <= labels.size <= min(EFFECTS, max(frame.size // 3, 2)) and labels.size < frame.size:
                self.names.append(name)
                labels_of.append((codes, labels.size))
            elif labels.size > 1 and frame.dims != (name,):
                self.left_out.append(name)
        sizes = np.array([size for _, size in labels_of], dtype=np.int64)
        first = np.concatenate([[0], np.cumsum(sizes)])
        codes = np.array([own for own, _ in labels_of], dtype=np.int64).reshape(sizes.size, frame.size)
        # cells of each label, factor by factor
        members = np.flatnonzero(possible)
        orders = [members[np.argsort(own[members], kind="stable")] for own in codes]
        counts = [np.bincount(own[members], minlength=size) for own, size in zip(codes, sizes, strict=True)]
        numbers = np.concatenate([np.zeros(0, dtype=np.int64), *counts])
        turns = [k for k, own in enumerate(counts) for _ in range(TURNS if own.max() <= FEW else 1)]
        level = float(np.log(max(start[possible].mean(), 0.01))) if possible.any() else 0.0
        log_h, h = np.empty(largest + 1), np.empty(largest + 1)
        self.arrays = Prior(
            learned=True,
            log_h=log_h,
            h=h,
            slope=np.zeros(frame.size),
            possible=possible,
            members=members,
            codes=codes,
            codes_of_members=np.ascontiguousarray(codes[:, members]),
            first=first,
            starts=np.concatenate([[0], np.cumsum(numbers)]),
            cells=np.concatenate([np.zeros(0, dtype=np.int64), *orders]),
            turns=np.array(turns, dtype=np.int64),
            often=np.maximum(SELDOM, FEW / np.maximum(numbers, 1)),
            state=np.array([level, -0.5]),
            effects=np.zeros(first[-1]),
            log_spread=np.full(sizes.size, np.log(0.5)),
            lengths=np.concatenate([[0.1, 0.2], np.full(sizes.size, 0.3), np.full(first[-1], 0.2)]),
            lengths_with=np.array([0.1, 0.2]),
            scales=np.array([LEVEL, SPREAD, *SHAPE]),
        )
        list_weights(-0.5, log_h, h)

    @property
    def log_mean(self) -> Reals:
        """Log mean of every cell, shape (d,)."""
        prior = self.arrays
        return np.asarray(prior.state[0] + prior.effects[prior.first[:-1, None] + prior.codes].sum(axis=0))

    def log_weights(self) -> tuple[Reals, Reals]:
        """Return log weights of counts, ``log_h[x] + slope[i] x`` up to a constant, shapes (largest + 1,) and (d,)."""
        log_mean = self.log_mean
        return self.arrays.log_h, log_mean - np.logaddexp(self.arrays.state[1], log_mean)

    @property
    def parameters(self) -> dict[str, float | Reals]:
        """Values of the parameters by name."""
        prior = self.arrays
        values: dict[str, float | Reals] = {"level": float(prior.state[0]), "shape": float(np.exp(prior.state[1]))}
        for k, name in enumerate(self.names):
            values[f"{name} effect"] = prior.effects[prior.first[k] : prior.first[k + 1]].copy()
            values[f"{name} spread"] = float(np.exp(prior.log_spread[k]))
        return values

    def update(self, table: Ints, rng: np.random.Generator, *, tune: bool) -> None:
        """Update all parameters given a table."""
        update_parameters(self.arrays, table, tune, rng)
