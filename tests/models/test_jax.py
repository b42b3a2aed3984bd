"""Samplers that compile to JAX are refused by name before compilation."""

import sys
from functools import singledispatch
from types import ModuleType

import numpy as np
import pymc as pm
import pytest

import ppdinf as ppd
from ppdinf.distributions.densities.sums_given_totals_op import SumsGivenTotals
from ppdinf.errors import ModelError
from ppdinf.models import label_effects
from ppdinf.models.whitening_op import Whitening, WhiteningGradient


def model(by_effects=False):
    release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as made:
        rate = pm.math.exp(label_effects.log_rates(release, ["dim_0"])) if by_effects else pm.Gamma("rate", 2, 1)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
    return made


def test_the_backend_raises_the_error_when_it_requests_the_density(monkeypatch):
    """As PyMC does for nuts_sampler="numpyro": load PyTensor's JAX backend, build the density, request each Op."""
    backend = ModuleType("pytensor.link.jax.dispatch.basic")

    @singledispatch
    def jax_funcify(op, node=None, **kwargs):
        raise NotImplementedError(f"No JAX conversion for the given `Op`: {op}")

    backend.jax_funcify = jax_funcify
    made = model()
    with pytest.raises(NotImplementedError):
        backend.jax_funcify(SumsGivenTotals(True))
    monkeypatch.setitem(sys.modules, backend.__name__, backend)
    for _ in range(2):
        made.logp()
    for as_means in (True, False):
        with pytest.raises(ModelError, match="nuts_sampler='nutpie'"):
            backend.jax_funcify(SumsGivenTotals(as_means), node=None)
    model(by_effects=True).logp()
    for op in (Whitening(False), WhiteningGradient()):
        with pytest.raises(ModelError, match="effects of labels in whitened coordinates have no implementation"):
            backend.jax_funcify(op, node=None)
