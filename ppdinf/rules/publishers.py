"""Rules of publishers by name, from ``publishers.toml``, and rules that are written in the vocabulary."""

from __future__ import annotations

import ast
import difflib
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ppdinf.errors import PrivacyError
from ppdinf.laws import DiscreteGaussian, read_ptable
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

PUBLISHERS = tomllib.loads(Path(__file__).with_name("publishers.toml").read_text(encoding="utf-8"))
"""Source and rule of each publisher, as text."""

_WORDS = (averaged, empty_cells, hidden_below, marked, midpoint_rounded, random_rounded, rounded, suppressed)
_FUNCTIONS: dict[str, Callable[..., Rule]] = {function.__name__: function for function in _WORDS} | {
    "cell_key": lambda file: noisy(read_ptable(file)),
    "discrete_gaussian": lambda sd: noisy(DiscreteGaussian(sd)),
    "unknown": lambda *marks: marked(dict.fromkeys(marks, ">=0")),
}


def publisher(name: str) -> Rule:
    """Return the rule of a publisher by its name, or the rule that a text states.

    Parameters
    ----------
    name : str
        A key of `ppdinf.rules.PUBLISHERS`, such as ``"cdc-wonder"``, or functions of `ppdinf.rules` that are composed
        by "then": ``"rounded(5) then suppressed(1, 7)"``. Further functions are ``cell_key('ptable.csv')`` for the
        perturbation tables of ONS and ABS, ``discrete_gaussian(sd)`` and ``unknown('N', ...)`` for marks of any count.

    Raises
    ------
    PrivacyError
        The name or a function is unknown; the message contains similar names.

    See Also
    --------
    ppdinf.read_published, ppdinf.rules.Rule, ppdinf.laws.read_ptable

    Notes
    -----
    Rules change between releases of a publisher: compare ``print(rule)`` with the documentation of the file.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> print(ppd.rules.publisher("nhs-hes").meaning("10"))
    8 to 12
    """
    rule = Rule()
    for part in map(str.strip, PUBLISHERS.get(name, {"rule": name})["rule"].split(" then ")):
        try:
            call: Any = ast.parse(part, mode="eval").body
            function = _FUNCTIONS[call.func.id]
            arguments = [ast.literal_eval(argument) for argument in call.args]
        except (SyntaxError, ValueError, AttributeError, KeyError):
            known = [*PUBLISHERS, *_FUNCTIONS]
            near = ", ".join(difflib.get_close_matches(part, known) or known)
            raise PrivacyError(f"the rule {part!r} is unknown: use one of {near}") from None
        rule = rule.then(function(*arguments))
    return rule
