"""Every exact sampler on every small system and law: the offered draws have the stated law.

Every sampler in `OFFERS` is tested. Draws are compared with the enumerated law by chi-square. There are about 200
comparisons, each of which fails by chance with probability 1e-6: the false alarm rate is 2e-4.
"""

import inspect
from functools import cache

import numpy as np
import pytest
from grids import box
from lattice_laws import fit, listed, random_system, two_way

from ppdinf.errors import InvariantError
from ppdinf.lattice import kernel, structure
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, IntegerLaw, L2Laplace, Staircase
from ppdinf.noise import sampler_plan as exact
from ppdinf.noise.exact import rejection
from ppdinf.noise.exact.sampler_offer import Declined, Offer
from ppdinf.noise.exact.scale_mixture import lattice_laplace, mixture, two_way_laplace
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.noise.sampler_plan import OFFERS, exact_noise

RARE = 1e-6
DRAWS = 10_000
LAWS = [DoubleGeometric("3/2"), L2Laplace(2), DiscreteGaussian("2/3"), Staircase(2, 2)]
SYSTEMS = {
    "a total": [[1, 1, 1]],
    "a free cell": [[1, 1, 0]],
    "a fixed cell and two classes": [[1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 1]],
    "crossing sums": [[1, 1, 1, 0], [0, 0, 1, 1]],
    "a class under crossing sums": [[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]],
    "a weighted sum": [[2, 3, 5]],
    "a crossing block and a free cell": [[1, 1, 0, 0], [0, 1, 1, 0], [1, 2, 1, 0]],
    "2 x 3 margins": two_way(2, 3),
    "2 x 4 margins": two_way(2, 4),
    **{f"random {seed}": random_system(np.random.default_rng(70 + seed), largest_rank=2) for seed in range(5)},
}


def sets_of_cells(found):
    """Return sets of cells that samplers may receive: all, all except the simple ones, and every block."""
    every = np.arange(found.blocks.size)
    sizes = np.bincount(found.blocks)
    simple = found.partition | ((sizes == 1) & (found.sum_ranks == 1))
    blocks = [np.flatnonzero(found.blocks == block) for block in range(sizes.size)]
    groups = {tuple(cells.tolist()) for cells in (every, every[~simple[found.blocks]], *blocks) if cells.size}
    return [np.array(cells) for cells in sorted(groups)]


@cache
def enumerated(system, cells, law):
    """Return the law of the noise of complete blocks, each vector with its probability."""
    basis = kernel(np.array(SYSTEMS[system])[:, list(cells)]).basis.toarray()
    reach = {0: 0, 1: 200, 2: 40, 3: 16}[basis.shape[1]]
    z = box(-reach, reach, basis.shape[1]) @ basis.T
    by_cell = isinstance(law, IntegerLaw)
    weights = np.exp(law.log_weight(z).sum(axis=1) if by_cell else [law.log_mass(row) for row in z])
    edge = np.abs(z).max(axis=1) >= reach if basis.shape[1] else np.zeros(1, dtype=bool)
    assert weights[edge].sum() < 1e-6 * weights.sum()
    return listed(z, weights)


def offers(sampler, law):
    for system, A in SYSTEMS.items():
        found = structure(np.array(A))
        for cells in sets_of_cells(found):
            answer = sampler(found, law, cells)
            assert answer is None or isinstance(answer, Offer | Declined)
            if isinstance(answer, Declined):
                assert answer.reason()
            elif answer is not None:
                yield system, cells, answer


def name(value):
    return f"{inspect.getmodule(value).__name__.rpartition('.')[2]}.{value.__name__}" if callable(value) else value.name


# mixtures over scales have separate enumerations in the quick tests
LONG = {"crossing.offer", "crossing_lattice.offer"}


