"""Steps of PyMC's samplers that are kept on the disk, so that a chain goes on after a kill from where it was.

All steps of a model are put behind one that hands PyMC what they give, notes it, and now and then keeps it with their
state (`ppdinf._internal.checkpoint`). Begun again, it hands out the kept steps first, sets the states as they were
after the last, and goes on: PyMC sees one chain, whose draws are those that a chain without interruption has.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
from numpy.typing import ArrayLike

from ppdinf._internal.checkpoint import KeptChain
from ppdinf._internal.pymc_compat import (
    STEP_METHODS,
    BlockedStep,
    CompoundStep,
    assign_step_methods,
    instantiate_steppers,
)
from ppdinf._internal.types import Array
from ppdinf.samplers.lattice_gibbs import LatticeGibbs

__all__ = ["KeptSteps", "kept_steps", "one_rounding"]

type Point = dict[str, Array]
type Noted = dict[str, ArrayLike]
"""What a step says of itself, by name: numbers, and for `warning` an object of PyMC, which is not looked at."""


@contextmanager
def one_rounding() -> Iterator[None]:
    """Compile graphs such that they always round in one way, in processes that are begun meanwhile, too.

    PyTensor lets its compiler reorder arithmetic by default. Fresh from the compiler a function may then differ in its
    last bits from the same one out of PyTensor's cache, and a chain that goes on in another process, or is
    drawn again another day, from the one that was drawn first.

    Examples
    --------
    >>> import pytensor
    >>> with one_rounding():
    ...     pytensor.config.numba__fastmath
    False
    """
    before = os.environ.get("PYTENSOR_FLAGS")
    os.environ["PYTENSOR_FLAGS"] = ",".join(filter(None, (before, "numba__fastmath=False")))
    try:
        with pytensor.config.change_flags(numba__fastmath=False):
            yield
    finally:
        if before is None:
            del os.environ["PYTENSOR_FLAGS"]
        else:
            os.environ["PYTENSOR_FLAGS"] = before


def kept_steps(
    folder: Path, *, chains: int, tune: int, target_accept: float, random_seed: int, model: pm.Model | None = None
) -> KeptSteps:
    """Return a step for `pm.sample` that keeps all it does: the steps that PyMC chooses, started as it starts them.

    Parameters
    ----------
    folder : path
        Of this work alone: same model, settings, seed. See `ppdinf._internal.checkpoint.kept_folder`.
    chains, tune, target_accept, random_seed
        As for `pm.sample`, which gets all but `target_accept` once more.
    model : pymc.Model, optional

    Returns
    -------
    KeptSteps

    Notes
    -----
    Draws are those of `pm.sample` with PyMC's own samplers and the same seed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, pm.Model():
    ...     x = pm.Normal("x")
    ...     settings = {"chains": 1, "tune": 20, "random_seed": 1}
    ...     quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    ...     steps = kept_steps(Path(folder), target_accept=0.8, **settings)
    ...     idata = pm.sample(20, step=steps, **settings, **quiet)
    """
    model = pm.modelcontext(model)
    seeds = [rng.integers(2**30) for rng in np.random.default_rng(random_seed).spawn(chains)]  # as `pm.sample` does
    _, selected = assign_step_methods(model, methods=STEP_METHODS)
    if [method for method, variables in selected.items() if variables] == [pm.NUTS]:
        starts, nuts = pm.init_nuts(
            chains=chains, model=model, random_seed=seeds, progressbar=False, quiet=True, tune=tune,
            target_accept=target_accept,
        )  # fmt: skip
        return KeptSteps([nuts], folder, list(starts))
    steps = instantiate_steppers(
        model, [], selected, step_kwargs={"nuts": {"target_accept": target_accept}} if pm.NUTS in selected else {},
        initial_point=model.initial_point(seeds[0]), compile_kwargs={},
    )  # fmt: skip
    steps = steps if isinstance(steps, list) else [steps]
    steps.sort(key=lambda step: not isinstance(step, LatticeGibbs))  # PyMC starts no table on its fiber
    return KeptSteps(steps, folder)


class KeptSteps(CompoundStep):
    """Steps in sequence, each kept once it is taken.

    Parameters
    ----------
    methods : list
        Steps of PyMC.
    folder : path
    starts : list of dict, optional
        Where each chain starts; PyMC's own start without it.
    """

    def __init__(self, methods: list[BlockedStep], folder: Path, starts: list[Point] | None = None) -> None:
        super().__init__(methods)
        self._folder, self._starts = folder, starts

    def setup_chain(self, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Prepare a chain, and read what was kept of it."""
        if len(self.methods) == 1:
            self.methods[0].setup_chain(rng, tune, draws)  # alone, a step has the generator of its chain
        else:
            super().setup_chain(rng, tune, draws)
        number = rng.bit_generator.seed_seq.spawn_key[-1]  # type: ignore[attr-defined]
        self._chain = KeptChain(self._folder, str(number))
        self._start = None if self._starts is None else self._starts[number]
        self._state: object
        kept, self._state = self._chain.load() or ([], None)
        self._ahead, self._left = deque(kept), tune + draws

    def step(self, point: Point) -> tuple[Point, list[Noted]]:
        """Hand out the next step that was kept, or take one."""
        self._left -= 1
        if self._ahead:
            taken = _step_of(self._ahead.popleft(), point, len(self.stats_dtypes))
            if not self._ahead:
                self.sampling_state, self._start = self._state, None
            return taken
        if self._start is not None:
            point, self._start = self._start, None
        point, stats = super().step(point)
        self._chain.add(_draw_of(point, stats))
        if self._chain.due or not self._left:
            self._chain.keep(self.sampling_state)
        return point, stats


def _draw_of(point: Point, stats: list[Noted]) -> dict[str, ArrayLike]:
    """Join a point and what its steps note, by name; warnings, which are objects, are left out."""
    noted = {f"{k} {name}": value for k, own in enumerate(stats) for name, value in own.items() if name != "warning"}
    return {f"point {name}": np.array(value) for name, value in point.items()} | noted


def _step_of(draw: dict[str, ArrayLike], point: Point, methods: int) -> tuple[Point, list[Noted]]:
    """Part what `_draw_of` joined."""
    stats: list[Noted] = [{} for _ in range(methods)]
    for name, value in draw.items():
        where, _, own = name.partition(" ")
        if where != "point":
            stats[int(where)][own] = value
    return {name: np.asarray(draw[f"point {name}"]) for name in point}, stats  # single numbers, too
