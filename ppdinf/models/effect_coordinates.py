"""Transforms of effects of labels under which NUTS takes long steps, given an approximate normal likelihood."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt

from ppdinf._internal.pymc_compat import TensorVariable, Transform
from ppdinf._internal.values import Integers, Reals
from ppdinf.distributions.marginal_logp import fixed
from ppdinf.models.neighbours import Spectrum
from ppdinf.models.whitening import NormalData, in_graph, whitening_transform

TYPICAL_MIXING = 0.5  # share of the structured effect in the variance, for the coordinates only


class NormalLikelihood(NamedTuple):
    """Normal approximation of the likelihood of the effects of a label."""

    fitted: Reals
    response: Reals
    information: Reals
    spread: float  # approximate posterior standard deviation of the log of the effects' standard deviation


class GroupLikelihood(NamedTuple):
    """Normal approximation of the likelihood of weighted averages of effects within each coarser label."""

    group: Integers
    share: Reals
    response: Reals
    information: Reals


class Rescaled(Transform):
    """Shift and scale a number to about zero posterior mean and unit posterior standard deviation."""

    name = "rescaled"
    ndim_supp = 0

    def __init__(self, center: float, sd: float) -> None:
        self.center, self.sd = center, sd

    def backward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Map the unconstrained value to the variable."""
        return self.center + self.sd * value

    def forward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Map the variable to the unconstrained value."""
        return (value - self.center) / self.sd

    def log_jac_det(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return the log Jacobian determinant of `backward`."""
        return pt.full_like(value, np.log(self.sd))


class StandardNormal(Transform):
    """Map independent normal variables to variables that are standard normal in the approximate posterior."""

    name = "standard_normal"
    ndim_supp = 1

    def __init__(self, base: Reals, likelihood: NormalLikelihood, groups: GroupLikelihood) -> None:
        order = np.argsort(groups.group, kind="stable")
        start = np.searchsorted(groups.group[order], np.arange(groups.response.size + 1))
        of_each = np.array(
            [base + likelihood.fitted, base + likelihood.response, likelihood.information, groups.share]
        )[:, order]
        fitted, response, information, share = of_each
        self.data = in_graph(
            NormalData(order, start, fitted, response, information, share, groups.response, groups.information)
        )

    def _changed(
        self, x: TensorVariable, inputs: tuple[TensorVariable, ...], inverse: bool = False
    ) -> tuple[TensorVariable, TensorVariable]:
        mean, spread = inputs[-2:]
        return whitening_transform(self.data, pt.sum(spread), mean, x, inverse=inverse)

    def backward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Map the unconstrained values to the variables."""
        return self._changed(value, inputs)[0]

    def forward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Map the variables to the unconstrained values."""
        return self._changed(value, inputs, inverse=True)[0]

    def log_jac_det(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return the log Jacobian determinant of `backward`."""
        return self._changed(value, inputs)[1]


class StandardSpectral(Transform):
    r"""Map effects with a BYM2 prior to variables that are about standard normal in the approximate posterior."""

    name = "standard_spectral"
    ndim_supp = 1

    def __init__(self, base: Reals, likelihood: NormalLikelihood, groups: GroupLikelihood, prior: Spectrum) -> None:
        V, d = prior
        v0 = TYPICAL_MIXING * d + 1 - TYPICAL_MIXING
        # the information matrix H of the levels, and their score where all effects are 0
        k, w, group, n = likelihood.information, groups.share, groups.group, groups.response.size
        total = np.bincount(group, k, minlength=n)
        precision = groups.information
        same = group[:, None] == group
        per_total = np.where(total > 0, 1 / np.where(total > 0, total, 1), 0)
        contrast = np.diag(k) - same * np.outer(k * per_total[group], k)
        average = np.bincount(group, w * likelihood.fitted, minlength=n) + groups.response
        score = contrast @ likelihood.response + w * (precision * average)[group]
        H = contrast + same * np.outer(w * precision[group], w)
        half = V * np.sqrt(v0)
        self.root, self.mean0 = np.sqrt(v0), V.T @ base
        k, E = np.linalg.eigh(half.T @ H @ half)
        self.k, self.q = np.maximum(k, 0), E.T @ (half.T @ score)
        self.bases = fixed(np.stack([V, E]), "bases")
        # sigma^2 rho and sigma^2 (1 - rho) are linear in the variances v, and t is linear in both
        parts = np.column_stack([d, np.ones_like(d)])
        self.of_variances, self.t = np.linalg.pinv(parts), (E**2).T @ (parts / v0[:, None])

    def _scales(self, inputs: tuple[TensorVariable, ...]) -> tuple[TensorVariable, TensorVariable]:
        """Return the standard deviations a and the posterior means a^2 q of c."""
        mean, sd = inputs[-2:]
        t = pt.dot(self.t, pt.dot(self.of_variances, sd**2))
        a = pt.sqrt(t / (1 + self.k * t))
        return a, a**2 * (self.q - self.k * pt.dot(self.bases[1].T, (mean - self.mean0) / self.root))

    def backward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Map the unconstrained values to the variables."""
        a, center = self._scales(inputs)
        return inputs[-2] + self.root * pt.dot(self.bases[1], center + a * value)

    def forward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Map the variables to the unconstrained values."""
        a, center = self._scales(inputs)
        return (pt.dot(self.bases[1].T, (value - inputs[-2]) / self.root) - center) / a

    def log_jac_det(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return the log Jacobian determinant of `backward`."""
        return pt.log(self._scales(inputs)[0]).sum() + np.log(self.root).sum()
