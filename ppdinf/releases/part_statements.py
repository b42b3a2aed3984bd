"""Public statements of a table that is released part by part: which of them leave the noise of the parts independent.

The parts of a table are its cells with one label of a coordinate `by`. If every public sum has cells of one part only,
the matrix of the sums is block diagonal, and the possible noise is a product of lattices,

    {z : A z = 0} = product over parts p of {z_p : A_p z_p = 0}.

Noise whose weights factor over the cells is therefore independent between the parts, and the noise of each part is the
same noise under the sums of the part (`Mechanism.on_part`). A sum over several parts leaves this unchanged if it is a
sum of public sums of single parts, such as the national total if the totals of all states are public. Every other sum
over several parts makes the noise of the parts dependent, and is refused. A statement that levels are nested counts:
if counties lie in states and states in regions, sums by county have cells of one region.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ppdinf.errors import InvariantError
from ppdinf.invariants import Public
from ppdinf.invariants.covariates import Covariates
from ppdinf.invariants.statement import Statement
from ppdinf.invariants.sums import Sums
from ppdinf.tables.frame import Frame


def split_statements(public: Public, by: str) -> tuple[Public, Public]:
    """Split public statements into those of single parts, and sums over several parts that follow from them."""
    coarser = {s.by[0]: s.within for s in public if isinstance(s, Sums) and len(s.by) == 1 and s.within is not None}
    local = tuple(s for s in public if (by in determined(s, coarser) if isinstance(s, Sums) else s.is_local(by)))
    joint = tuple(statement for statement in public if statement not in local)
    for statement in joint:
        if not any(_sums_up(statement, part, coarser) for part in local):
            raise InvariantError(
                f"{statement} can have cells of several labels of {by!r}, so that the noise of the parts would not be "
                f"independent: drop it, add margin({by!r}) to the public information if these sums may be public, or "
                "release the complete table"
            )
    declared, named = (set[str]().union(*(s.coordinates() for s in part)) for part in (local, joint))
    outer = tuple(sorted(named - declared))  # coarser levels than those of the parts: their labels are public, too
    return Public((*local, Covariates(outer)) if outer else local), Public(joint)


def determined(sums: Sums, coarser: Mapping[str, str]) -> set[str]:
    """Return the coordinates with one label in each sum, if each label of a coordinate has one coarser label."""
    names, new = set[str](), {*sums.by} | ({sums.within} if sums.within is not None else set())
    while new - names:
        names |= new
        new = {coarser[name] for name in names & coarser.keys()}
    return names


def _sums_up(joint: Statement, local: Statement, coarser: Mapping[str, str]) -> bool:
    """Whether each sum of a statement is a sum of sums of a finer statement."""
    return (
        isinstance(joint, Sums)
        and isinstance(local, Sums)
        and joint.weights == local.weights
        and set(joint.by) <= determined(local, coarser)
    )


def require_nested(parts: Iterable[Mapping[str, str]]) -> None:
    """Refuse sums that are stated to lie within one label, but lie in two labels of different parts."""
    first: dict[str, str] = {}
    for part in parts:
        for name, outer in part.items():
            if first.setdefault(name, outer) != outer:
                raise InvariantError(
                    f"{name} lies in {first[name]} and in {outer}, so the levels do not nest: give its parts distinct "
                    f"names, or use margin({outer.partition('=')[0]!r}, ...)"
                )


def outer_labels(frame: Frame, by: tuple[str, ...], within: str) -> dict[str, str]:
    """Return the label of a coarser coordinate of each combination of labels."""
    columns = [frame.broadcast(name).tolist() for name in (*by, within)]
    return {
        ", ".join(f"{name}={label}" for name, label in zip(by, row, strict=False)): f"{within}={row[-1]}"
        for row in set(zip(*columns, strict=True))
    }
