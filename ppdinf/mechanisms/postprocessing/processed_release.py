"""A post-processed table together with its noisy table, which inference uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf.privacy.guarantees.release_guarantee import ReleaseGuarantee
from ppdinf.releases.release import Release


@dataclass(frozen=True, eq=False)
class PostProcessedRelease:
    """A post-processed table, and the information that inference requires."""

    table: xr.DataArray
    noisy: Release
    guarantee: ReleaseGuarantee

    @property
    def entry(self) -> Release:
        """Return the ledger entry: the noisy table, which refers to the complete release."""
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
        """Summarize the changes by post-processing, computed from published tables only."""
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
