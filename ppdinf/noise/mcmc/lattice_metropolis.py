"""The published sampler of integer subspace noise: Metropolis on a basis of the lattice, and its coupling.

Target: a `Law` on {z : A z = 0}. State: coordinates v with z = B v, where the columns of B are a basis of the lattice.
Kernel: add independent double geometric steps e_j of ratio a to all coordinates and accept the new point with
probability min(1, q(z + B e) / q(z)). The loop bounds and the rows of V in the paper are interpreted by its text: the
moving coordinates are the d - k columns of V that span the kernel.

References
----------
P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI 2023,
Algorithms 1 to 3 and equation (11).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy import sparse

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.values import Integers
from ppdinf.errors import PrivacyError
from ppdinf.lattice.kernel import kernel
from ppdinf.lattice.systems import MatrixLike, compressed
from ppdinf.laws import Law
from ppdinf.laws.additive_law import double_geometric, log_mass
from ppdinf.noise.mcmc.tv_bound import NoiseChain


class Jumps(NamedTuple):
    """Input of the compiled chain: law, basis by columns, and rate of the jumps."""

    kind: int
    scale: float
    d: int
    starts: Integers
    cells: Integers
    steps: Integers
    rate: float


def jumps(basis: MatrixLike, law: Law, a: float) -> Jumps:
    """Prepare Algorithm 1."""
    if not 0 < a < 1:
        raise PrivacyError(f"a must satisfy 0 < a < 1, found {a!r}")
    columns = sparse.csc_array(basis)
    return Jumps(*law.kernel_id, columns.shape[0], *compressed(columns), rate=-math.log(a))


class LatticeMetropolis(NoiseChain):
    """The published Markov chain of integer noise that keeps public sums, and its L-lag coupling.

    The package itself draws this noise exactly (`ppdinf.GeneralizedLaplace`). Use the chain to repeat or extend the
    published experiments.

    Parameters
    ----------
    A : array_like or scipy sparse of int, shape (k, d)
        Public sums: the noise z satisfies A z = 0.
    law : Law
        Target: `ppdinf.laws.DoubleGeometric` (l1), `ppdinf.laws.L2Laplace` or `ppdinf.laws.DiscreteGaussian`.
    a : float
        Ratio of the double geometric jumps of each coordinate, in (0, 1). The paper uses exp(-1) to exp(-2.5).

    Raises
    ------
    InvariantError
        A is invalid.
    PrivacyError
        `a` is not in (0, 1), or the law is not one of the three.

    See Also
    --------
    ppdinf.diagnostics.tv_bound, ppdinf.noise.IndependenceMetropolis, ppdinf.lattice.kernel

    References
    ----------
    P. Dharangutte et al., "Integer subspace differential privacy", AAAI 2023, Algorithms 1 (`draw`), 2 and 3
    (`meeting`). A step costs the number of non-zero entries of the basis.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> chain = ppd.noise.LatticeMetropolis([[1, 1, 1]], ppd.laws.DoubleGeometric(1), 0.4)
    >>> bound = ppd.diagnostics.tv_bound(chain.meeting, pairs=500, rng=1)
    >>> noise, accepted = chain.draw(100, burn=bound.steps(0.02), rng=1)
    >>> noise.shape, int(abs(noise.sum(axis=2)).max())
    ((1, 100, 3), 0)
    """

    def __init__(self, A: MatrixLike, law: Law, a: float) -> None:
        self.system = jumps(kernel(A).basis, law, a)

    def _run(self, draws: int, thin: int, burn: int, rng: Generator) -> tuple[Integers, float]:
        return _run(self.system, draws, thin, burn, rng)

    def meeting(self, lag: int, limit: int, rng: Generator) -> int:
        """Return a meeting time: Algorithm 3 with the joint kernel of Algorithm 2."""
        return _meeting(self.system, lag, limit, rng)


@jit
def _run(system: Jumps, draws: int, thin: int, burn: int, rng: Generator) -> tuple[Integers, float]:
    """Run Algorithm 1 from a draw of the jump distribution, as the paper suggests."""
    out = np.empty((draws, system.d), np.int64)
    z, e, accepted = np.zeros(system.d, np.int64), np.empty(system.starts.size - 1, np.int64), 0
    jump(e, system.rate, rng)
    move(z, e, 1, system)
    for iteration in range(burn + draws * thin):
        jump(e, system.rate, rng)
        accepted += metropolis(z, e, system, rng.random())
        if iteration >= burn and (iteration - burn) % thin == thin - 1:
            out[(iteration - burn) // thin] = z
    return out, accepted / (burn + draws * thin)


@jit
def jump(e: Integers, rate: float, rng: Generator) -> None:
    """Draw the jump of each coordinate."""
    for j in range(e.size):
        e[j] = double_geometric(rate, rng)


@jit
def move(z: Integers, e: Integers, sign: int, system: Jumps) -> tuple[int, int]:
    """Add ``sign * B e`` to z in place; return the changes of |z|_1 and |z|_2^2."""
    absolute, squares = 0, 0
    for j in range(e.size):
        if e[j]:
            for k in range(system.starts[j], system.starts[j + 1]):
                i = system.cells[k]
                before = z[i]
                z[i] += sign * e[j] * system.steps[k]
                absolute += abs(z[i]) - abs(before)
                squares += z[i] * z[i] - before * before
    return absolute, squares


@jit
def metropolis(z: Integers, e: Integers, system: Jumps, u: float) -> bool:
    """Move z by the jump e if the uniform u is at most the ratio of masses; return whether it moved."""
    squares = 0
    for i in range(z.size):
        squares += z[i] * z[i]
    more_absolute, more_squares = move(z, e, 1, system)
    gain = log_mass(system.kind, system.scale, more_absolute, squares + more_squares)
    if u <= math.exp(min(0.0, gain - log_mass(system.kind, system.scale, 0, squares))):
        return True
    move(z, e, -1, system)
    return False


@jit
def _meeting(system: Jumps, lag: int, limit: int, rng: Generator) -> int:
    m = system.starts.size - 1
    v, w, e, f = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64)
    z, y = np.zeros(system.d, np.int64), np.zeros(system.d, np.int64)
    jump(v, system.rate, rng)
    jump(w, system.rate, rng)
    move(z, v, 1, system)
    move(y, w, 1, system)
    for _ in range(lag):
        jump(e, system.rate, rng)
        if metropolis(z, e, system, rng.random()):
            v += e
    for time in range(lag + 1, limit + 1):
        pair_step(z, y, v, w, e, f, system, rng)
        if (v == w).all():
            return time
    return -1


@jit
def pair_step(
    z: Integers, y: Integers, v: Integers, w: Integers, e: Integers, f: Integers, system: Jumps, rng: Generator
) -> None:
    """Move two chains together: z = B v and y = B w, in place; e and f receive the proposed jumps."""
    for j in range(v.size):
        e[j] = double_geometric(system.rate, rng)
        f[j] = coupled_jump(v[j], w[j], e[j], system.rate, rng)
    u = rng.random()
    if metropolis(z, e, system, u):
        v += e
    if metropolis(y, f, system, u):
        w += f


@jit
def coupled_jump(v: int, w: int, e: int, rate: float, rng: Generator) -> int:
    """Draw a jump f from w such that v + e and w + f agree with the largest possible probability."""
    f = v + e - w
    if rng.random() <= math.exp(-rate * (abs(f) - abs(e))):
        return f
    while True:
        f = double_geometric(rate, rng)
        if rng.random() > math.exp(-rate * (abs(w + f - v) - abs(f))):
            return f
