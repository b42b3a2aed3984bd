"""Every exact sampler on small systems: draws have the enumerated law, and wrong variants of each are rejected.

Draws are compared with the enumerated law by chi-square and by total variation. There are about 400 comparisons, each
of which fails by chance with probability 1e-6: the false alarm rate is 4e-4.
"""

import inspect
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from lattice_laws import KINDS, enumerated, fit, law_of, margins_law, random_system, total_variation, two_way
from scipy.linalg import block_diag

from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice import kernel, structure
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, L2Laplace, Staircase
from ppdinf.noise import sampler_plan
from ppdinf.noise.exact import klein as klein_module
from ppdinf.noise.exact import l2_laplace_mixture as l2_mixture
from ppdinf.noise.exact import lattice_gaussian as gaussian
from ppdinf.noise.exact import rejection, theta
from ppdinf.noise.exact.klein import klein
from ppdinf.noise.exact.l2_laplace_mixture import L2Mixture
from ppdinf.noise.exact.lattice_gaussian import draw_gaussian
from ppdinf.noise.exact.potentials import class_sum
from ppdinf.noise.exact.rejection import draw_by_rejection, rejection_acceptance, split_lattice
from ppdinf.noise.exact.sampler_offer import Declined, Offer
from ppdinf.noise.exact.scale_mixture import lattice_laplace, mixture, two_way_laplace
from ppdinf.noise.exact.variable_elimination import Elimination
from ppdinf.noise.primitives import enclosures
from ppdinf.noise.primitives.stream import secure_stream, seeded_stream
from ppdinf.noise.sampler_plan import OFFERS, exact_noise

RARE = 1e-6
DRAWS = 10_000


def has_law(z, A, truth):
    """Return whether draws have zero sums and the law, by chi-square and by total variation."""
    distance, expected = total_variation(z, truth)
    return not (z @ np.transpose(A)).any() and fit(z, truth) > RARE and distance < expected + 0.02


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


# -- samplers one by one, on random lattices ------------------------------------------------------------------


def of_gaussian(A, sigma):
    basis = klein(kernel(A))
    return lambda size, stream: draw_gaussian(basis, sigma**2, stream, size=size)


def of_l2(A, epsilon):
    return L2Mixture(klein(kernel(A)), epsilon).draw


def of_rejection(A, epsilon):
    split = split_lattice(kernel(A))
    return split and (lambda size, stream: draw_by_rejection(split, epsilon, stream, size=size))


def of_elimination(A, epsilon):
    if len(A) > 2:  # three crossing weighted sums raise
        return None
    law = Elimination(A, [0] * len(A), [class_sum(1, epsilon)] * A.shape[1])
    at_zero = np.tanh(float(epsilon) / 2) ** A.shape[1]
    expected = np.log(at_zero / enumerated(A, "l1", epsilon)[(0,) * A.shape[1]])
    assert law.log_normaliser == pytest.approx(expected, abs=1e-9)
    return law.draw


def of_plan(kind):
    def sampler(A, scale):
        try:
            noise = exact_noise(structure(A), KINDS[kind](scale))
        except InvariantError:  # three crossing weighted sums under l1
            assert kind == "l1"
            return None
        share = 10 if "scale mixture" in noise.sampler else 1  # 1 ms each
        return lambda size, stream: noise.draw(size // share, stream)

    return sampler


# Kind of law, sampler, scales in turn, number of systems, largest rank.
SAMPLERS = {
    "Klein": ("gaussian", of_gaussian, ["1/2", "3/2", "2/3", "10/11", "2"], 40, 3),
    "l2 mixture": ("l2", of_l2, ["3/2", "3", "10/11", "2"], 12, 2),
    "rejection": ("l1", of_rejection, ["3/2", "1", "10/11", "2"], 32, 2),
    "elimination": ("l1", of_elimination, ["3/2", "10/11", "3"], 12, 2),
    "plan of l1": ("l1", of_plan("l1"), ["3/2"], 10, 2),
    "plan of l2": ("l2", of_plan("l2"), ["2"], 10, 2),
    "plan of Gaussian": ("gaussian", of_plan("gaussian"), ["2/3"], 10, 2),
}


@pytest.mark.quick_cases(25)
@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, case in SAMPLERS.items() for seed in range(case[3])])
@pytest.mark.usefixtures("rough_acceptance")
def test_random_lattices(name, seed):
    kind, sampler, scales, _, rank = SAMPLERS[name]
    rng, scale, draw = (
        np.random.default_rng([seed, 10 + list(SAMPLERS).index(name)]),
        Fraction(scales[seed % len(scales)]),
        None,
    )
    while draw is None:
        A = random_system(rng, largest_rank=min(rank, 2 + seed % 2))
        draw = sampler(A, scale)
    assert has_law(draw(20_000, seeded_stream(seed)), A, enumerated(A, kind, scale))


# -- wrong variants on the margins of a 3 x 3 table -----------------------------------------------------------


