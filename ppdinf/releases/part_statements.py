"""Public statements of a table that is released part by part: which of them leave the noise of the parts independent.

The parts of a table are its cells with one label of a coordinate `by`. If every public sum has cells of one part only,
the matrix of the sums is block diagonal, and the possible noise is a product of lattices,

    {z : A z = 0} = product over parts p of {z_p : A_p z_p = 0}.

Noise whose weights factor over the cells is therefore independent between the parts, and the noise of each part is the
same noise under the sums of the part (`Mechanism.on_part`). A sum over several parts leaves this unchanged if it is a
sum of public sums of single parts, such as the national total if the totals of all states are public. Every other sum
over several parts makes the noise of the parts dependent, and is refused.
"""

from __future__ import annotations

from ppdinf.errors import InvariantError
from ppdinf.invariants import Public
from ppdinf.invariants.statement import Statement
from ppdinf.invariants.sums import Sums

__all__ = ["split_statements"]


def split_statements(public: Public, by: str) -> tuple[Public, Public]:
    """Split public statements into those of single parts, and sums over several parts that follow from them.

    Parameters
    ----------
    public : Public
        Statements about the complete table.
    by : str
        Coordinate whose labels are the parts.

    Returns
    -------
    local, joint : Public
        Statements whose rows have cells of one part only, and sums of such rows.

    Raises
    ------
    InvariantError
        A statement is neither; the message names it.

    Examples
    --------
    >>> from ppdinf.invariants import hierarchy
    >>> local, joint = split_statements(hierarchy("state", "county"), "state")
    >>> local.exact, joint.exact
    (('the sum for every state', 'the sum for every county'), ('the total',))
    """
    local = tuple(statement for statement in public if statement.is_local(by))
    joint = tuple(statement for statement in public if statement not in local)
    for statement in joint:
        if not any(_sums_up(statement, part) for part in local):
            raise InvariantError(
                f"{statement} can have cells of several labels of {by!r}, so that the noise of the parts would not be "
                f"independent: drop it, add margin({by!r}) to the public information if these sums may be public, or "
                "release the complete table"
            )
    return Public(local), Public(joint)


def _sums_up(joint: Statement, local: Statement) -> bool:
    """Whether each sum of a statement is a sum of sums of a finer statement."""
    return (
        isinstance(joint, Sums)
        and isinstance(local, Sums)
        and joint.within is None
        and joint.weights == local.weights
        and set(joint.by) <= set(local.by)
    )
