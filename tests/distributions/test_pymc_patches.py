"""Functions of PyMC that the package replaces: all are listed, and models without tables do not run replacements."""

import inspect
import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from known_parameters import known
from three_cells import posed

import ppdinf.models
from ppdinf._internal.pymc_compat import NodeRewriter, local_dimshuffle_subtensor
from ppdinf._internal.pymc_patches import PATCHES

PACKAGE = str(Path(ppdinf.models.__file__).parents[1])
CHECKS = {"function", "has_tables", "_depends_on_tables", "<genexpr>", "<lambda>", "_get_trackers", "of_op", "_clear",
          "_squeezes_steps"}  # fmt: skip


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
