"""A rough fit of effects of labels to a release: starts, and the information in the data about each effect."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf.models.effects.coordinates import GroupLikelihood, NormalLikelihood
from ppdinf.models.rates import RADIUS_IN_SD, TYPICAL_SPREAD
from ppdinf.releases import Release

SWEEPS = 4  # iterations over effects in the rough fit
LOWEST_RATIO = 0.1  # lower bound on fitted over expected sums in the rough fit


class RoughFit(NamedTuple):
    """Rough fit of expected counts of cells and of effects of labels."""

    noisy: NDArray[np.float64]
    expected: NDArray[np.float64]
    noise: float  # variance of the noise of a cell
    overall: float
    codes: dict[str, NDArray[np.int64]]
    public: dict[str, bool]
    effects: dict[str, NDArray[np.float64]]

    def likelihood(self, name: str, held: bool = False) -> NormalLikelihood:
        """Return working responses of the effects of a label and their information."""
        codes, expected, effect = self.codes[name], self.expected, self.effects[name]
        weight = expected if self.public[name] else expected**2 / np.maximum(expected + self.noise, 1e-300)
        share = weight / np.where(expected > 0, expected, 1)
        information = np.bincount(codes, weight)
        gap = np.bincount(codes, share * (self.noisy - expected)) / np.where(information > 0, information, 1)
        finest, alone = max((c for c in self.codes.values() if is_nested(c, codes)), key=np.max), information
        if finest.max() > codes.max():  # information of one label if the finest labels in it vary
            within = parents(finest, codes)
            uneven = np.bincount(within, shares(within, np.bincount(finest, expected)) ** 2)
            alone = information / (1 + information * TYPICAL_SPREAD**2 * uneven)
        known = alone * TYPICAL_SPREAD**2 / (1 + alone * TYPICAL_SPREAD**2)
        return NormalLikelihood(
            effect, effect + gap, alone if held else information, 1 / np.sqrt(2 * (known**2).sum() + 1)
        )

    def group_likelihood(
        self,
        codes: NDArray[np.int64],
        above: NDArray[np.int64],
        likelihood: NormalLikelihood,
        coarser: NormalLikelihood | None,
    ) -> GroupLikelihood:
        """Return the likelihood of averages within coarser labels, informed by the sums of the coarser labels."""
        group, size = parents(codes, above), np.bincount(codes, self.expected)
        share = shares(group, size)
        if coarser is None:
            return GroupLikelihood(group, share, np.zeros(1), np.zeros(1))
        return GroupLikelihood(
            group, share, coarser.response, coarser.information / (1 + coarser.information * TYPICAL_SPREAD**2)
        )


def shares(group: NDArray[np.int64], size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of each element in its group; equal shares if all elements of a group are 0."""
    log_total = np.bincount(group, size)[group]
    return np.where(log_total > 0, size / np.where(log_total > 0, log_total, 1), 1 / np.bincount(group)[group])


def rough_fit(release: Release, at_risk: NDArray[np.float64], codes: dict[str, NDArray[np.int64]]) -> RoughFit:
    """Fit effects by coordinate-wise iteration, each shrunk according to noise and a typical spread."""
    noisy, noise = release.table.values.ravel().astype(float), (release.likelihood.support_radius / RADIUS_IN_SD) ** 2
    overall = float(np.log(max(noisy.sum(), 1) / at_risk.sum()))
    expected, public = at_risk * np.exp(overall), {name: _all_public(release, codes[name]) for name in codes}
    effects = {name: np.zeros(codes[name].max() + 1) for name in codes}
    for _ in range(SWEEPS):
        for name, label in codes.items():
            without = expected * np.exp(-effects[name])[label]
            typical = np.bincount(label, without)
            spread = (TYPICAL_SPREAD * typical) ** 2
            gap = typical + (0 if public[name] else noise) * np.bincount(label)
            moved = spread / np.maximum(spread + gap, 1e-300) * (np.bincount(label, noisy) - typical)
            effects[name] = np.log(np.maximum(1 + moved / np.where(typical > 0, typical, 1), LOWEST_RATIO))
            expected = without * np.exp(effects[name])[label]
    return RoughFit(noisy, expected, noise, overall, codes, public, effects)


def _all_public(release: Release, codes: NDArray[np.int64]) -> bool:
    """Return whether the sum over the cells of every label is public."""
    A = release.public.A.tocsr()
    rows = {
        tuple(np.sort(A.indices[a:b])) for a, b in zip(A.indptr, A.indptr[1:], strict=False) if (A.data[a:b] == 1).all()
    }
    return all(tuple(np.flatnonzero(codes == label)) in rows for label in range(codes.max() + 1))


def is_nested(codes: NDArray[np.int64], coarser: NDArray[np.int64]) -> bool:
    """Return whether every label lies within a single coarser label."""
    return np.array_equal(parents(codes, coarser)[codes], coarser)


def parents(codes: NDArray[np.int64], coarser: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the coarser label in which each label lies."""
    return coarser[np.unique(codes, return_index=True)[1]]
