"""Which sampler a system of public sums allows, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """The choice of a sampler for the noise of one release.

    Attributes
    ----------
    sampler : str
        Short name of the algorithm.
    exact : bool
        Whether its draws follow the stated law exactly (no Markov chain, no rounding).
    reason : str
        One sentence on the structure that allows it.

    Examples
    --------
    >>> print(Plan("class", True, "one public total over 3 cells"))
    class sampler (exact): one public total over 3 cells
    """

    sampler: str
    exact: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.sampler} sampler ({'exact' if self.exact else 'Markov chain'}): {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the release file."""
        return asdict(self)
