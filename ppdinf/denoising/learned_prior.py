"""A prior of the cells of a table that learns its level, spread and sparsity.

    x_i ~ negative binomial of mean mu_i and shape a,   log mu_i = level + one effect for the label of i in each factor,

effects normal with a standard deviation of their own in each factor, half-normal a priori. Small shapes are sparse
tables: most cells 0, a few large. Parameters move given the table (`ppdinf.denoising.parameter_moves`), and with it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ppdinf.denoising.parameter_moves import WANTED, move_parameters, propose_effects
from ppdinf.tables.frame import Frame

__all__ = ["LearnedPrior", "Weights"]

LEVEL, SPREAD, SHAPE = 5.0, 1.5, (-1.0, 2.0)
"""Standard deviation of the level; scale of those of the effects; mean and standard deviation of the log shape."""

EFFECTS = 5000
"""Largest number of labels of a factor."""

FEW, SELDOM, TURNS = 300, 1 / 4, 3
"""Cells that always go along with an effect; how often more of them do; turns of factors whose labels have so few each,
since labels that may be empty are what moves slowest."""

FIRST, NOT_ANEW = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)

type Reals = NDArray[np.float64]
type Weights = tuple[Reals, Reals, Reals]
"""Log weights of counts, their exponentials, and slopes of the cells."""

type Groups = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Where the cells of each group begin among all that are in one, and these."""

type Move = Callable[[Groups, NDArray[np.int64], Weights, Weights, Reals, NDArray[np.bool_]], NDArray[np.bool_]]


