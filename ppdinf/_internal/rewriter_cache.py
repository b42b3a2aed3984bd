"""PyTensor's cache of the rewrites of each Op, with weak references to the Ops.

PyTensor caches rewrites by Op without a limit. Ops of a model contain its release, so that every compiled model would
remain in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from ppdinf._internal.pymc_compat import NodeRewriter, Op, OpToRewriterTracker

__all__: list[str] = []

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
