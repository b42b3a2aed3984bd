"""Names of papers for the parameters of noise: one table of what they mean here, or of what to write instead."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable
from fractions import Fraction
from inspect import Signature, signature
from typing import Any

import numpy as np

from ppdinf._internal.rationals import as_fraction
from ppdinf.errors import PrivacyError

type Meaning = tuple[str, Callable[[Any], Any]]

PLAN = "the noise of a cell also depends on the public sums: write ppd.plan(...).loss_for(sd=...)"
WITH_DELTA = "Gaussian noise has no epsilon without a delta: write rho=, or ppd.GeneralizedGaussian(epsilon=, delta=)"


def _same(value: Any) -> Any:
    return value


def _over(numerator: float | Fraction) -> Callable[[Any], Any]:
    """Return a function that divides by a number exactly, and by an array or a variable elementwise."""

    def divided(value: Any) -> Any:
        if isinstance(value, list | tuple):
            value = np.asarray(value, dtype=float)
        if isinstance(value, int | float | str | Fraction):
            return numerator / as_fraction(value, "the parameter")
        return float(numerator) / value

    return divided


def _float(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a conversion whose rational results are floats."""

    def converted(value: Any) -> Any:
        result = convert(value)
        return float(result) if isinstance(result, Fraction) else result

    return converted


SYNONYMS: dict[str, dict[str, Meaning | str]] = {
    "Laplace": {
        "b": ("scale", _same),
        "epsilon": ("scale", _float(_over(1))),  # per unit of l1 distance
        "sd": ("scale", lambda sd: np.asarray(sd) / 2**0.5 if np.ndim(sd) else sd / 2**0.5),
        "sigma": "Laplace noise has no sigma: write sd= for its standard deviation, or scale=",
        "rho": "Laplace noise has no rho: write epsilon= per unit of l1 distance, or scale=",
    },
    "DoubleGeometric": {
        "scale": ("epsilon", _over(1)),
        "b": ("epsilon", _over(1)),
        "alpha": "alpha is exp(-epsilon): write epsilon= per unit of l1 distance",
        "sd": "the standard deviation is 1 / (sqrt(2) sinh(epsilon / 2)): write epsilon= per unit of l1 distance",
        "rho": "double geometric noise has no rho: write epsilon= per unit of l1 distance",
    },
    "Gaussian": {
        "sigma": ("sd", _same),
        "scale": ("sd", _same),
        "rho": ("sd", _float(lambda rho: _over(Fraction(1, 2))(rho) ** 0.5)),  # per unit of squared l2 distance
        "epsilon": WITH_DELTA,
        "b": "Gaussian noise has no b: write sd=",
    },
    "DiscreteGaussian": {
        "scale": ("sigma", _same),
        "rho": ("variance", _over(Fraction(1, 2))),  # per unit of squared l2 distance
        "sd": "sigma is the standard deviation where it is at least 1: write sigma=",
        "epsilon": WITH_DELTA,
        "b": "discrete Gaussian noise has no b: write sigma=",
    },
    "GeneralizedLaplace": {
        "scale": ("epsilon", _over(1)),
        "b": ("epsilon", _over(1)),
        "sd": PLAN,
        "sigma": PLAN,
        "rho": "Laplace noise has no rho: write epsilon= per unit of distance, or use ppd.GeneralizedGaussian",
    },
    "GeneralizedGaussian": {"scale": ("sigma", _same), "sd": PLAN},
}
"""By class and name in papers: the parameter and its value, or the advice where the name has no unique meaning."""


class AcceptsSynonyms(ABCMeta):
    """Metaclass of classes whose parameters have synonyms."""

    @property
    def __signature__(cls) -> Signature:
        """The parameters of ``__init__``, for help and documentation."""
        _, *parameters = signature(cls.__init__).parameters.values()  # type: ignore[misc]
        return Signature(parameters)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Construct an object from the names of this package or of papers."""
        known = SYNONYMS.get(cls.__name__, {})
        for name in [name for name in kwargs if name in known]:
            meaning, value = known[name], kwargs.pop(name)
            if isinstance(meaning, str):
                raise PrivacyError(f"{cls.__name__}({name}=): {meaning}")
            parameter, convert = meaning
            if parameter in kwargs:
                raise PrivacyError(f"{cls.__name__}: {name}= and {parameter}= state the same parameter: give one")
            kwargs[parameter] = convert(value)
        return super().__call__(*args, **kwargs)
