"""A curator's session: releases drawn within one budget, and a file that tells what was spent.

Rule: what a release will cost is on the disk before its noise is drawn; nothing confidential ever is.

journal   the session file: one record a line, chained by digest, written to the disk before anything follows from
          it
promises  a guarantee as plain data, for the session file
records   what the lines of a session file may say
session   the session: it checks what is left, writes down what it is about to spend, draws, and writes the outcome
"""

from ppdinf.sessions.session import Session as Session

__all__ = ["Session"]
