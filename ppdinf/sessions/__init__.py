"""Sessions: releases drawn within one budget, and a file that records the spent budget.

Rule: the cost of a release is on the disk before its noise is drawn; the file contains nothing confidential.

journal  The session file: exclusive use by one process, and one record per line, chained by digests and flushed to the
         disk; guarantees as plain data, validation of lines, and the records that count as spent.
session  The session: checks the budget, records the cost, draws, and records the outcome.
"""

from ppdinf.sessions.session import Session

__all__ = ["Session"]
