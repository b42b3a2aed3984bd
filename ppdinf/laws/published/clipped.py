"""Noisy counts that are clipped from below: max(at, count + noise)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ppdinf._internal.types import Json
from ppdinf.errors import PrivacyError
from ppdinf.laws.published.censored import Censored


@dataclass(frozen=True)
class Clipped(Censored):
    """Numbers of another law, of which those below `at` are published as `at`.

    The weight of the published number `at` given a count x is ``P(Y <= at | x)``, the mass at and below the clip point.
    Counting mechanisms of OpenDP and many dashboards clip noisy counts at 0.

    Parameters
    ----------
    law : IntegerLaw, LawArray, or a law of independent published numbers
    at : int, default 0
        Smallest published number. An array states one number per entry.

    Raises
    ------
    PrivacyError
        `law` is another object, or `at` is not an integer.

    See Also
    --------
    ppdinf.laws.Thresholded, ppdinf.laws.Rounded

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.laws import Clipped
    >>> import ppdinf as ppd
    >>> clipped = Clipped(ppd.laws.DoubleGeometric(1))
    >>> np.exp(clipped.log_weight(0, np.array([0, 1, 2]))).round(3)
    array([0.731, 0.269, 0.099])
    """

    name: ClassVar[str] = "clipped"
    law: Any
    at: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.at, bool) or not isinstance(self.at, int | np.integer):
            raise PrivacyError(f"the clip point must be an integer, found {self.at!r}")
        _ = self._law

    def to_dict(self) -> Json:
        """Return the name, the clip point, and the other law."""
        return super().to_dict() | {"at": str(self.at)}

    @classmethod
    def _of_texts(cls, data: Json) -> Clipped:
        return cls(cls._other_law(data, "at"), int(data["at"]))

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        """Type of published numbers, that of the other law."""
        return self._law.dtype

    @property
    def limit(self) -> Any:
        """The next number above the clip point; the clip point if numbers are real."""
        return self.at + 1 if self.dtype is np.int64 else np.nextafter(float(self.at), np.inf)

    @property
    def mark(self) -> int:
        """The clip point."""
        return self.at

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return f"which is clipped at {self.at}"