@pytest.fixture
def rough_acceptance(monkeypatch):
    """Short pilot runs: the acceptance rates need not be accurate, and other tests do not reuse them."""
    kept = (two_way_laplace._prepared, lattice_laplace._prepared, rejection._acceptance)
    for function in kept:
        function.cache_clear()
    monkeypatch.setattr(mixture, "PILOT", 2**15)
    monkeypatch.setattr(rejection, "PILOT", rejection.BATCH)
    yield
    for function in kept:
        function.cache_clear()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "sampler", [pytest.param(o, marks=pytest.mark.deep) if name(o) in LONG else o for o in OFFERS], ids=name
)
@pytest.mark.usefixtures("rough_acceptance")
def test_offered_draws_have_the_law(sampler):
    served = 0
    for law in LAWS:
        for n, (system, cells, offer) in enumerate(offers(sampler, law)):
            served += 1
            assert set(offer.cells) <= set(cells), system
            assert offer.acceptance is None or 0 < offer.acceptance <= 1
            draw = offer.build()
            draws = 2_000 if offer.sampler == "scale mixture" else DRAWS  # 1 ms each
            z = draw(draws, seeded_stream(n))
            assert z.shape == (draws, offer.cells.size)
            assert z.dtype == np.int64
            assert np.array_equal(draw(20, seeded_stream(5)), draw(20, seeded_stream(5))), "the stream decides"
            assert not (z @ np.array(SYSTEMS[system])[:, offer.cells].T).any()
            assert fit(z, enumerated(system, tuple(offer.cells.tolist()), law)) > RARE, (system, law, offer)
    assert served > 1, "none of these systems and laws is served: add one"


@pytest.mark.parametrize("law", LAWS[:3], ids=name)
def test_a_wrong_scale_is_rejected(law):
    """The scale has an error of 7 %."""
    wrong = type(law)(next(iter(vars(law).values())) * 107 / 100)
    cells = np.arange(4)
    for sampler in OFFERS:
        answer = sampler(structure(np.array(SYSTEMS["crossing sums"])), wrong, cells)
        if isinstance(answer, Offer):
            z = answer.build()(DRAWS, seeded_stream(0))
            assert fit(z, enumerated("crossing sums", tuple(cells.tolist()), law)) < RARE
            return
    raise AssertionError("no sampler offers")


@pytest.mark.parametrize("law", LAWS[:3], ids=name)
@pytest.mark.parametrize("system", ["a fixed cell and two classes", "a crossing block and a free cell"])
def test_parts_together_have_the_law(system, law):
    """A system of several blocks, drawn by the samplers of its parts."""
    A = np.array(SYSTEMS[system])
    noise = exact_noise(structure(A), law)
    assert sorted(np.concatenate([part.cells for part in noise.parts])) == list(range(A.shape[1]))
    assert fit(noise.draw(DRAWS, seeded_stream(3)), enumerated(system, tuple(range(A.shape[1])), law)) > RARE


def test_refusals_state_every_reason(monkeypatch):
    monkeypatch.setattr(mixture, "PILOT", 2**15)  # the small acceptance rate need not be accurate
    with pytest.raises(InvariantError) as refused:
        exact_noise(structure(two_way(14, 14)), DoubleGeometric(2))
    for reason in (
        "196 cells",
        "elimination would take",
        "the acceptance rate of a mixture over scales",
        "the acceptance rate of rejection",
        "l2 or Gaussian",
        "allow_mcmc=True",
    ):
        assert reason in str(refused.value)
    with pytest.raises(InvariantError, match="too much for exact staircase noise: elimination would take"):
        exact_noise(structure(two_way(14, 14)), LAWS[3])


def test_the_hardest_cells_are_named():
    """For blocks of 900 and 100 cells with too narrow noise, the message states noise that is valid for both."""
    A = np.block([[two_way(10, 10), np.zeros((20, 900), int)], [np.zeros((60, 100), int), two_way(30, 30)]])
    with pytest.raises(InvariantError, match=r"900 cells .* from about sigma = 0\.\d+ can"):
        exact_noise(structure(A), DiscreteGaussian("1/2"))


def test_failures_in_set_up_count_as_declined(monkeypatch):
    def fails():
        raise InvariantError("tables turned out too large")

    def offers_and_fails(structure, law, cells):
        return Offer("promising", cells, fails)

    monkeypatch.setattr(exact, "OFFERS", (offers_and_fails, *OFFERS))
    noise = exact_noise(structure([[1, 1, 1]]), DoubleGeometric(1))
    assert [part.sampler for part in noise.parts] == ["class"]
    monkeypatch.setattr(exact, "OFFERS", (offers_and_fails,))
    with pytest.raises(InvariantError, match="tables turned out too large"):
        exact_noise(structure([[1, 1, 1]]), DoubleGeometric(1))
