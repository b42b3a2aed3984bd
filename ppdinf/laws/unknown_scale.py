"""Noise whose scale is a variable of a PyMC model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.values import Symbolic
from ppdinf.errors import PrivacyError
from ppdinf.laws.discrete_gaussian import DiscreteGaussian
from ppdinf.laws.double_geometric import DoubleGeometric
from ppdinf.laws.law_array import LearnedScale
from ppdinf.laws.observation_model import IndependentLaw, ObservationModel, as_observation_model
from ppdinf.laws.preimage import Auxiliary
from ppdinf.laws.real_noise import Gaussian, Laplace

KINDS = DiscreteGaussian, DoubleGeometric, Gaussian, Laplace


@dataclass(frozen=True, eq=False)
class UnknownScale(IndependentLaw):
    """A law of noise with a scale that a model learns; it has weights at stated scales only (`at`)."""

    name: ClassVar[str] = "unknown-scale"
    gives: ClassVar[str] = "a count with noise"
    kind: type[Any]
    scale: Symbolic

    def at(self, scale: float) -> ObservationModel:
        """Return the law with a stated scale."""
        return as_observation_model(self.kind(scale))

    def read(self, values: NDArray[np.object_]) -> tuple[UnknownScale, NDArray[Any]]:
        """Return the law and the published numbers."""
        return self, self.at(1.0).read(values)[1]

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return infinite bounds."""
        return y - math.inf, y + math.inf

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise an error: everything else requires a stated scale."""
        raise PrivacyError(
            f"the scale of the {self.kind.name} noise is a variable of a PyMC model: pass the measurements to "
            "ppd.PartiallyPrivate in this model, or state a number"
        )

    log_weight = noise_moments = columns = publish = to_dict = refuse


@as_observation_model.register
def _(law: LearnedScale) -> UnknownScale:
    if law.kind not in KINDS:
        raise PrivacyError(
            f"the parameter of {law.kind.name} noise must be a number: variables of a model are scales of "
            f"{', '.join(kind.__name__ for kind in KINDS)}"
        )
    if law.variable.ndim:
        raise PrivacyError(
            f"the scale of {law.kind.name} noise must be one number, found a variable with {law.variable.ndim} "
            "dimensions: state the numbers of each scale by a ppd.measured of their own"
        )
    return UnknownScale(law.kind, law.variable)


@dataclass(frozen=True, eq=False)
class NoiseScales(Auxiliary):
    """Scales that a model learns; weights given them are relative to the weights of laws with stated scales."""

    variables: tuple[Symbolic, ...]
    name: ClassVar[str] = "noise_scales"

    def of_weights(self, *scales: Symbolic) -> tuple[Symbolic, ...]:
        """Return the scales, if they are given."""
        return scales