def exponents_times(factor):
    """Return an acceptance step with another exponent."""
    right = enclosures.draw_bernoulli
    return lambda logs, error, enclose, stream: right(factor * logs, error, enclose, stream)


def always(logs, *_):
    return np.ones(len(logs), dtype=bool)


def class_of_wrong_rate(n, total, epsilon, *rest, right=rejection.draw_class, **size):
    return right(n, total, epsilon * Fraction(21, 20), *rest, **size)


WRONG = [  # sampler, scale, draws, and what is replaced
    ("Klein", "1/2", 200_000, {}),
    ("Klein", "21/40", 200_000, {}),
    ("Klein", "1/2", 200_000, {(gaussian, "draw_bernoulli"): always}),
    ("Klein", "1/2", 200_000, {(gaussian, "draw_bernoulli"): exponents_times(0.5)}),
    ("l2 mixture", "5/2", 100_000, {}),
    ("l2 mixture", "21/8", 100_000, {}),
    ("l2 mixture", "5/2", 100_000, {(l2_mixture, "draw_bernoulli"): always}),
    # 1e-23 to 1e-39 for three seeds
    ("l2 mixture", "5/2", 400_000, {(l2_mixture, "draw_bernoulli"): exponents_times(0.5)}),
    # integrals instead of the masses of the integers
    ("l2 mixture", "5/2", 100_000, {(theta, "log_gaussian_mass"): lambda v: 0.5 * np.log(2 * np.pi * v)}),
    ("rejection", "3/2", 200_000, {}),
    ("rejection", "63/40", 200_000, {}),
    ("rejection", "3/2", 200_000, {(rejection, "draw_bernoulli"): always}),
    ("rejection", "3/2", 200_000, {(rejection, "draw_bernoulli"): exponents_times(0.9)}),
    ("rejection", "3/2", 200_000, {(rejection, "draw_class"): class_of_wrong_rate}),
]
RIGHT = {"Klein": "1/2", "l2 mixture": "5/2", "rejection": "3/2"}


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize(("name", "scale", "size", "replaced"), WRONG)
def test_wrong_variants_are_rejected(monkeypatch, name, scale, size, replaced):
    kind, sampler, *_ = SAMPLERS[name]
    for (module, attribute), value in replaced.items():
        monkeypatch.setattr(module, attribute, value)
    z = sampler(two_way(3, 3), Fraction(scale))(size, seeded_stream(3))
    is_right = not replaced and scale == RIGHT[name]
    assert (fit(z, margins_law(float(Fraction(RIGHT[name])), kind)) > RARE) == is_right


@pytest.mark.quick_cases(0)
def test_wrong_centers_without_rejection(monkeypatch):
    monkeypatch.setattr(gaussian, "draw_bernoulli", always)
    basis = klein(kernel(two_way(3, 3)))
    uncentered = replace(basis, factors=np.zeros_like(basis.factors))
    z = draw_gaussian(uncentered, Fraction(1, 4), seeded_stream(3), size=200_000)
    assert fit(z, margins_law(0.5)) < RARE


# -- decisions in ball arithmetic, and empty draws ------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "A", "scale", "size"),
    [
        ("Klein", [[1, 1, 1, 2]], Fraction(7, 10), 60),
        ("Klein", [[1, 1, 1, 2]], Fraction(10**5), 20),
        ("l2 mixture", [[1, 1, 2]], Fraction(2), 20),
        ("rejection", two_way(2, 3), Fraction(1), 30),
    ],
)
def test_ball_arithmetic_gives_the_same_decisions(monkeypatch, name, A, scale, size):
    usual = SAMPLERS[name][1](np.array(A), scale)(size, seeded_stream(5))
    monkeypatch.setattr(klein_module, "_draw_coordinates", klein_module._draw_coordinates.py_func)
    monkeypatch.setattr(klein_module, "ERROR", 1e6)  # comparisons of doubles decide nothing
    monkeypatch.setattr(enclosures, "ROUNDING", 1e6)
    before = L2Mixture.__init__

    def undecided(self, *arguments):
        before(self, *arguments)
        self._margin = 2.0

    monkeypatch.setattr(L2Mixture, "__init__", undecided)
    np.testing.assert_array_equal(SAMPLERS[name][1](np.array(A), scale)(size, seeded_stream(5)), usual)


@pytest.mark.parametrize("name", ["Klein", "l2 mixture"])
def test_empty_draws(name):
    sampler = SAMPLERS[name][1]
    assert sampler(np.eye(3, dtype=int), Fraction(1))(4, seeded_stream(1)).shape == (4, 3)
    assert sampler(np.array([[1, 1]]), Fraction(1))(0, seeded_stream(1)).shape == (0, 2)


# -- rejection ------------------------------------------------------------------------------------------------


