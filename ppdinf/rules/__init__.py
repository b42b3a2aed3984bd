"""Rules of publishers: which text is printed for which count.

A rule is a value. Its meaning is the preimage: `Rule.meaning` returns the counts that are printed as a text.

publishers  Rules of publishers by name, with their sources.
rule        The vocabulary of rules and their composition.
"""

from ppdinf.rules.publishers import PUBLISHERS as PUBLISHERS
from ppdinf.rules.publishers import publisher as publisher
from ppdinf.rules.rule import Rule as Rule
from ppdinf.rules.rule import averaged as averaged
from ppdinf.rules.rule import empty_cells as empty_cells
from ppdinf.rules.rule import hidden_below as hidden_below
from ppdinf.rules.rule import marked as marked
from ppdinf.rules.rule import midpoint_rounded as midpoint_rounded
from ppdinf.rules.rule import noisy as noisy
from ppdinf.rules.rule import random_rounded as random_rounded
from ppdinf.rules.rule import rounded as rounded
from ppdinf.rules.rule import suppressed as suppressed

__all__ = [
    "PUBLISHERS", "Rule", "averaged", "empty_cells", "hidden_below", "marked", "midpoint_rounded", "noisy", "publisher",
    "random_rounded", "rounded", "suppressed",
]  # fmt: skip