class LearnedPrior:
    """Parameters of the prior, and how they move given a table.

    Parameters
    ----------
    frame : Frame
        Of the cells. Factors are its dimensions, where there are several, and further coordinates, each with at most a
        third as many labels as there are cells.
    possible : array of bool, shape (d,)
        Cells that are not 0 by definition.
    start : array of int64, shape (d,)
        A table.
    """

    def __init__(self, frame: Frame, possible: NDArray[np.bool_], start: NDArray[np.int64]) -> None:
        self.possible = possible
        self.names, self.codes, self.sizes = [], [], []
        for name, (_, values) in frame.coords.items():
            if values.dtype.kind == "f":
                continue
            codes, labels = frame.codes(name)
            if 2 <= labels.size <= min(EFFECTS, max(frame.size // 3, 2)) and labels.size < frame.size:
                self.names.append(name)
                self.codes.append(codes)
                self.sizes.append(labels.size)
        self.level = float(np.log(max(start[possible].mean(), 0.01))) if possible.any() else 0.0
        self.effects = [np.zeros(size) for size in self.sizes]
        self.log_spread = np.zeros(len(self.sizes)) + np.log(0.5)
        self.log_shape = -0.5
        self._groups = [_groups(codes, possible, size) for codes, size in zip(self.codes, self.sizes, strict=True)]
        most = [np.diff(first).max() for first, _ in self._groups]
        self._turns = [k for k, cells in enumerate(most) for _ in range(TURNS if cells <= FEW else 1)]
        self._often = [np.maximum(SELDOM, FEW / np.maximum(np.diff(first), 1)) for first, _ in self._groups]
        self._everywhere = _groups(np.zeros(possible.size, dtype=np.int64), possible, 1)
        self._kept = self.log_shape, np.zeros(0), np.zeros(0)
        self._first = np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)]).astype(np.int64)
        codes = np.array([codes[possible] for codes in self.codes], dtype=np.int64)
        self._codes = codes.reshape(len(self.sizes), possible.sum())
        self._lengths = np.concatenate([[0.1, 0.2], np.full(len(self.sizes), 0.3), np.full(self._first[-1], 0.2)])
        self._length_with = {"level": 0.1, "shape": 0.2}

    @property
    def log_mean(self) -> Reals:
        """Log mean of every cell, shape (d,)."""
        found = np.full(self.possible.size, self.level)
        for codes, effects in zip(self.codes, self.effects, strict=True):
            found += effects[codes]
        return found

    def log_weights(self, most: int) -> tuple[Reals, Reals]:
        """Log weights of counts, ``log_h[x] + slope[i] x`` up to a constant: shapes (most + 1,) and (d,)."""
        log_mean = self.log_mean
        return self._counts(most)[0], log_mean - _log_sum(self.log_shape, log_mean)

    @property
    def parameters(self) -> dict[str, float | Reals]:
        """Their values by name, each effect without what its factor has in common."""
        found: dict[str, float | Reals] = {"level": self.level, "shape": float(np.exp(self.log_shape))}
        for name, effects, log_spread in zip(self.names, self.effects, self.log_spread, strict=True):
            found |= {f"{name} effect": effects.copy(), f"{name} spread": float(np.exp(log_spread))}
        return found

    def update(self, table: NDArray[np.int64], rng: np.random.Generator, *, tune: bool) -> None:
        """Move all parameters given a table."""
        at, effects = np.array([self.level, self.log_shape]), np.concatenate([np.zeros(0), *self.effects])
        move_parameters(
            table[self.possible].astype(np.float64), self._codes, self._first, at, effects, self.log_spread,
            self._lengths, (LEVEL, SPREAD, *SHAPE), tune, rng,
        )  # fmt: skip
        self.level, self.log_shape = at.tolist()
        self.effects = np.split(effects, self._first[1:-1]) if self.effects else []

    def update_with(self, move: Move, most: int, rng: np.random.Generator, *, tune: bool) -> None:
        """Move level, effects and shape, each with the table.

        Parameters
        ----------
        move : callable
            ``move(groups, which, before, after, log_ratios, anew)`` proposes tables to go with parameters that change
            the weights of the cells of some groups, one group after the other, each drawn anew or as near as can be,
            and says which are accepted.
        most : int
            Largest count of any.
        """
        log_mean, (log_h, h) = self.log_mean, self._counts(most)
        a, far = np.exp(self.log_shape), _log_sum(self.log_shape, log_mean)
        for k in self._turns:
            codes, groups, own = self.codes[k], self._groups[k], self.effects[k]
            labels = np.flatnonzero(rng.random(own.size) < self._often[k])
            steps, ratios, raised, further = propose_effects(
                own, self.log_spread[k], codes, self.possible, log_mean, far, self.log_shape, rng
            )
            weights = (log_h, h, log_mean - far), (log_h, h, raised - further)
            accepted = np.zeros(own.size, dtype=bool)
            accepted[labels] = move(groups, labels, *weights, ratios[labels], rng.random(labels.size) < 0.5)
            self.effects[k] = own + np.where(accepted, steps, 0.0)
            of_cells = accepted[codes]
            log_mean, far = np.where(of_cells, raised, log_mean), np.where(of_cells, further, far)
        if rng.random() > SELDOM:
            return
        slope, inside = log_mean - far, self.possible

        def moves(log_ratio: float, after: Weights) -> bool:
            return bool(move(self._everywhere, FIRST, (log_h, h, slope), after, np.array([log_ratio]), NOT_ANEW)[0])

        step = self._length_with["level"] * rng.standard_normal()
        further = _log_sum(self.log_shape, log_mean + step)
        ratio = (self.level**2 - (self.level + step) ** 2) / (2 * LEVEL**2) - a * (further - far)[inside].sum()
        moved = moves(float(ratio), (log_h, h, log_mean + step - further))
        if moved:
            self.level, log_mean, far, slope = self.level + step, log_mean + step, further, log_mean + step - further
        self._tune("level", moved, tune)
        log_shape = self.log_shape + self._length_with["shape"] * rng.standard_normal()
        (log_h_new, h_new), further = _by_shape(log_shape, most), _log_sum(log_shape, log_mean)
        ratio = (np.exp(log_shape) * (log_shape - further) - a * (self.log_shape - far))[inside].sum()
        ratio -= ((log_shape - SHAPE[0]) ** 2 - (self.log_shape - SHAPE[0]) ** 2) / (2 * SHAPE[1] ** 2)
        moved = moves(float(ratio), (log_h_new, h_new, log_mean - further))
        self.log_shape = float(log_shape) if moved else self.log_shape
        self._tune("shape", moved, tune)

    def _counts(self, most: int) -> tuple[Reals, Reals]:
        """Log weights of the counts by the shape alone, and these weights: found anew once the shape has moved."""
        if self._kept[0] != self.log_shape or self._kept[1].size != most + 1:
            self._kept = self.log_shape, *_by_shape(self.log_shape, most)
        return self._kept[1:]

    def _tune(self, name: str, accepted: bool, tune: bool) -> None:
        if tune:
            self._length_with[name] *= np.exp(0.1 * (accepted - WANTED))


def _log_sum(a: float | Reals, b: Reals) -> Reals:
    """``log(exp(a) + exp(b))`` to 1e-16, in a third of the time of `np.logaddexp`."""
    return np.asarray(np.maximum(a, b) + np.log(1 + np.exp(-np.abs(a - b))))


def _by_shape(log_shape: float, most: int) -> tuple[Reals, Reals]:
    """Log of Gamma(x + a) / Gamma(a) x! for x up to the largest count, and its exponential.

    The exponential is infinite for large counts of a large shape: `ppdinf.fiber.gibbs.cell_quantiles` then takes the
    log.
    """
    a, x = float(np.exp(log_shape)), np.arange(float(most))
    log_h = np.concatenate([[0.0], np.cumsum(np.log((x + a) / (x + 1)))])
    with np.errstate(over="ignore"):
        return log_h, np.exp(log_h)


def _groups(codes: NDArray[np.int64], possible: NDArray[np.bool_], size: int) -> Groups:
    """Possible cells by their codes."""
    members = np.flatnonzero(possible)
    members = members[np.argsort(codes[members], kind="stable")]
    return np.searchsorted(codes[members], np.arange(size + 1)), members
