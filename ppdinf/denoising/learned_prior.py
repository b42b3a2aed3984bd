"""A prior of the cells of a table that learns its level, spread and sparsity.

    x_i ~ negative binomial of mean mu_i and shape a,   log mu_i = level + one effect for the label of i in each factor,

with normal effects whose standard deviation in each factor is half-normal a priori. Small shapes describe sparse
tables: most cells are 0, a few are large. Parameters are updated given the table (`ppdinf.denoising.parameter_moves`)
and jointly with the table.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ppdinf.denoising.parameter_moves import ACCEPTANCE, move_parameters, propose_effects
from ppdinf.tables.frame import Frame

__all__ = ["LearnedPrior", "Weights"]

LEVEL, SPREAD, SHAPE = 5.0, 1.5, (-1.0, 2.0)
"""Prior scales: sd of the level; scale of the sds of the effects; mean and sd of the log shape."""

EFFECTS = 5000
"""Largest number of labels of a factor."""

FEW, SELDOM, TURNS = 300, 1 / 4, 3
"""Number of cells of a label up to which its effect is always updated jointly with them; smallest probability of a
joint update; passes over factors whose labels all have so few cells, since possibly empty labels mix slowest."""

FIRST, NOT_ANEW = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)

type Reals = NDArray[np.float64]
type Weights = tuple[Reals, Reals, Reals]
"""Log weights of counts, their exponentials, and slopes of the cells."""

type Groups = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Start of each group in an array of cells, and this array."""

type Move = Callable[[Groups, NDArray[np.int64], Weights, Weights, Reals, NDArray[np.bool_]], NDArray[np.bool_]]


