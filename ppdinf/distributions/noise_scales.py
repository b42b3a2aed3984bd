"""Published numbers whose noise has a scale that the model learns.

Windows, starting tables and moves use the laws at a wide scale of the prior. Weights of counts given the scales are
the densities of the published numbers, with their normalizers, relative to these laws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf.distributions.data_models import drawn_from_prior
from ppdinf.errors import ModelError
from ppdinf.laws.discrete_gaussian import DiscreteGaussian
from ppdinf.laws.double_geometric import DoubleGeometric
from ppdinf.laws.observation_model import ObservationModel
from ppdinf.laws.real_noise import Gaussian, Laplace
from ppdinf.laws.unknown_scale import UnknownScale
from ppdinf.measurements.entries import Entries

WIDE = 0.98  # quantile of the prior of the scale at which windows start; a fit extends them to larger scales
DRAWS = 128  # of the prior of a scale
TERMS = np.arange(1, 10)  # of both series for the sum of discrete Gaussian weights, which agree at variance 1

type Forms = Sequence[tuple[UnknownScale, ObservationModel, NDArray[np.int64]]]


def _discrete_gaussian(z: TensorVariable, sigma: TensorVariable) -> TensorVariable:
    """Return the log probability; the sum of weights is that of the series that converges faster, as in the law."""
    variance = sigma**2
    below, above = pt.minimum(variance, 1.0), pt.maximum(variance, 1.0)
    direct = pt.log1p(2 * pt.exp(-(TERMS**2) / (2 * below)).sum())
    by_poisson = 0.5 * pt.log(2 * math.pi * above) + pt.log1p(2 * pt.exp(-2 * above * (math.pi * TERMS) ** 2).sum())
    return -(z**2) / (2 * variance) - pt.switch(variance < 1, direct, by_poisson)


LOG_DENSITIES: dict[type, Callable[[Any, TensorVariable], TensorVariable]] = {
    DoubleGeometric: lambda z, epsilon: pt.log(pt.tanh(epsilon / 2)) - epsilon * abs(z),
    DiscreteGaussian: _discrete_gaussian,
    Gaussian: lambda z, sd: -0.5 * (z / sd) ** 2 - pt.log(sd) - 0.5 * math.log(2 * math.pi),
    Laplace: lambda z, scale: -abs(z) / scale - pt.log(2 * scale),
}
"""Log densities of noise z, with normalizers, as functions of the parameter that the class takes."""


def at_wide_scales(entries: Entries, learns_scales: bool) -> tuple[Entries, Forms]:
    """Return entries with the laws of a wide scale, and the laws that they replace with their rows."""
    forms, replaced = [], []
    for form, rows in entries.forms:
        if isinstance(form, UnknownScale):
            wide = form.at(_wide_scale(form)) if learns_scales else form.refuse()
            replaced.append((form, wide, rows))
            form = wide
        forms.append((form, rows))
    return replace(entries, forms=tuple(forms)), replaced


def _wide_scale(form: UnknownScale) -> float:
    """Return a large scale of the prior, for double geometric noise a small epsilon."""
    draws = np.array([float(draw[0]) for draw in drawn_from_prior([pt.as_tensor(form.scale)], DRAWS, {})])
    if not draws.size or not (np.isfinite(draws) & (draws > 0)).all():
        raise ModelError(
            f"the scale of the {form.kind.name} noise must be positive and have a proper prior with draws, such as "
            "pm.HalfNormal or pm.LogNormal"
        )
    level = 1 - WIDE if form.kind is DoubleGeometric else WIDE
    return float(f"{np.quantile(draws, level):.3g}")


def log_ratios(entries: Entries, forms: Forms, counts: Any, scales: TensorVariable) -> TensorVariable:
    """Return log densities of the entries of each cell given the scales minus those of the wide laws, (d, n)."""
    total = pt.zeros_like(pt.as_tensor(counts), dtype="float64")
    for k, (form, wide, rows) in enumerate(forms):
        cells, y = entries.matrix.indices[rows], entries.y[rows][:, None]
        at = counts[cells]
        ratio = LOG_DENSITIES[form.kind](y - at, scales[k]) - wide.log_weight(y, at)
        total = total[cells].inc(ratio)
    return total
