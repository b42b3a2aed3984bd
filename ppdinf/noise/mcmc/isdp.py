"""The published sampler of integer subspace noise: Metropolis on a basis of the lattice.

Target: a `Law` on {z : A z = 0}. State: coordinates v with z = B v, where the columns of B are a basis of the lattice.
Kernel: add independent double geometric steps e_j of ratio a to all coordinates and accept the new point with
probability min(1, q(z + B e) / q(z)). This is the published algorithm, as a reference for other samplers. The loop
bounds and the rows of V in the paper are interpreted by its text: the moving coordinates are the d - k columns of V
that span the kernel.

References
----------
P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI 2023,
Algorithm 1 and equation (11).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf._internal.numba_jit import jit
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice.systems import MatrixLike
from ppdinf.laws import Law
from ppdinf.laws.additive_law import double_geometric, log_mass
from ppdinf.noise.mcmc.lattice_gibbs_noise import Ints
from ppdinf.noise.mcmc.tv_bound import chains_in_threads


class Jumps(NamedTuple):
    """Input of the compiled chain: law, basis by columns, and rate of the jumps."""

    kind: int
    scale: float
    d: int
    starts: Ints
    cells: Ints
    steps: Ints
    rate: float


def jumps(basis: MatrixLike, law: Law, a: float) -> Jumps:
    """Prepare Algorithm 1."""
    if not 0 < a < 1:
        raise PrivacyError(f"a must satisfy 0 < a < 1, found {a!r}")
    columns = sparse.csc_array(basis)
    if columns.dtype.kind not in "iu":
        raise InvariantError(
            f"basis must have integer entries, found {columns.dtype}; use ppdinf.lattice.kernel(A).basis"
        )
    kind, scale = law.kernel_id
    return Jumps(
        kind=kind,
        scale=scale,
        d=columns.shape[0],
        starts=columns.indptr.astype(np.int64),
        cells=columns.indices.astype(np.int64),
        steps=columns.data.astype(np.int64),
        rate=-math.log(a),
    )


def isdp(
    system: Jumps,
    draws: int,
    *,
    thin: int = 1,
    burn: int = 0,
    chains: int = 1,
    rng: int | np.random.Generator,
    threads: int | None = None,
) -> tuple[Ints, NDArray[np.float64]]:
    """Run Algorithm 1 from a draw of the jump distribution, as the paper suggests."""
    return chains_in_threads(lambda g: _run(system, draws, thin, burn, g), chains, rng=rng, threads=threads)


@jit
def _run(system: Jumps, draws: int, thin: int, burn: int, rng: np.random.Generator) -> tuple[Ints, float]:
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
def jump(e: Ints, rate: float, rng: np.random.Generator) -> None:
    """Draw the jump of each coordinate."""
    for j in range(e.size):
        e[j] = double_geometric(rate, rng)


@jit
def move(z: Ints, e: Ints, sign: int, system: Jumps) -> tuple[int, int]:
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
def metropolis(z: Ints, e: Ints, system: Jumps, u: float) -> bool:
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
