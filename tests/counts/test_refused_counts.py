"""What mechanisms for counts refuse: the error, and what its message states."""

import numpy as np
import pytest

import ppdinf as ppd
from ppdinf.counts import TwoStage, bounded_geometric, heuristic, noisy_histogram, optimal, unfixed
from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.noise.primitives.stream import seeded_stream

HALVES = [0.5, 0.5]
STAGE = TwoStage(1, 5)
EVEN, DISTANCES = np.full(3, 1 / 3), np.abs(np.subtract.outer(range(3), range(3))).astype(float)


def noisy(privatizer, **more):
    return noisy_histogram([50] * 8, 1, seeded_stream(1), privatizer, **more)


REFUSED = [
    *((lambda build=build, epsilon=epsilon: build(HALVES, epsilon), PrivacyError, "epsilon")
      for build in (heuristic, optimal, unfixed) for epsilon in (0, "1e-7", 101, 10**9)),
    (lambda: heuristic([0.5, 0.4], 1), PrivacyError, "must sum to 1"),
    (lambda: heuristic([1.5, -0.5], 1), PrivacyError, "non-negative"),
    (lambda: heuristic([1.0], 1), PrivacyError, "at least two"),
    (lambda: heuristic([HALVES], 1), PrivacyError, "one-dimensional"),
    (lambda: heuristic(["a", "b"], 1), PrivacyError, "numbers only"),
    (lambda: heuristic([np.nan, 1], 1), PrivacyError, "finite"),
    (lambda: heuristic(HALVES, 1, "widest"), PrivacyError, "selector must be one of"),
    (lambda: optimal(HALVES, 1, weights=np.ones(3)), PrivacyError, "a matrix of shape"),
    (lambda: heuristic(HALVES, 1).simulate([2]), CountError, "counts must be from 0 to"),
    (lambda: ppd.counts.single_peaked(4, 4), PrivacyError, "peak"),
    (lambda: ppd.counts.scales(21, 1), PrivacyError, r"2\^\(n - 1\)"),
    (lambda: ppd.counts.scale([2, 3], 1), PrivacyError, "pattern"),
    (lambda: ppd.counts.affinely_simplified(ppd.counts.staircase(4, 1)), PrivacyError, "must be stored as scales"),
    (lambda: ppd.counts.affinely_simplified(ppd.counts.truncated_geometric(4, 1)), PrivacyError, "have a fixed point"),
    (lambda: ppd.counts.histogram([0, 5], 5), CountError, "counts must be from 0 to"),
    (lambda: ppd.counts.histogram([-1, 0], 5), CountError, "counts must be from 0 to"),
    (lambda: ppd.counts.histogram([0.5], 5), CountError, "integers only"),
    (lambda: ppd.counts.to_distribution([30, -4, 10], "sort"), PrivacyError, "postprocessing"),
    (lambda: noisy("smooth"), PrivacyError, "privatizer must be"),
    (lambda: noisy("cyclic-gaussian"), PrivacyError, "delta"),
    (lambda: noisy("cyclic-gaussian", delta=2), PrivacyError, "delta"),
    (lambda: noisy("laplace", delta="1/1000"), PrivacyError, "not allowed for others"),
    (lambda: STAGE.release([5]), CountError, "from 0 to n - 1 = 4"),
    (lambda: STAGE.release([1], rng=3), PrivacyError, "takes no 'rng'"),
    (lambda: STAGE.mechanism, PrivacyError, "requires the privatized histogram"),
    (lambda: STAGE.release([1, 2]).mechanism.release([1, 2]), PrivacyError, "already belongs to a release"),
    (lambda: TwoStage(1, 5, public=ppd.invariants.total()), InvariantError, "keep no sum"),
    # the number of counts is refused before memory is allocated
    *((lambda n=n: TwoStage(1, n), PrivacyError, "n must be at most 8,192") for n in (8193, 2**31, 10**30)),
    (lambda: TwoStage(200, 5), PrivacyError, "epsilon"),
    (lambda: TwoStage("1e-9", 5), PrivacyError, "epsilon"),
    (lambda: TwoStage(1, 1), PrivacyError, "must be an integer >= 2"),
    (lambda: TwoStage(1, privatizer="laplace"), PrivacyError, "n is required"),
    (lambda: TwoStage(1, measured=[3, 1]), PrivacyError, "n is required"),
    (lambda: TwoStage(1, 5, drawn=[3, 5]), CountError, "from 0 to n - 1"),
    (lambda: unfixed(EVEN, 1, weights=np.eye(3)), PrivacyError, "row 0 of weights must be"),
    (lambda: unfixed(EVEN, 1, weights=np.sqrt(DISTANCES)), PrivacyError, "row 0 of weights must be"),
    (lambda: unfixed(EVEN, 1, weights=DISTANCES + np.triu(DISTANCES)), PrivacyError, "row 1 of weights must be"),
    (lambda: unfixed(EVEN, 1, weights=np.ones((2, 2))), PrivacyError, "matrix of shape"),
    (lambda: bounded_geometric(5, 1, 1), PrivacyError, "delta must be below 1"),
    (lambda: TwoStage(1, 5, split=1), PrivacyError, "split"),
    (lambda: TwoStage(1, 5, constructor="x"), PrivacyError, "constructor must be one of"),
    (lambda: TwoStage(1, 5, privatizer="cyclic-gaussian"), PrivacyError, "privatizer must be one of"),
    (lambda: TwoStage(1, 5, postprocessing="x"), PrivacyError, "postprocessing must be one of"),
    *((lambda sums=sums: TwoStage(1, 5, measured=sums), PrivacyError, "measured must have 5 integers")
      for sums in ([1, 2], [1, 2, 3, 4, 0.5], 5)),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
