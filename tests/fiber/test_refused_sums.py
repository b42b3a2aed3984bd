"""Calls with inconsistent arguments, their errors, and the cell, sum or argument that the message names."""

import numpy as np
import pytest

from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.nested_sums.nested_sums import LogTable, NestedSums, OutOfReachError
from ppdinf.fiber.sums_given_totals import totals

SOUND = {"low": [0, 0], "width": [3, 3], "node": [0, 1], "parent": [1, -1]}
TWO = LogTable([0.0, 0.0])


def nested(**changes):
    return NestedSums(**(SOUND | {"laws": [LogTable([0.0])]} | changes))


def evaluated(weights, slope=None, missing=None, **changes):
    return nested(**changes).evaluate(weights, slope, missing)


def of_totals(**changes):
    arguments = {"logw": np.zeros((2, 2)), "lo": 0, "total": 1} | changes
    logw = arguments.pop("logw")
    return [lambda f=f: f(logw, **arguments) for f in (totals.log_coefficient, totals.marginals, totals.draw)]


def drawn(given):
    sums = NestedSums(low=[0, 1], width=[3, 3], node=[0, 0], parent=[-1]).evaluate([0, -np.inf, 0, 0, -np.inf, 0])
    assert sums.draw(2, 1, np.array([1, 5])).tolist() == [[0, 1], [2, 3]]
    return sums.draw(2, 1, np.array(given))


ENDS, PARITY = ([0, 0], [9, 9]), np.array([[0.0, -np.inf, 0.0]] * 3)
CALLS = [
    *((call, InvariantError, "total must be integers") for call in of_totals(total=10.0)),
    *((call, InvariantError, "lo must be integers") for call in of_totals(lo=[0.5, 0.5])),
    *((call, InvariantError, "one entry per cell") for call in of_totals(lo=[0, 0, 0])),
    *((call, InvariantError, "block must be a total from 0 to 0") for call in of_totals(block=[0, 1])),
    *((call, InvariantError, "block must be a total") for call in of_totals(block=[0, -2])),
    *((call, InvariantError, r"at most 2\*\*62") for call in of_totals(total=np.uint64(2**63))),
    *((call, ModelError, "shape") for call in of_totals(logw=np.zeros(3))),
    *((call, ModelError, "shape") for call in of_totals(logw=np.zeros((2, 0)))),
    *((call, ModelError, "cell 0") for call in of_totals(logw=[[0.0, np.nan], [0.0, 0.0]])),
    *((call, ModelError, "cell 1") for call in of_totals(logw=[[0.0, 0.0], [np.inf, 0.0]])),
    *((call, ModelError, "eta of cell 1") for call in of_totals(eta=[0.0, np.nan])),
    *((call, ModelError, "one entry per cell") for call in of_totals(eta=[0.0])),
    (lambda: totals.draw(np.zeros((2, 3)), lo=0, total=[1, 5], block=[0, 1]), InvariantError, "block 1"),
    (lambda: totals.draw(PARITY, lo=0, total=3), InvariantError, "no table"),
    (lambda: nested(parent=[1, 0]), InvariantError, "its own ancestor"),
    (lambda: nested(parent=[0, -1]), InvariantError, "its own ancestor"),
    (lambda: nested(parent=[1, 2]), InvariantError, "parent"),
    (lambda: nested(node=[1, 1]), InvariantError, "sum 0 must have cells"),
    (lambda: nested(node=[0, 2]), InvariantError, "node"),
    (lambda: nested(node=[0.0, 1.0]), InvariantError, "integers"),
    (lambda: nested(width=[3, 0]), InvariantError, "width must be at least 1"),
    (lambda: nested(low=[2**52, 0]), InvariantError, "doubles"),
    (lambda: nested(measured=([2], [0], [0])), InvariantError, "measured"),
    (lambda: nested(measured=([0], [0], [1])), InvariantError, "laws"),
    (lambda: nested(measured=([0], [0, 1], [0])), InvariantError, "same length"),
    (lambda: nested(least=[0]), InvariantError, "least"),
    *(
        (lambda law=law: nested(measured=([0], [0], [0]), laws=[law]), ModelError, "law 0")
        for law in (LogTable([np.nan]), LogTable([-np.inf]), LogTable([0.0], (-1, 0)), LogTable([-np.inf, 0.0], (1, 0)))
    ),
    *((lambda t=t: nested(tolerance=t), ModelError, "tolerance") for t in (0, 1, np.nan)),
    (lambda: evaluated([0] * 5), ModelError, "log weights"),
    (lambda: evaluated([0] * 5 + [np.nan]), ModelError, "log weights"),
    (lambda: evaluated([0] * 6, [0]), ModelError, "slopes"),
    (lambda: evaluated([0] * 6, [np.inf, 0]), ModelError, "slopes"),
    (lambda: evaluated(np.zeros(6), missing=[0.0, 0.0]), ModelError, "requires sums with possible values"),
    (lambda: evaluated(np.zeros(6), missing=[0.0], possible=ENDS), ModelError, "shape"),
    (lambda: evaluated(np.zeros(6), missing=[0.0, np.inf], possible=ENDS), ModelError, "below inf"),
    (lambda: drawn([1, 2]), ModelError, "total 2 has the weight 0"),
    (lambda: drawn([1, 9]), ModelError, "total 9"),
    (lambda: drawn([1]), ModelError, "shape"),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS)