class LearnedPrior:
    """Parameters of the prior and their updates.

    Parameters
    ----------
    frame : Frame
        Frame of the cells. Factors are its dimensions, if there are several, and further coordinates. A factor has at
        most a third as many labels as there are cells.
    possible : array of bool, shape (d,)
        True for cells that are not structural zeros.
    start : array of int64, shape (d,)
        A feasible table.
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
        largest = [np.diff(first).max() for first, _ in self._groups]
        self._turns = [k for k, cells in enumerate(largest) for _ in range(TURNS if cells <= FEW else 1)]
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
        values = np.full(self.possible.size, self.level)
        for codes, effects in zip(self.codes, self.effects, strict=True):
            values += effects[codes]
        return values

    def log_weights(self, largest: int) -> tuple[Reals, Reals]:
        """Return log weights of counts, ``log_h[x] + slope[i] x`` up to a constant, shapes (largest + 1,) and (d,)."""
        log_mean = self.log_mean
        return self._counts(largest)[0], log_mean - _log_sum(self.log_shape, log_mean)

    @property
    def parameters(self) -> dict[str, float | Reals]:
        """Values of the parameters by name."""
        values: dict[str, float | Reals] = {"level": self.level, "shape": float(np.exp(self.log_shape))}
        for name, effects, log_spread in zip(self.names, self.effects, self.log_spread, strict=True):
            values |= {f"{name} effect": effects.copy(), f"{name} spread": float(np.exp(log_spread))}
        return values

    def update(self, table: NDArray[np.int64], rng: np.random.Generator, *, tune: bool) -> None:
        """Update all parameters given a table."""
        state, effects = np.array([self.level, self.log_shape]), np.concatenate([np.zeros(0), *self.effects])
        move_parameters(
            table[self.possible].astype(np.float64), self._codes, self._first, state, effects, self.log_spread,
            self._lengths, (LEVEL, SPREAD, *SHAPE), tune, rng,
        )  # fmt: skip
        self.level, self.log_shape = state.tolist()
        self.effects = np.split(effects, self._first[1:-1]) if self.effects else []

    def update_with(self, move: Move, largest: int, rng: np.random.Generator, *, tune: bool) -> None:
        """Update level, effects and shape, each jointly with the table.

        Parameters
        ----------
        move : callable
            ``move(groups, which, before, after, log_ratios, anew)`` proposes tables for parameters that change the
            weights of the cells of some groups. It treats one group after another, draws its cells anew or as close
            as possible to the present ones, and returns which proposals are accepted.
        most : int
            Largest count of any cell.
        """
        log_mean, (log_h, h) = self.log_mean, self._counts(largest)
        a, log_total = np.exp(self.log_shape), _log_sum(self.log_shape, log_mean)
        # effects of each factor, jointly with the cells of their labels
        for k in self._turns:
            codes, groups, effects = self.codes[k], self._groups[k], self.effects[k]
            labels = np.flatnonzero(rng.random(effects.size) < self._often[k])
            steps, ratios, new_mean, new_total = propose_effects(
                effects, self.log_spread[k], codes, self.possible, log_mean, log_total, self.log_shape, rng
            )
            weights = (log_h, h, log_mean - log_total), (log_h, h, new_mean - new_total)
            accepted = np.zeros(effects.size, dtype=bool)
            accepted[labels] = move(groups, labels, *weights, ratios[labels], rng.random(labels.size) < 0.5)
            self.effects[k] = effects + np.where(accepted, steps, 0.0)
            of_cells = accepted[codes]
            log_mean = np.where(of_cells, new_mean, log_mean)
            log_total = np.where(of_cells, new_total, log_total)
        if rng.random() > SELDOM:
            return
        slope, inside = log_mean - log_total, self.possible

        def moves(log_ratio: float, after: Weights) -> bool:
            return bool(move(self._everywhere, FIRST, (log_h, h, slope), after, np.array([log_ratio]), NOT_ANEW)[0])

        # level, jointly with all cells
        step = self._length_with["level"] * rng.standard_normal()
        new_total = _log_sum(self.log_shape, log_mean + step)
        ratio = (self.level**2 - (self.level + step) ** 2) / (2 * LEVEL**2) - a * (new_total - log_total)[inside].sum()
        moved = moves(float(ratio), (log_h, h, log_mean + step - new_total))
        if moved:
            self.level, log_mean, log_total = self.level + step, log_mean + step, new_total
            slope = log_mean - log_total
        self._tune("level", moved, tune)
        # shape, jointly with all cells
        log_shape = self.log_shape + self._length_with["shape"] * rng.standard_normal()
        (log_h_new, h_new), new_total = _by_shape(log_shape, largest), _log_sum(log_shape, log_mean)
        ratio = (np.exp(log_shape) * (log_shape - new_total) - a * (self.log_shape - log_total))[inside].sum()
        ratio -= ((log_shape - SHAPE[0]) ** 2 - (self.log_shape - SHAPE[0]) ** 2) / (2 * SHAPE[1] ** 2)
        moved = moves(float(ratio), (log_h_new, h_new, log_mean - new_total))
        self.log_shape = float(log_shape) if moved else self.log_shape
        self._tune("shape", moved, tune)

    def _counts(self, largest: int) -> tuple[Reals, Reals]:
        """Return log weights of the counts by the shape alone, and these weights; cached until the shape changes."""
        if self._kept[0] != self.log_shape or self._kept[1].size != largest + 1:
            self._kept = self.log_shape, *_by_shape(self.log_shape, largest)
        return self._kept[1:]

    def _tune(self, name: str, accepted: bool, tune: bool) -> None:
        if tune:
            self._length_with[name] *= np.exp(0.1 * (accepted - ACCEPTANCE))


def _log_sum(a: float | Reals, b: Reals) -> Reals:
    """Return ``log(exp(a) + exp(b))`` to 1e-16, in a third of the time of `np.logaddexp`."""
    return np.asarray(np.maximum(a, b) + np.log(1 + np.exp(-np.abs(a - b))))


def _by_shape(log_shape: float, largest: int) -> tuple[Reals, Reals]:
    """Return log Gamma(x + a) / (Gamma(a) x!) for x up to the largest count, and its exponential.

    The exponential is infinite for large counts of a large shape: `ppdinf.fiber.gibbs.cell_quantiles` then takes the
    log.
    """
    a, x = float(np.exp(log_shape)), np.arange(float(largest))
    log_h = np.concatenate([[0.0], np.cumsum(np.log((x + a) / (x + 1)))])
    with np.errstate(over="ignore"):
        return log_h, np.exp(log_h)


def _groups(codes: NDArray[np.int64], possible: NDArray[np.bool_], size: int) -> Groups:
    """Group the possible cells by their codes."""
    members = np.flatnonzero(possible)
    members = members[np.argsort(codes[members], kind="stable")]
    return np.searchsorted(codes[members], np.arange(size + 1)), members
