"""All functions of PyMC and PyTensor that the package replaces, each with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from ppdinf._internal.pymc_compat import NodeRewriter, Op, OpToRewriterTracker

_trackers: WeakKeyDictionary[OpToRewriterTracker, WeakKeyDictionary[Op, list[NodeRewriter]]] = WeakKeyDictionary()


def _get_trackers(tracker: OpToRewriterTracker) -> Callable[[Op], list[NodeRewriter]]:
    by_op = _trackers.setdefault(tracker, WeakKeyDictionary())

    def of_op(op: Op) -> list[NodeRewriter]:
        found = by_op.get(op)
        if found is None:
            found = by_op[op] = tracker._get_trackers(op)
        return found

    return of_op


def _clear(tracker: OpToRewriterTracker, cached: Any) -> None:
    """Discard the cache that PyTensor sets, initially and after changes of the rewrites."""
    _trackers.pop(tracker, None)


OpToRewriterTracker.get_trackers = property(_get_trackers, _clear)
