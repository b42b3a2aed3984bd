"""``ppdinf reproduce``: reproducible case studies.

A case study is a folder of `case_studies` with a ``run.py`` whose ``main(output)`` prints its results and draws its
figures into a folder. A wheel contains the studies inside the package, a clone next to it. Arguments of ``main``
(``quick``, ``data``, ``seed``, ``workers``) are options here; a constant ``TAKES`` states the run time.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from ppdinf._internal.atomic_files import make_folder
from ppdinf.cli.plain_output import notes, print_table, quoted

PACKAGE = Path(__file__).parents[1]
PLACES = {PACKAGE / "case_studies": "ppdinf.case_studies", PACKAGE.parent / "case_studies": "case_studies"}
"""Folders that can contain the case studies, and the names of these packages."""


def reproduce(
    case: Annotated[str | None, typer.Argument(help="Name of a case study; by default a list is printed.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the figures; by default **ppdinf-reproduce/CASE**.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few replicates: approximate results in 1 minute.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of public tables, instead of PPDINF_DATA.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random numbers; by default the study's seed.")] = None,
    workers: Annotated[int | None, typer.Option(help="Number of processes.", min=1)] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List the case studies and run none.")] = False,
) -> None:
    """Run a case study, or list all case studies.

    Each case study reproduces a result of the papers or of this package, and prints its numbers. Its README compares
    them with the numbers of the papers. A study of public tables reads them from the folder that the environment
    variable PPDINF_DATA names, and simulates tables if it is unset.
    """
    scripts = cases()
    if case is not None and only_list:
        raise typer.BadParameter(f"give either a case study to run, here {case!r}, or --list", param_hint="--list")
    if case is None:
        rows = [(name, *described(script)) for name, script in scripts.items()]
        print_table(("case", "result", "run time"), rows)
        return
    if case not in scripts:
        raise typer.BadParameter(f"unknown case study {case!r}; known: {', '.join(scripts)}", param_hint="CASE")
    from ppdinf.datasets.table_file import VARIABLE, public_folder

    if data is None and (public := public_folder()):
        notes(f"Public tables: {public} ({VARIABLE})")
    main = module_of(scripts[case]).main
    options = {"quick": quick or None, "data": data, "seed": seed, "workers": workers}
    chosen = {name: value for name, value in options.items() if value is not None}
    for name in chosen.keys() - inspect.signature(main).parameters.keys():
        raise typer.BadParameter(f"the case study {case!r} does not have this option", param_hint=f"--{name}")
    folder = Path("ppdinf-reproduce", case) if output is None else output
    make_folder(folder)
    main(folder, **chosen)
    notes(f"Comparison with the paper: {quoted(scripts[case].parent / 'README.md')}")
    notes("\n".join(["Written:", *sorted(quoted(path) for path in folder.iterdir())]))


def cases() -> dict[str, Path]:
    """Return the case studies: their names, and the scripts that run them.

    Raises
    ------
    FileNotFoundError
        This installation does not contain case studies.

    Examples
    --------
    >>> cases()["cdp"].name
    'run.py'
    """
    for place in PLACES:
        if scripts := sorted(place.glob("*/run.py")):
            return {script.parent.name: script for script in scripts}
    raise FileNotFoundError("this installation has no case studies: they are in the folder case_studies of a clone")


def module_of(script: Path) -> ModuleType:
    """Import a case study.

    Examples
    --------
    >>> module_of(cases()["cdp"]).TAKES
    '1 min'
    """
    return importlib.import_module(f"{PLACES[script.parents[1]]}.{script.parent.name}.{script.stem}")


def described(script: Path) -> tuple[str, str]:
    """Return the first line of a script's docstring, and its constant ``TAKES``, without running it.

    Examples
    --------
    >>> described(cases()["ppd_rates"])[1]
    '1 min'
    """
    module = ast.parse(script.read_text(encoding="utf-8"))
    takes = ""
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TAKES":
            takes = ast.literal_eval(node.value)
    return (ast.get_docstring(module) or "").partition("\n")[0], takes