def test_rejection_on_four_by_four():
    split = split_lattice(kernel(two_way(4, 4)))
    assert rejection_acceptance(split, Fraction(1, 4)) == pytest.approx(0.033, rel=0.05)
    z = draw_by_rejection(split, Fraction(1, 4), secure_stream(), size=4000)
    assert not (z @ two_way(4, 4).T).any()
    # all cells have the same law by symmetry, although they are drawn in four different ways
    sizes = np.abs(z).mean(0)
    assert sizes.max() / sizes.min() < 1.15


def test_a_basis_is_transformed_to_have_an_identity_block():
    sets = np.array([[1, 0, 0, 1, 1, 0, 1], [0, 1, 0, 1, 0, 1, 1], [0, 0, 1, 0, 1, 1, 1]])
    z = of_rejection(sets, Fraction(1))(20_000, seeded_stream(1))
    assert not (z @ sets.T).any()
    # by symmetry between the sets
    sizes = np.abs(z).mean(0)
    assert np.ptp(sizes[:3]) < 0.05
    assert np.ptp(sizes[3:6]) < 0.05


def test_rejection_without_free_cells_and_with_extreme_epsilon():
    assert split_lattice(kernel([[2, 3, 5]])) is None
    split = split_lattice(kernel(two_way(3, 3)))
    assert np.abs(draw_by_rejection(split, Fraction(1, 10**6), seeded_stream(1), size=50)).mean() > 10**5
    with pytest.raises(PrivacyError, match="epsilon"):
        draw_by_rejection(split, 0.5, seeded_stream(1))


def test_blocks_of_the_same_form_have_one_pilot_run(monkeypatch):
    """30 tables of 3 x 4 and a table of 3 x 3, each with both margins: two pilot runs, with different rates."""
    rates, estimate = [], rejection_acceptance
    monkeypatch.setattr(rejection, "rejection_acceptance", lambda *of: rates.append(estimate(*of)) or rates[-1])
    monkeypatch.setattr(rejection, "PILOT", rejection.BATCH)
    rejection._acceptance.cache_clear()
    found = structure(block_diag(*[two_way(3, 4)] * 30, two_way(3, 3)))
    blocks = [np.flatnonzero(found.blocks == block) for block in range(31)]
    offered = [rejection.offer(found, DoubleGeometric("1/3"), cells).acceptance for cells in blocks]
    rejection._acceptance.cache_clear()
    assert offered == [rates[0]] * 30 + [rates[1]]
    assert len(rates) == 2
    assert rates[0] < rates[1]


# -- every offer on every system and law ----------------------------------------------------------------------

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


def truth_of(system, cells, law):
    """Return the law of the noise of complete blocks."""
    return law_of(np.array(SYSTEMS[system])[:, cells], law)


def name_of(value):
    return f"{inspect.getmodule(value).__name__.rpartition('.')[2]}.{value.__name__}" if callable(value) else value.name


# mixtures over scales have separate enumerations in the quick tests
LONG = {"two_way_laplace.offer", "lattice_laplace.offer"}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "sampler", [pytest.param(o, marks=pytest.mark.deep) if name_of(o) in LONG else o for o in OFFERS], ids=name_of
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
            assert fit(z, truth_of(system, offer.cells, law)) > RARE, (system, law, offer)
    assert served > 1, "none of these systems and laws is served: add one"


@pytest.mark.parametrize("law", LAWS[:3], ids=name_of)
def test_a_wrong_scale_is_rejected(law):
    """The scale has an error of 7 %."""
    wrong = type(law)(next(iter(vars(law).values())) * 107 / 100)
    cells = np.arange(4)
    answers = [sampler(structure(np.array(SYSTEMS["crossing sums"])), wrong, cells) for sampler in OFFERS]
    offer = next(answer for answer in answers if isinstance(answer, Offer))
    assert fit(offer.build()(DRAWS, seeded_stream(0)), truth_of("crossing sums", cells, law)) < RARE


@pytest.mark.parametrize("law", LAWS[:3], ids=name_of)
@pytest.mark.parametrize("system", ["a fixed cell and two classes", "a crossing block and a free cell"])
def test_parts_together_have_the_law(system, law):
    """A system of several blocks, drawn by the samplers of its parts."""
    A = np.array(SYSTEMS[system])
    noise = exact_noise(structure(A), law)
    assert sorted(np.concatenate([part.cells for part in noise.parts])) == list(range(A.shape[1]))
    assert fit(noise.draw(DRAWS, seeded_stream(3)), law_of(A, law)) > RARE


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

    monkeypatch.setattr(sampler_plan, "OFFERS", (offers_and_fails, *OFFERS))
    noise = exact_noise(structure([[1, 1, 1]]), DoubleGeometric(1))
    assert [part.sampler for part in noise.parts] == ["class"]
    monkeypatch.setattr(sampler_plan, "OFFERS", (offers_and_fails,))
    with pytest.raises(InvariantError, match="tables turned out too large"):
        exact_noise(structure([[1, 1, 1]]), DoubleGeometric(1))
