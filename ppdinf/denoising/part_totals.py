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
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.denoising.part_sums import TotalMessage
from ppdinf.distributions.observation.nested_plan import (
    contradiction_error,
    forest_of_sums,
    nested_sums,
    why_no_forest,
)
from ppdinf.errors import InvariantError, LabelError, ModelError
from ppdinf.fiber.nested_sums.nested_sums import Evaluated, NestedSums, OutOfReachError, Tilts
from ppdinf.measurements import Measurements

__all__ = ["BOUND", "PartTotals"]

BOUND = 1e-9  # largest total variation distance between the law of the draws and the posterior
REACHES = 32, 512, np.inf  # standard deviations of a total to which its message is continued
SMALLEST = 1e-3  # variance of a parabola
LARGEST = 2**25  # entries of all continued messages


class PartTotals:
    """Everything known about the sums of whole parts.

    Parameters
    ----------
    parts : sequence of str
        Names of the parts.
    top : Measurements, optional
        Measurements of a table with one dimension, whose labels are the parts.

    Attributes
    ----------
    dim : str
        Name of the dimension.

    Raises
    ------
    LabelError
        The labels of `top` are not the names of the parts.
    InvariantError
        Two sums overlap.
    """

    def __init__(self, parts: Sequence[str], top: Measurements | None) -> None:
        top = Measurements({"part": list(parts)}) if top is None else top
        if len(top.dims) != 1 or [str(label) for label in top.coords[top.dims[0]]] != list(parts):
            raise LabelError(
                f"top must have one dimension with the names of the parts in the same order, {', '.join(parts[:3])} "
                f"..., found {dict(zip(top.dims, top.shape, strict=True))}"
            )
        self.dim, self._system, self._entries = top.dims[0], top.public, top.entries
        forest = forest_of_sums(self._system, self._entries, sp.eye_array(len(parts), dtype=np.int64, format="csr"))
        if forest is None:
            raise InvariantError(f"top: {why_no_forest(self._system, self._entries)}: state nested sums of parts")
        self._forest = forest
        self._low, self._high = self._system.cell_limits
        self._tilts: Tilts | None = None

    def posterior(self, messages: Sequence[TotalMessage]) -> tuple[Evaluated, float] | None:
        """Compute the posterior of all totals and its error bound; None if the bound exceeds `BOUND`.

        Raises
        ------
        InvariantError
            No totals satisfy `top`.
        """
        try:
            rows = [self._within_limits(k, message) for k, message in enumerate(messages)]
            sums = self._nested(np.array([row.first for row in rows]), np.array([row.log_weight.size for row in rows]))
            log_weight = [_untilted(row, row.first, row.log_weight) for row in rows]
            evaluated = self._tilted(sums).evaluate(np.concatenate(log_weight), missing=[row.missing for row in rows])
            bound = float(np.expm1(np.log1p(evaluated.bound).sum()))
            if bound <= BOUND:
                self._require_table(evaluated)
        except InvariantError:
            if any(message.missing > 0 for message in messages):  # the root can need totals that were trimmed
                return None
            raise
        return (evaluated, bound) if bound <= BOUND else None

    def tilts(self, messages: Sequence[TotalMessage]) -> NDArray[np.float64]:
        """Compute the tilts of all parts at the saddlepoint, for the next messages.

        Raises
        ------
        InvariantError
            No totals satisfy `top`.
        ModelError
            The totals that `top` requires are too improbable.
        """
        mean, variance = np.array([message.moments for message in messages]).T
        least = np.maximum([message.least for message in messages], self._low)
        most = np.minimum([message.most for message in messages], self._high)
        for k in np.flatnonzero(least > most)[:1]:
            raise self._excluded(k)
        for reach in REACHES:
            far = np.sqrt(variance) * reach + 1
            low, high = np.maximum(np.floor(mean - far), least), np.minimum(np.ceil(mean + far), most)
            low, high = np.minimum(low, most).astype(np.int64), np.maximum(high, least).astype(np.int64)
            if (high - low + 1.0).sum() > LARGEST:
                raise ModelError(
                    "the sums of parts are too improbable given the parts for an exact evaluation: check the values of "
                    "top, and the prior"
                )
            try:
                sums = self._nested(low, high - low + 1)
                break
            except InvariantError:
                if (low == least).all() and (high == most).all():
                    raise
        parabolas = [
            -((np.arange(a, b + 1) - m) ** 2) / (2 * max(v, SMALLEST))
            for a, b, m, v in zip(low, high, mean, variance, strict=True)
        ]
        untilted = [_untilted(message, a, row) for message, a, row in zip(messages, low, parabolas, strict=True)]
        self._tilts = self._tilted(sums).tilts(np.concatenate(untilted))
        return self._tilts.tilt[self._forest.node]

    def _nested(self, low: NDArray[np.int64], width: NDArray[np.int64]) -> NestedSums:
        return nested_sums(self._forest, self._system, self._entries, low, width, BOUND)

    def _tilted(self, sums: NestedSums) -> NestedSums:
        """Return sums at the tilts of the current messages."""
        return sums if self._tilts is None else sums.at_tilts(self._tilts)

    def _require_table(self, evaluated: Evaluated) -> None:
        try:
            evaluated.require_table()
        except OutOfReachError as error:
            raise contradiction_error(error, self._forest, self._system, self._entries) from error

    def _within_limits(self, part: int, message: TotalMessage) -> TotalMessage:
        """Restrict a message to the bounds of its total; what is missing is then relative to the weight inside."""
        values = message.first + np.arange(message.log_weight.size)
        inside = (values >= self._low[part]) & (values <= self._high[part])
        weight = np.exp(message.log_weight - message.log_weight.max())
        if not weight[inside].any():
            raise self._excluded(part)
        return replace(
            message,
            first=int(values[inside][0]),
            log_weight=message.log_weight[inside],
            missing=message.missing * weight.sum() / weight[inside].sum(),
        )

    def _excluded(self, part: int) -> InvariantError:
        cell = self._system.frame.cell(part)
        return InvariantError(f"top: the bounds of the total of {cell} exclude all values that the part can have")


def _untilted(message: TotalMessage, first: int, log_weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log weights without the tilt of the message, up to a constant."""
    return log_weight - message.tilt * (first - message.center + np.arange(log_weight.size))
