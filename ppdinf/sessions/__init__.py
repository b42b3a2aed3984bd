"""Sessions: releases drawn within one budget, and a file that records the spent budget.

Rule: the cost of a release is on the disk before its noise is drawn; the file contains nothing confidential.

file_lock         Exclusive use of a session file, by a lock file and by a lock of the session file itself.
journal           The session file: one record per line, chained by digests and flushed to the disk.
plain_guarantees  Conversion of guarantees to plain data for the session file.
records           Validation of the lines of a session file.
session           The session: checks the budget, records the cost, draws, and records the outcome.
spent_records     The records of a session file that count as spent, with their guarantees.
"""

from ppdinf.sessions.session import Session as Session

__all__ = ["Session"]
