"""Ops of the package in all their forms, and the functions of PyMC that the package replaces."""

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from known_parameters import known
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import HalfNormalRV, NormalRV
from three_cells import posed

import ppdinf as ppd
import ppdinf.models
from ppdinf._internal import pymc_compat
from ppdinf._internal.kernel_op import CallbackOp
from ppdinf._internal.pymc_compat import NodeRewriter, get_jaxified_graph, local_dimshuffle_subtensor
from ppdinf._internal.pymc_patches import PATCHES
from ppdinf.distributions import ops
from ppdinf.distributions.linked_tables import SumOfCounts
from ppdinf.distributions.marginal_logp import logp_natural, logp_table
from ppdinf.distributions.marginal_rewrite import Marginalized
from ppdinf.distributions.observed import ObservedRelease
from ppdinf.distributions.ops import logp_gamma, logp_nested_natural, logp_nested_table, of_table, stop_gradient
from ppdinf.distributions.random_variables import DrawnRV, observed_potential, released
from ppdinf.distributions.weight_forms import GammaForm
from ppdinf.errors import ModelError
from ppdinf.fiber.nested_sums.nested_sums import NestedSums
from ppdinf.models import starts
from ppdinf.models.whitening import NormalData, in_graph, whitening_transform
from ppdinf.tables.frame import Frame

ROOM = Path(ppd.__file__).parent
LOG_WEIGHTS = np.log([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.4, 0.1, 0.5]])
WEIGHTS, ETA = pt.dmatrix("weights"), pt.dvector("eta")
POINT = {WEIGHTS: LOG_WEIGHTS, ETA: np.array([0.3, -0.2, 0.1])}


def with_slopes(of_weights, of_slopes):
    by_weights, by_slopes = (pytensor.grad(f.sum(), x) for f, x in ((of_weights, WEIGHTS), (of_slopes, ETA)))
    return [of_weights, by_weights, of_slopes, by_slopes]


def summed_out():
    place = {"lo": np.array([0, 1, -1]), "total": np.array([2]), "block": np.array([0, 0, -1])}
    return with_slopes(logp_table(WEIGHTS, **place), logp_natural(ETA, LOG_WEIGHTS, **place))


def ratios(total=30, ends=None):
    columns = [ETA - 1, 2 + pt.exp(ETA), pt.zeros(3), pt.ones(3), pt.zeros(3), pt.tanh(ETA)]
    noise = np.tile([0.0, 200.0, 0.0, 0.0, -0.05, 0.0], (3, 1))
    span, has = np.arange(3)[:, None] + [0, 1], (True, False, False)
    form = GammaForm(pt.stack(columns, axis=1), pt.zeros(()), has, span, noise, ends)
    value = logp_gamma(form, np.array([total]), np.array([0, 0, -1]))
    return [value, pytensor.grad(value, ETA)]


def nested():
    below = {"node": [0, 0, 1], "parent": [1, -1], "least": [0, 2], "most": [1, 3]}
    plan = NestedSums(low=[0, 0, 0], width=[3, 3, 3], **below)
    return with_slopes(logp_nested_table(plan, WEIGHTS), logp_nested_natural(plan, ETA, WEIGHTS))


def linked():
    given = np.array([[3, 0, 7], [2, 5, 1], [4, 4, 0]])
    sums, means = SumOfCounts(is_binomial=True)(
        ETA, pt.as_tensor(given), pt.as_tensor([0, 1, -1]), pt.as_tensor(LOG_WEIGHTS)
    )
    return [sums, pytensor.grad(sums[:, 0].sum(), ETA), means]


def in_coordinates():
    known = NormalData(
        np.array([0, 2, 1]), np.array([0, 2, 3]), *np.exp(LOG_WEIGHTS), np.array([0.5, 0.5, 1]), np.zeros(2), np.ones(2)
    )
    spread, mean = pt.exp(ETA[0]), WEIGHTS[0]
    variables, log_det = whitening_transform(in_graph(known), spread, mean, ETA)
    back, _ = whitening_transform(in_graph(known), spread, mean, variables, inverse=True)
    return [variables, log_det, back, *pytensor.grad((variables**2).sum() + log_det, [ETA, WEIGHTS])]


def again(norm, *auxiliary):
    release = ppd.GeneralizedLaplace(ppd.invariants.total(), 1, norm=norm).release(np.array([4, 0, 2]))
    observed = ObservedRelease(release, Frame.of(release.table))
    return [released(pt.as_tensor([5, 1, 0]), observed, *map(pt.as_tensor, auxiliary))]


def drawn(mechanism):
    table = pm.Poisson.dist([1.0, 4.0, 2.0])
    return [table, mechanism.dist(table)]


