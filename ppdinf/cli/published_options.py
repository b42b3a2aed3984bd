"""Options of commands that read published tables from CSV files, or from files by ppdinf."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from zipfile import is_zipfile

import typer

import ppdinf as ppd
from ppdinf.errors import PpdinfError, PrivacyError

VALUE = Annotated[str | None, typer.Option(metavar="COLUMN", help="For CSV files: column of published values.")]
DIMS = Annotated[str | None, typer.Option(metavar="COLUMNS", help="Columns of labels, such as **county,month**.")]
COORDS = Annotated[
    str | None, typer.Option(metavar="COLUMNS", help="Columns that depend on one dimension, such as **state**.")
]
NOISE = Annotated[
    str | None,
    typer.Option(
        metavar="LAW",
        help="Noise of the numbers: **geometric:EPSILON**, **discrete-gaussian:SD**, **gaussian:SD**, "
        "**laplace:SCALE**, or **ptable:FILE** for cell keys.",
    ),
]
CLIPPED = Annotated[int | None, typer.Option(metavar="AT", help="Noisy numbers below AT are published as AT.")]
ROUNDED = Annotated[
    str | None,
    typer.Option(
        metavar="BASE",
        help="Numbers are rounded to the nearest multiple of BASE; for an even base **ties-up:BASE**, "
        "**ties-down:BASE** or **ties-even:BASE**. Also **down:BASE**, **up:BASE**, **random:BASE**.",
    ),
]
SUPPRESSED = Annotated[
    str | None,
    typer.Option(metavar="RANGE", help="Counts behind marks (S, D, *), before rounding, such as **1-9**."),
]
MARKS = Annotated[
    str | None,
    typer.Option(metavar="MARKS", help="Marks of suppressed counts, instead of S, D, C, X, * and such: **N,-999**."),
]
EMPTY = Annotated[
    str | None,
    typer.Option(
        metavar="MEANING", help="Meaning of empty values and absent rows: **suppressed**, **missing** or **zero**."
    ),
]
SUMS = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE.csv", help="Sums that are published as the table is; repeat for more."),
]
PUBLIC = Annotated[
    list[Path] | None, typer.Option(metavar="FILE.csv", help="Sums that are published exactly; repeat for more.")
]
NOT_TOTAL = Annotated[
    list[str] | None,
    typer.Option(metavar="LABEL", help="Label that is not a total, although it looks like one; repeat for more."),
]


TEXT = (".csv", ".tsv", ".txt")


def read_table(
    files: list[Path],
    value: str | None,
    dims: str | None,
    coords: str | None,
    noise: str | None,
    clipped: int | None,
    rounded: str | None,
    suppressed: str | None,
    marks: str | None,
    empty: str | None,
    sums: list[Path] | None,
    public: list[Path] | None,
    not_total: list[str] | None,
) -> ppd.Measurements | list[ppd.Release]:
    """Read releases, a file of measurements, or a table in a CSV file."""
    described = (value, dims, coords, noise, clipped, rounded, suppressed, marks, empty, sums, public, not_total)
    is_described = any(given is not None for given in described)
    is_text = files[0].suffix.lower() in TEXT or (is_described and not is_zipfile(files[0]))
    if len(files) == 1 and is_text:
        if value is None or dims is None:
            raise PpdinfError(
                f"{files[0].name} is read as a CSV file, which needs --value and --dims, such as --value count "
                "--dims county,month"
            )
        if marks is not None and suppressed is None:
            raise PpdinfError("--marks needs the range of suppressed counts, such as --suppressed 1-9")
        return ppd.measurements.read_published_csv(
            files[0],
            value=value,
            dims=_names(dims),
            coords=_names(coords or ""),
            law=_law(noise, clipped, rounded),
            suppressed=suppressed,
            **({} if marks is None else {"marks": _names(marks)}),
            empty=empty,
            sums=sums or (),
            public=public or (),
            not_totals=not_total or (),
        )
    if is_described:
        raise PpdinfError(
            "--value, --dims and the options of published values describe one CSV file: "
            + (f"{files[0].name} is a file by ppdinf" if len(files) == 1 else f"found {len(files)} files")
        )
    if len(files) == 1:
        found = ppd.measurements.read_published(files[0])
        return found if isinstance(found, ppd.Measurements) else [found]
    return [ppd.read_release(file) for file in files]


def _names(columns: str) -> list[str]:
    return [name.strip() for name in columns.split(",") if name.strip()]


def _law(noise: str | None, clipped: int | None, rounded: str | None) -> object:
    """Return the law of numbers, or None for exact numbers."""
    if noise is not None and rounded is not None:
        raise PrivacyError("--noise and --rounded exclude each other: rounded noise needs a law in Python")
    if noise is None and clipped is not None:
        raise PrivacyError("--clipped needs --noise")
    if rounded is not None:
        rule, _, text = rounded.rpartition(":")
        base = int(_number(text, "--rounded", whole=True))
        if rule in ("", "down", "up"):
            return ppd.laws.Rounded(base, rule or "nearest")
        if rule in ("ties-up", "ties-down", "ties-even"):
            return ppd.laws.Rounded(base, ties=rule.removeprefix("ties-"))
        if rule == "random":
            return ppd.laws.RandomRounding(base)
        raise PrivacyError(f"--rounded {rounded}: the rule must be ties-up, ties-down, ties-even, down, up or random")
    if noise is None:
        return None
    kind, _, parameter = noise.partition(":")
    if kind == "geometric":
        law: object = ppd.laws.DoubleGeometric(parameter)
    elif kind == "ptable":
        law = ppd.laws.read_ptable(parameter)
    elif kind in ("discrete-gaussian", "gaussian", "laplace"):
        scale = _number(parameter, "--noise")
        named = {"discrete-gaussian": ppd.laws.DiscreteGaussian, "gaussian": ppd.laws.Gaussian}
        law = named.get(kind, ppd.laws.Laplace)(scale)
    else:
        raise PrivacyError(
            f"--noise {noise}: the law must be geometric:EPSILON, discrete-gaussian:SD, gaussian:SD, laplace:SCALE or "
            "ptable:FILE"
        )
    return law if clipped is None else ppd.laws.Clipped(law, at=clipped)


def _number(text: str, option: str, whole: bool = False) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number > 0 or number == float("inf") or (whole and number != int(number)):
        raise PrivacyError(f"{option} needs a positive {'integer' if whole else 'number'}, found {text!r}")
    return number
