"""Exact noise for all cells of a system: the sampler that suits each of its independent parts.

l1 Laplace: cells in no constraint are double geometric; classes with a public sum are drawn as such
(`classes`); blocks whose class sums cross go to `elimination` where few partial sums are open at a
time, or to rejection (`core`) where little is left to decide. Gaussian and l2 Laplace: Klein's sampler
with rejection, on a basis that is orthogonalised in closed form where class sums are tables under margins; for all
blocks at once or, where that would reject too much, block by block (Gaussian
blocks are independent; l2 Laplace ones are not). What fits none of these is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice.core import core_sums
from ppdinf.lattice.kernel import Lattice
from ppdinf.lattice.structure import Structure
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, L2Laplace, Law
from ppdinf.noise.bits.integers import discrete_laplace
from ppdinf.noise.bits.tape import Tape
from ppdinf.noise.exact.classes import draw_class, draw_partition
from ppdinf.noise.exact.core import core, core_acceptance, draw_core
from ppdinf.noise.exact.elimination import Elimination
from ppdinf.noise.exact.gaussian import draw_gaussian, gaussian_acceptance
from ppdinf.noise.exact.klein import Klein
from ppdinf.noise.exact.mixture import Mixture, mixture_acceptance
from ppdinf.noise.exact.orthogonal import klein
from ppdinf.noise.exact.potentials import class_sum, product

__all__ = ["ExactNoise", "Part", "exact_noise"]

QUICK = 2 * 10**8  # multiplications of an elimination that is not worth avoiding
LONG = 5 * 10**9  # multiplications of the longest elimination, some ten seconds
LONGEST = 4 * 10**8  # cells drawn for one draw by rejection, some twenty seconds
LEAST = 0.1  # acceptance of all blocks together below which they are drawn one by one
HOPELESS = 1e-5  # acceptance of Klein's sampler below which it is refused

type Draw = Callable[[int, Tape], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Part:
    """Some cells and what draws them.

    Attributes
    ----------
    sampler : str
        Short name of the algorithm.
    cells : ndarray of int64, shape (n,)
    draw : callable
        ``draw(size, tape)`` returns int64 of shape (size, n).
    acceptance : float or None
        Expected share of attempts that are kept, where attempts can fail.
    """

    sampler: str
    cells: NDArray[np.int64]
    draw: Draw
    acceptance: float | None = None


@dataclass(frozen=True, eq=False)
class ExactNoise:
    """Independent parts that cover all cells.

    Attributes
    ----------
    parts : list of Part
    """

    d: int
    parts: list[Part]

    def draw(self, size: int, tape: Tape) -> NDArray[np.int64]:
        """Return `size` independent draws of the noise, int64 of shape (size, d)."""
        if len(self.parts) == 1 and self.parts[0].cells.size == self.d:
            return self.parts[0].draw(size, tape)
        noise = np.zeros((size, self.d), dtype=np.int64)
        for part in self.parts:
            noise[:, part.cells] = part.draw(size, tape)
        return noise


@lru_cache(maxsize=8)
def exact_noise(structure: Structure, law: Law) -> ExactNoise:
    """Choose exact samplers for a law on the lattice of a system.

    Parameters
    ----------
    structure : Structure
    law : Law

    Returns
    -------
    ExactNoise

    Raises
    ------
    InvariantError
        If the lattice is beyond all exact samplers; the message says why.
    PrivacyError
        If the noise is so wide that it might not fit the integers used.

    Notes
    -----
    Set-up estimates acceptances from seeded pilot runs; the last eight results are remembered.

    Examples
    --------
    >>> from ppdinf.lattice import structure
    >>> from ppdinf.noise.bits.tape import seeded_tape
    >>> noise = exact_noise(structure([[1, 1, 1, 0, 0]]), DoubleGeometric("1/2"))
    >>> [part.sampler for part in noise.parts], noise.draw(2, seeded_tape(1))[:, :3].sum(axis=1)
    (['free', 'class'], array([0, 0]))
    """
    d = structure.blocks.size
    if isinstance(law, DoubleGeometric):
        return ExactNoise(d, _l1_parts(structure, law.epsilon))
    if isinstance(law, L2Laplace):
        return ExactNoise(d, [_mixture_part(structure, law.epsilon)])
    if isinstance(law, DiscreteGaussian):
        return ExactNoise(d, _gaussian_parts(structure, law.sigma**2))
    raise InvariantError(f"no exact sampler for lattices knows {law.name} noise")


# -- l1 Laplace -----------------------------------------------------------------------------------------


def _l1_parts(structure: Structure, epsilon: Fraction) -> list[Part]:
    sizes = np.bincount(structure.blocks, minlength=structure.sum_ranks.size)
    grouped = structure.partition[structure.blocks]
    alone = ((sizes == 1) & (structure.sum_ranks == 1))[structure.blocks]
    parts = []
    if alone.any():
        cells = np.flatnonzero(alone)
        parts.append(
            Part(
                "free",
                cells,
                lambda size, tape: discrete_laplace(epsilon, size * cells.size, tape).reshape(size, -1),
            )
        )
    if grouped.any():
        _, labels = np.unique(structure.classes[grouped], return_inverse=True)
        n_classes = int(labels.max()) + 1
        parts.append(
            Part(
                "class",
                np.flatnonzero(grouped),
                lambda size, tape: draw_partition(labels, n_classes, epsilon, tape, size),
            )
        )
    for block in np.flatnonzero((structure.sum_ranks > 0) & (sizes > 1)):
        parts.append(_crossing_part(structure, np.flatnonzero(structure.blocks == block), epsilon))
    return parts


def _crossing_part(structure: Structure, cells: NDArray[np.int64], epsilon: Fraction) -> Part:
    """Choose between elimination and rejection for a block whose class sums cross."""
    work = _elimination_work(structure, cells, epsilon)
    if work <= QUICK:
        return _elimination_part(structure, cells, epsilon)
    split, acceptance = core(_restricted(structure.lattice, cells)), 0.0
    if split is not None:
        acceptance = core_acceptance(split, epsilon)
        if cells.size <= LONGEST * acceptance:
            return Part("rejection", cells, lambda size, tape: draw_core(split, epsilon, tape, size=size), acceptance)
    if work <= LONG:
        return _elimination_part(structure, cells, epsilon)
    raise InvariantError(
        f"{cells.size} cells lie under public sums that cross each other (as row and column sums do) too much for "
        f"exact l1 noise: elimination would take {work:.0e} steps, and rejection would keep about {acceptance:.0e} of "
        "its attempts. Choose l2 or Gaussian noise, publish fewer crossing sums, or allow a Markov chain with "
        "allow_mcmc=True"
    )


def _elimination_work(structure: Structure, cells: NDArray[np.int64], epsilon: Fraction) -> float:
    """Estimate the multiplications of an elimination from the spread of the class sums."""
    sums = _sums(structure, cells)
    rate = float(epsilon)
    variance = structure.class_sizes / (2 * np.sinh(rate / 2) ** 2)
    height = np.maximum(np.abs(sums.heights), 1)
    half = np.full(sums.system.shape[1], np.inf)
    inside = sums.variables >= 0
    np.minimum.at(half, sums.variables[inside], ((60 / rate + 9 * np.sqrt(variance)) / height)[inside])
    reach = 9 * np.sqrt(abs(sums.system) ** 2 @ (half / 9) ** 2) + 60 / rate
    work = 0.0
    for row, near, variables in zip(sums.order.rows, sums.order.open_rows, sums.order.variables, strict=True):
        scope = [row, *near]
        work += float(np.sum(2 * half[variables])) * float(np.prod(2 * reach[scope]))
    return work


def _elimination_part(structure: Structure, cells: NDArray[np.int64], epsilon: Fraction) -> Part:
    sums = _sums(structure, cells)
    members = [np.flatnonzero(sums.variables == v) for v in range(sums.system.shape[1])]
    potentials = [
        product([(class_sum(int(structure.class_sizes[c]), epsilon), int(sums.heights[c])) for c in group])
        for group in members
    ]
    law = Elimination(sums.system, [0] * sums.system.shape[0], potentials)
    place = np.full(structure.blocks.size, -1)
    place[cells] = np.arange(cells.size)
    of_class = [place[np.flatnonzero(structure.classes == c)] for c in range(structure.class_sizes.size)]

    def draw(size: int, tape: Tape) -> NDArray[np.int64]:
        noise = np.empty((size, cells.size), dtype=np.int64)
        w = law.draw(size, tape)
        for v, group in enumerate(members):
            for c in group:
                totals = sums.heights[c] * w[:, v]
                for total in np.unique(totals):
                    rows = np.flatnonzero(totals == total)
                    drawn = draw_class(of_class[c].size, int(total), epsilon, tape, size=rows.size)
                    noise[rows[:, np.newaxis], of_class[c]] = drawn
        return noise

    return Part("elimination", cells, draw)


@lru_cache(maxsize=64)
def _sums_of(structure: Structure, block: int) -> Any:
    block_of_class = structure.blocks[structure.lattice.representatives]
    return core_sums(structure.class_system, structure.lattice.class_basis, block_of_class == block)


def _sums(structure: Structure, cells: NDArray[np.int64]) -> Any:
    return _sums_of(structure, int(structure.blocks[cells[0]]))


# -- Gaussian and l2 Laplace ----------------------------------------------------------------------------


def _gaussian_parts(structure: Structure, sigma_squared: Fraction) -> list[Part]:
    whole = _gaussian_part(klein(structure.lattice, structure.tables), np.arange(structure.blocks.size), sigma_squared)
    if whole.acceptance is not None and whole.acceptance >= LEAST:
        return [whole]
    order = np.argsort(structure.blocks, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(structure.blocks))[:-1])
    bases = [_block_klein(structure, cells) for cells in groups]
    parts = [_gaussian_part(basis, cells, sigma_squared) for basis, cells in zip(bases, groups, strict=True)]
    kept = [part.acceptance or 0.0 for part in parts]
    hardest = int(np.argmin(kept))
    if kept[hardest] < HOPELESS:
        basis = bases[hardest]
        works = _widened(float(sigma_squared) ** 0.5, lambda sigma: gaussian_acceptance(basis, Fraction(sigma) ** 2))
        raise InvariantError(_hopeless(parts[hardest], f"sigma = {works:.2g}"))
    return parts


def _gaussian_part(basis: Klein, cells: NDArray[np.int64], sigma_squared: Fraction) -> Part:
    return Part(
        "Klein",
        cells,
        lambda size, tape: draw_gaussian(basis, sigma_squared, tape, size=size),
        gaussian_acceptance(basis, sigma_squared),
    )


def _mixture_part(structure: Structure, epsilon: Fraction) -> Part:
    basis = klein(structure.lattice, structure.tables)
    mixture = Mixture(basis, epsilon)
    part = Part("mixture", np.arange(structure.blocks.size), mixture.draw, mixture_acceptance(mixture))
    if (part.acceptance or 0.0) < HOPELESS:
        works = 1 / _widened(1 / float(epsilon), lambda scale: mixture_acceptance(Mixture(basis, 1 / Fraction(scale))))
        raise InvariantError(_hopeless(part, f"epsilon = {works:.2g}"))
    return part


def _widened(scale: float, acceptance: Callable[[float], float]) -> float:
    """Find a scale of the noise from which on its acceptance is not hopeless, to a few percent."""
    low = high = scale
    while acceptance(high) < HOPELESS:
        low, high = high, 2 * high
    for _ in range(4):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if acceptance(middle) < HOPELESS else (low, middle)
    return 1.05 * high  # clear of rounding to two digits


def _hopeless(part: Part, works: str) -> str:
    return (
        f"the noise is narrow beside the steps of this lattice over {part.cells.size:,} cells, so that exact sampling "
        f"would keep about {part.acceptance:.0e} of its attempts; from about {works} on it can be drawn"
    )


def _block_klein(structure: Structure, cells: NDArray[np.int64]) -> Klein:
    wanted, block = np.unique(structure.classes[cells]), structure.blocks[cells[0]]
    own = [t for t in structure.tables if structure.blocks[structure.lattice.representatives[t.classes[0]]] == block]
    tables = [replace(table, classes=np.searchsorted(wanted, table.classes)) for table in own]
    return klein(_restricted(structure.lattice, cells), tables)


def _restricted(lattice: Lattice, cells: NDArray[np.int64]) -> Lattice:
    """Return the part of a lattice over the cells of one or more blocks."""
    wanted, classes = np.unique(lattice.classes[cells], return_inverse=True)
    place = np.full(lattice.classes.size, -1)
    place[cells] = np.arange(cells.size)
    rows = sparse.csr_array(lattice.class_basis)[wanted]
    basis = sparse.csc_array(rows)
    basis = sparse.csc_array(basis[:, np.flatnonzero(np.diff(basis.indptr))])
    return Lattice(classes, place[lattice.representatives[wanted]], basis, lattice.certificate)
