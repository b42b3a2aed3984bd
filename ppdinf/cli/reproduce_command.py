"""``ppdinf reproduce``: case studies that can be run again.

A case study is a folder of `case_studies` with a ``run.py`` whose ``main(output)`` prints its numbers and draws its
figures into a folder. A wheel carries them inside the package, a clone beside it. What else ``main`` takes (``quick``,
``data``, ``seed``, ``workers``) can be given here; a constant ``TAKES`` says how long it runs.
"""

from __future__ import annotations

import ast
import inspect
import runpy
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ppdinf._internal.atomic_files import make_folder
from ppdinf.cli.plain_output import notes, stdout

__all__ = ["cases", "described", "reproduce"]

PACKAGE = Path(__file__).parents[1]
PLACES = (PACKAGE / "case_studies", PACKAGE.parent / "case_studies")


def reproduce(
    case: Annotated[str | None, typer.Argument(help="Name of a case study; without one they are listed.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the figures; by default **ppdinf-reproduce/CASE**.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few replicates: a first look in about a minute.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of public tables, instead of PPDINF_DATA.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of all random numbers; the study has its own.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes.")] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List the case studies and run none.")] = False,
) -> None:
    """Run a case study again, or list those there are.

    Each repeats a result of the papers, or one of this package, and prints its numbers; its README has those of the
    papers beside them. A study that reads public tables takes them from the folder that the environment
    variable PPDINF_DATA names, and simulates some where it is not set.
    """
    console, found = stdout(), cases()
    if case is not None and only_list:
        raise typer.BadParameter(f"give a case study to run, here {case!r}, or --list, not both", param_hint="--list")
    if case is None:
        table = Table("case", "what it shows", "takes", header_style="bold")
        for name, script in found.items():
            table.add_row(name, *described(script))
        console.print(table)
        return
    if case not in found:
        raise typer.BadParameter(f"there is no case study {case!r}; known: {', '.join(found)}", param_hint="CASE")
    from ppdinf.datasets.public_files import VARIABLE, public_folder

    if data is None and (public := public_folder()):
        notes(console, f"Public tables: {public} ({VARIABLE})")
    main = runpy.run_path(str(found[case]))["main"]
    options = {"quick": quick or None, "data": data, "seed": seed, "workers": workers}
    given = {name: value for name, value in options.items() if value is not None}
    for name in given.keys() - inspect.signature(main).parameters.keys():
        raise typer.BadParameter(f"the case study {case!r} takes no such option", param_hint=f"--{name}")
    folder = Path("ppdinf-reproduce", case) if output is None else output
    make_folder(folder)
    main(folder, **given)
    notes(console, f"Paper against here: {found[case].parent / 'README.md'}")
    notes(console, "\n".join(["Written:", *sorted(str(path) for path in folder.iterdir())]))


def cases() -> dict[str, Path]:
    """Find the case studies: their names, and the scripts that run them.

    Raises
    ------
    FileNotFoundError
        This installation came without them.

    Examples
    --------
    >>> cases()["cdp"].name
    'run.py'
    """
    for place in PLACES:
        if scripts := sorted(place.glob("*/run.py")):
            return {script.parent.name: script for script in scripts}
    raise FileNotFoundError("this installation has no case studies: they are in the folder case_studies of a clone")


def described(script: Path) -> tuple[str, str]:
    """Read the first line of a script's docstring, and its constant ``TAKES``, without running it.

    Examples
    --------
    >>> described(cases()["ppd_rates"])[1]
    '30 s'
    """
    module = ast.parse(script.read_text(encoding="utf-8"))
    takes = ""
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TAKES":
            takes = ast.literal_eval(node.value)
    return (ast.get_docstring(module) or "").partition("\n")[0], takes
