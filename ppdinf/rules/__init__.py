"""Rules of publishers: which text is printed for which count.

A rule is a value. Its meaning is the preimage: `Rule.meaning` returns the counts that are printed as a text.

publishers  Rules of publishers by name, with their sources.
rule        The vocabulary of rules and their composition.
"""

from ppdinf.rules.publishers import PUBLISHERS, publisher
from ppdinf.rules.rule import (
    Rule,
    averaged,
    empty_cells,
    hidden_below,
    marked,
    midpoint_rounded,
    noisy,
    random_rounded,
    rounded,
    suppressed,
)

__all__ = [
    "PUBLISHERS", "Rule", "averaged", "empty_cells", "hidden_below", "marked", "midpoint_rounded", "noisy", "publisher",
    "random_rounded", "rounded", "suppressed",
]  # fmt: skip