def test_invalid_arguments_raise(call, error, message):
    with pytest.raises(error, match=message):
        call()


CELLS = nested(least=[1, 0], most=[1, 9])
EVEN = np.tile([0, -np.inf, 0], 2)


@pytest.mark.parametrize(
    ("call", "node", "message"),
    [
        (lambda: nested(least=[3, 0], most=[5, 9]), 0, "sum 0"),
        (lambda: nested(least=[2, 0], most=[2, 1]), 1, "sum 1"),
        (lambda: nested(least=[0, 1], most=[2, 0]), 1, "sum 1"),
        (lambda: nested(measured=([0], [7], [0]), laws=[TWO]), 0, "sum 0"),
        (lambda: nested(measured=([1, 1], [0, 3], [0, 0]), laws=[TWO]), 1, "sum 1"),
        (lambda: CELLS.evaluate([0, -np.inf, 0, 0, 0, 0]).draw(), 0, "cell 0"),
        (lambda: CELLS.evaluate([0, 0, 0, -np.inf, -np.inf, -np.inf]).draw(), None, "cell 1"),
        (lambda: nested(node=[0, 0], least=[3, 0], most=[3, 9]).evaluate(EVEN).draw(), 0, "sum 0"),
    ],
)
def test_contradictions_name_the_sum_or_the_cell(call, node, message):
    with pytest.raises(OutOfReachError, match=message) as caught:
        call()
    assert node in (None, caught.value.node)


def test_contradictory_weights_have_the_value_0():
    evaluated = CELLS.evaluate([0, -np.inf, 0, 0, 0, 0])
    assert evaluated.value[0] == -np.inf
    assert (evaluated.posteriors().log_weight == 0).all()
    measured = nested(node=[0, 0], measured=([0], [3], [0]))
    assert measured.evaluate(np.zeros(6)).value[0] == pytest.approx(np.log(2))
    assert measured.evaluate(EVEN).value[0] == -np.inf  # even numbers cannot give the measured 3


def test_a_free_cell_without_weight():
    logw = np.array([[0.0, 0.0], [-np.inf, -np.inf]])
    assert totals.log_coefficient(logw, lo=0, total=1, block=[0, -1]).tolist() == [0.0, -np.inf]
    with pytest.raises(ModelError, match="no count with positive weight"):
        totals.draw(logw, lo=0, total=1, block=[0, -1])