CASES = {
    "sums given totals": summed_out,
    "sums of ratios of gamma functions": ratios,
    "nested sums": nested,
    "sums of counts given counts": linked,
    "stop gradient": lambda: [pt.exp(stop_gradient(WEIGHTS)).sum()],
    "of a table": lambda: [of_table(lambda x: float(x @ [1, 10, 100]), pt.exp(ETA))],
    "observed potential": lambda: [observed_potential(WEIGHTS)],
    "whitened coordinates": in_coordinates,
    "released, l1": lambda: again("l1"),
    "released, l2": lambda: again("l2", 0.7),
    "whole numbers from a mechanism": lambda: drawn(ppd.GeneralizedLaplace(ppd.invariants.total(), 1)),
    "real numbers from a mechanism": lambda: drawn(ppd.SubspaceGaussian(ppd.invariants.total(), 1, "1e-6")),
}


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("case", CASES)
def test_compiled_or_not(case):
    outputs = CASES[case]()
    values = {x: POINT[x] for x in (WEIGHTS, ETA) if x in set(ancestors(outputs))}
    found = []
    for mode in ("NUMBA", "FAST_COMPILE"):
        function = pm.compile(list(values), outputs, mode=mode, random_seed=3)
        found.append([function(*values.values()) for _ in range(3)])
    for compiled, uncompiled in zip(*found, strict=True):
        for one, other in zip(compiled, uncompiled, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("mode", ["NUMBA", "FAST_COMPILE"])
def test_parameters_of_another_number_of_columns_are_refused(mode):
    """Otherwise compiled code would read and write outside of the arrays."""
    parameters, packed = pt.dmatrix(), pt.lvector()
    function = pytensor.function([parameters, packed], ops.GammaSums()(parameters, packed), mode=mode)
    constants = ratios()[0].owner.inputs[0].owner.inputs[0].owner.inputs[1].get_value()
    assert np.isfinite(function(np.ones((3, 6)), constants)[0]).any()
    with pytest.raises(ModelError, match="number of cells"):
        function(np.ones((3, 5)), constants)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("case", ["sums given totals", "sums of ratios of gamma functions", "nested sums"])
def test_values_and_gradients_in_jax(case):
    """JAX differentiates by the rules of the Ops; wrong: the gradient of another output."""
    jax = pytest.importorskip("jax")
    outputs = CASES[case]()
    inputs = [x for x in (WEIGHTS, ETA) if x in set(ancestors(outputs))]
    in_jax = get_jaxified_graph(inputs, outputs)  # sets 64 bits
    point = [jax.numpy.asarray(POINT[x]) for x in inputs]
    right = pm.compile(inputs, outputs, mode="FAST_COMPILE")(*(POINT[x] for x in inputs))
    for one, other in zip(in_jax(*point), right, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    for k in range(0, len(outputs), 2):
        slopes = jax.grad(lambda x, k=k: in_jax(*x)[k].sum())(point)
        (slope,) = [x for x in slopes if x.shape == right[k + 1].shape]
        np.testing.assert_allclose(slope, right[k + 1], rtol=1e-12, atol=1e-13)
        assert abs(slope - 2 * right[k + 1]).max() > 1e-3


@pytest.mark.quick_cases(0)
def test_whitening_and_conditions_in_jax():
    jax = pytest.importorskip("jax")
    *outputs, by_slopes, by_weights = in_coordinates()
    right = pm.compile([WEIGHTS, ETA], [*outputs, by_slopes, by_weights], mode="FAST_COMPILE")(*POINT.values())
    in_jax = get_jaxified_graph([WEIGHTS, ETA], [*outputs, by_slopes, by_weights, stop_gradient(ETA) * ETA])
    point = [jax.numpy.asarray(x) for x in POINT.values()]
    *found, _ = in_jax(*point)
    for one, other in zip(found, right, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)

    def total(weights, eta):
        variables, log_det, *_ = in_jax(weights, eta)
        return (variables**2).sum() + log_det

    for one, other in zip(jax.grad(total, (1, 0))(*point), right[3:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(jax.grad(lambda eta: in_jax(point[0], eta)[-1].sum())(point[1]), POINT[ETA])
    with pytest.raises(ModelError, match="gradients of whitened variables"):
        jax.grad(lambda eta: in_jax(point[0], eta)[2].sum())(point[1])


def test_no_op_is_omitted():
    for file in ROOM.rglob("*.py"):
        if "pymc_compat import" in file.read_text(encoding="utf-8"):
            importlib.import_module(".".join(["ppdinf", *file.relative_to(ROOM).with_suffix("").parts]))

    def kinds(op):
        return {kind for below in op.__subclasses__() for kind in {below} | kinds(below)}

    own = {kind for kind in kinds(Op) if kind.__module__.startswith("ppdinf.")}
    # graphs of other Ops, normal variables of PyTensor, and Ops with a density that cannot be evaluated
    own -= kinds(OpFromGraph) | kinds(NormalRV) | kinds(HalfNormalRV)
    own -= {CallbackOp, ops.CellSums, DrawnRV, Marginalized, starts._Started}
    found = {type(x.owner.op) for case in CASES.values() for x in ancestors(case()) if x.owner}
    assert own == found & own
    assert len(own) >= 7


PACKAGE = str(Path(ppdinf.models.__file__).parents[1])
CHECKS = {"function", "has_tables", "_depends_on_tables", "<genexpr>", "<lambda>", "_get_trackers", "of_op", "_clear",
          "_squeezes_steps", "_chooses_one_constant"}  # fmt: skip


def is_own(value):
    return inspect.isfunction(value) and value.__code__.co_filename.startswith(PACKAGE)


def test_every_replaced_function_is_listed():
    """All functions of PyMC and PyTensor, and all methods of their classes."""
    found = set()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in ("pymc", "pytensor"):
            continue
        for attribute, value in list(vars(module).items()):
            found |= {(module, attribute)} if is_own(value) else set()
            is_class = inspect.isclass(value) and value.__module__ == name
            members = vars(value).items() if is_class or isinstance(value, NodeRewriter) else ()
            found |= {(value, key) for key, member in members if is_own(getattr(member, "fget", member))}
    listed = {(owner, patch.attribute) for patch in PATCHES.values() for owner in patch.owners}
    assert listed <= found
    assert {attribute for _, attribute in found} == {attribute for _, attribute in listed}
    assert all(patch.reason and patch.unnecessary for patch in PATCHES.values())


def called(model):
    """Return the functions of the package that are called when PyMC uses a model."""
    names = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            names.add(frame.f_code.co_name)

    uncompiled = {"compile_kwargs": {"mode": "FAST_COMPILE"}, "random_seed": 1}
    sys.setprofile(note)
    try:
        model = model()
        model.compile_logp(mode="FAST_COMPILE")(model.initial_point())
        with model:
            pm.sample_prior_predictive(2, **uncompiled)
            idata = known(2, mean=0.5)
            pm.sample_posterior_predictive(idata, progressbar=False, **uncompiled)
            pm.compute_log_likelihood(idata, progressbar=False)
    finally:
        sys.setprofile(None)
    return names


def without_a_table():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        pm.Deterministic("double", 2 * mean)
        pm.Normal("reading", mean, 1, observed=np.arange(3.0))
    return model


def test_a_model_without_tables_runs_the_functions_of_pymc():
    assert called(without_a_table) <= CHECKS
    assert {"_logp", "_sample_posterior_predictive"} <= called(lambda: posed(lambda x: pm.Normal("mean", 0, 1)))


REVERSED = {
    "a slice": lambda x: x[:-2:-1],
    "every third": lambda x: x[::-3][:1],
    "a column": lambda x: x.reshape((3, 1))[::-1][:1, 0],
}


@pytest.mark.parametrize("form", REVERSED)
def test_one_element_of_a_reversed_vector_is_the_last(form, monkeypatch):
    """Wrong variant: the rewrite of PyTensor, which takes the first element."""
    x = pt.tensor("x", shape=(3,))

    def element():
        return pytensor.function([x], REVERSED[form](x).squeeze())([1.0, 2.0, 3.0])

    assert element() == 3
    monkeypatch.setattr(local_dimshuffle_subtensor, "fn", local_dimshuffle_subtensor.fn.__wrapped__)
    assert element() == 1


def test_traces_of_constants_do_not_grow_with_each_switch(monkeypatch):
    """Wrong variant: the rewrite of PyTensor, by which traces double."""

    def length():
        zero, conditions = pt.constant(0.0), [pt.bscalar() for _ in range(8)]
        zero.tag.trace = [[]]
        pytensor.function(conditions, sum(2 * pt.switch(c, zero, zero) + c for c in conditions))
        return len(zero.tag.trace)

    assert length() == 1
    rewrite = pymc_compat.local_useless_switch
    monkeypatch.setattr(rewrite, "fn", rewrite.fn.__wrapped__)
    assert length() > 2**8


def test_nodes_of_equal_tables_are_planned_once(monkeypatch):
    """Also when the first graph does not exist any more; a table with another total has other constants."""
    planned, plan_nodes = [], ops.plan_nodes
    monkeypatch.setattr(ops, "plan_nodes", lambda *given: planned.append(given) or plan_nodes(*given))
    for total, plans in ((30, 1), (30, 1), (31, 2)):
        value, _ = ratios(total, (np.ones(3), np.zeros(3)))
        assert len(planned) == plans
        assert value.eval({ETA: POINT[ETA]}) == pytest.approx(ratios(total)[0].eval({ETA: POINT[ETA]}), abs=1e-10)
        del value


INTERPRETED = """
import pytensor.tensor as pt
from pytensor.link.c.op import COp
from ppdinf._internal.pymc_compat import compile_interpreted
def refuse(*args, **kwargs):
    raise AssertionError("a C compiler was called")
COp.make_c_thunk = refuse
x = pt.dmatrix()
print(compile_interpreted([x], pt.special.softmax(x, axis=1))([[2.0, 2.0]]))
"""


@pytest.mark.deep
def test_interpreted_functions_need_no_c_compiler():
    """Also within softmax, whose inner function PyTensor 3.3 builds in C otherwise."""
    environment = os.environ | {"PYTENSOR_FLAGS": "cxx=g++"}  # this process has no compiler, see conftest.py
    done = subprocess.run([sys.executable, "-c", INTERPRETED], env=environment, capture_output=True, text=True)
    assert done.stdout == "[[0.5 0.5]]\n", done.stderr
