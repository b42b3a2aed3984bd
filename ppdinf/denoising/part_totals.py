r"""The totals of all parts of a table, given the weights of each total and what is known about sums of totals.

Part p sends the message ``M_p(t)``, the weight of all its tables with the total t, trimmed where ``M_p(t) exp(a_p t)``
is negligible for its tilt ``a_p``. The totals have the posterior :math:`\prod_p M_p(t_p) \prod_v g_v(s_v(t))` for the
factors ``g_v`` of exact and noisy sums of totals. Every part is below a sum of its own, so that the tilt of this sum at
the saddlepoint is the tilt at which the message must be accurate.

The mass that trimming omitted from the messages enters the error bound of the root
(:mod:`ppdinf.fiber.nested_sums.upward_pass`). The bound is proved only at the tilts of the messages. If it is too
large, the messages are computed again at the tilts of the saddlepoint. To find these tilts, each message is continued
outside of its row by the parabola with its tilted mean and variance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.denoising.impossible_numbers import require_possible_numbers
from ppdinf.denoising.part_sums import TotalMessage
from ppdinf.distributions.observation.nested_plan import (
    forest_of_sums,
    nested_sums,
    why_no_forest,
)
from ppdinf.errors import InvariantError, LabelError, ModelError
from ppdinf.fiber.nested_sums.nested_sums import Evaluated, NestedSums, Tilts
from ppdinf.measurements import Measurements

BOUND = 1e-9  # largest total variation distance between the law of the draws and the posterior
TOLERANCE = 1e-20  # error bound of the sums of totals without the omissions of the messages
REACHES = 32, 512, 1e12  # standard deviations of a total to which its message is continued
SMALLEST = 1e-3  # smallest variance of a parabola
LARGEST = 2**25  # entries of all continued messages


class PartTotals:
    """Everything known about the sums of whole parts."""

    def __init__(self, parts: Sequence[str], top: Measurements | None) -> None:
        top = Measurements({"part": sorted(parts)}) if top is None else top
        self.parts = [str(label) for label in top.coords[top.dims[0]]]
        if len(top.dims) != 1 or sorted(self.parts) != sorted(parts):
            other = sorted({*self.parts} ^ {*parts})
            raise LabelError(
                f"top must have one dimension with the names of the parts, {', '.join(parts[:3])} ..., found "
                f"{dict(zip(top.dims, top.shape, strict=True))}; only on one side: {', '.join(other[:3]) or 'none'}"
            )
        self.dim, self._system, self._entries = top.dims[0], top.public, top.entries
        require_possible_numbers(top)
        forest = forest_of_sums(self._system, self._entries, sp.eye_array(len(parts), dtype=np.int64, format="csr"))
        if forest is None:
            raise InvariantError(f"top: {why_no_forest(self._system, self._entries)}: state nested sums of parts")
        self._forest = forest
        self._low, self._high = self._system.cell_limits
        self._tilts: Tilts | None = None

    def posterior(self, messages: Sequence[TotalMessage]) -> tuple[Evaluated, float] | None:
        """Compute the posterior of all totals and its error bound; None if the bound exceeds `BOUND`."""
        least, most = self._ranges(messages)
        sizes = np.array([message.log_weight.size for message in messages])
        sums = self._nested(np.array([message.first for message in messages]), sizes, (least, most))
        center = np.zeros(sizes.size) if self._tilts is None else self._tilts.cell_center
        log_weight = [_untilted(message, message.first, message.log_weight) for message in messages]
        log_missing = [
            message.log_missing + message.tilt * (message.center - at)
            for message, at in zip(messages, center, strict=True)
        ]
        evaluated = self._tilted(sums).evaluate(np.concatenate(log_weight), log_missing=log_missing)
        bound = float(np.expm1(np.log1p(evaluated.bound).sum()))
        return (evaluated, bound) if bound <= BOUND else None

    def tilts(self, messages: Sequence[TotalMessage]) -> NDArray[np.float64]:
        """Compute the tilts of all parts at the saddlepoint, for the next messages."""
        mean, variance = np.array([message.moments for message in messages]).T
        variance = np.maximum(variance, SMALLEST)
        least, most = self._ranges(messages)
        for reach in REACHES:
            far = np.sqrt(variance) * reach + 1
            low, high = np.maximum(np.floor(mean - far), least), np.minimum(np.ceil(mean + far), most)
            low, high = np.minimum(low, most).astype(np.int64), np.maximum(high, least).astype(np.int64)
            if (high - low + 1.0).sum() > LARGEST:
                raise ModelError(
                    "the sums of parts are impossible or too improbable given the parts: check the values of "
                    "top, and the prior"
                )
            try:
                sums = self._nested(low, high - low + 1)
                break
            except InvariantError:
                if (low == least).all() and (high == most).all():
                    raise
        parabolas = [
            -((np.arange(a, b + 1) - m) ** 2) / (2 * v) for a, b, m, v in zip(low, high, mean, variance, strict=True)
        ]
        untilted = [_untilted(message, a, row) for message, a, row in zip(messages, low, parabolas, strict=True)]
        self._tilts = self._tilted(sums).tilts(np.concatenate(untilted))
        return self._tilts.tilt[self._forest.node]

    def _ranges(self, messages: Sequence[TotalMessage]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the smallest and largest possible total of every part."""
        least = np.maximum([message.least for message in messages], self._low).astype(np.int64)
        most = np.minimum([message.most for message in messages], self._high).astype(np.int64)
        for part in np.flatnonzero(least > most)[:1].tolist():
            cell = self._system.frame.cell(part)
            raise InvariantError(f"top: the bounds of the total of {cell} exclude all values that the part can have")
        return least, most

    def _nested(
        self,
        low: NDArray[np.int64],
        width: NDArray[np.int64],
        possible: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    ) -> NestedSums:
        return nested_sums(self._forest, self._system, self._entries, low, width, TOLERANCE, possible)

    def _tilted(self, sums: NestedSums) -> NestedSums:
        """Return sums at the tilts of the current messages."""
        return sums if self._tilts is None else sums.at_tilts(self._tilts)


def _untilted(message: TotalMessage, first: int, log_weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log weights without the tilt of the message, up to a constant."""
    return log_weight - message.tilt * (first - message.center + np.arange(log_weight.size))
