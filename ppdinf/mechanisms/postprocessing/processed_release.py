"""A post-processed table as it is published, with the noisy table that inference starts from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf.privacy.guarantees.release_guarantee import ReleaseGuarantee
from ppdinf.releases.release import Release

__all__ = ["PostProcessedRelease"]


@dataclass(frozen=True, eq=False)
class PostProcessedRelease:
    """A post-processed table, and what somebody needs who wants to learn from it.

    Attributes
    ----------
    table : xarray.DataArray
        As published; int64, or float64 by methods that leave fractions.
    noisy : Release
        The noisy table before post-processing, with everything public: infer from this.
    guarantee : ReleaseGuarantee
        Of both together.
    """

    table: xr.DataArray
    noisy: Release
    guarantee: ReleaseGuarantee

    @property
    def entry(self) -> Release:
        """What a ledger enters: the noisy table, which knows what it is part of."""
        return self.noisy

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dimensions."""
        return self.noisy.dims

    @property
    def coords(self) -> dict[str, np.ndarray]:
        """Labels of each dimension, for ``pm.Model(coords=...)``."""
        return self.noisy.coords

    @property
    def report(self) -> pd.Series:
        """What post-processing did to the noisy table; all of it is computed from what is published.

        Returns
        -------
        pandas.Series
            ``cells``; ``negative`` noisy cells; cells ``moved`` by more than 1e-9; ``total_moved`` and
            ``largest_move``, in counts.
        """
        move = np.abs(self.table.values - self.noisy.table.values)
        return pd.Series(
            {
                "cells": move.size,
                "negative": int((self.noisy.table.values < 0).sum()),
                "moved": int((move > 1e-9).sum()),
                "total_moved": float(move.sum()),
                "largest_move": float(move.max()),
            }
        )
