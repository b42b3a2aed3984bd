"""``ppdinf read``, ``audit`` and ``denoise``: what published tables state and disclose, and counts with intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any
from zipfile import is_zipfile

import typer

import ppdinf as ppd
from ppdinf._internal.atomic_files import require_replaceable, write_atomically
from ppdinf.cli.plain_output import notes, paragraphs, plain_warnings, wrote
from ppdinf.errors import PpdinfError, PrivacyError

SHOWN = 20  # rows that a command prints
OF_RULES = ("rule", "noise", "clipped", "rounded", "suppressed", "marks")  # options that state the rule

NOT_TOTAL = Annotated[
    list[str] | None,
    typer.Option(
        "--not-total", metavar="LABEL", help="Label that is not a total, although it looks like one; repeat for more."
    ),
]
REPORT = Annotated[
    Path | None, typer.Option(help="Page with verdict, figures and table, .html. An existing file is replaced.")
]
Text = str | None
Texts = list[str] | None
Files = list[Path] | None


def _option(name: str, text: str, *declared: str) -> Any:
    return typer.Option(*declared, metavar=name, help=text)


@dataclass(frozen=True)
class PublishedTable:
    """Files of a published table, and the options of a command that describe them."""

    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="A table as text or spreadsheet, a file of measurements, or releases."),
    ]
    value: Annotated[Text, _option("COLUMN", "Column of published values, if there are several.")] = None
    dims: Annotated[Text, _option("COLUMNS", "Columns of labels, such as **county,month**.")] = None
    coords: Annotated[Text, _option("COLUMNS", "Columns that depend on one dimension, such as **state**.")] = None
    wide: Annotated[Text, _option("NAME", "Name of a dimension whose labels are in the header.")] = None
    rule: Annotated[Text, _option("NAME", "Rule, **cdc-wonder** or **rounded(5) then suppressed(1, 7)**.")] = None
    noise: Annotated[
        Text,
        _option(
            "LAW",
            "Noise of the numbers: **geometric:EPSILON**, **discrete-gaussian:SD**, **gaussian:SD**, "
            "**laplace:SCALE**, **sampled:WEIGHT** for surveys, or **ptable:FILE** for cell keys.",
        ),
    ] = None
    clipped: Annotated[int | None, _option("AT", "Noisy numbers below AT are published as AT.")] = None
    rounded: Annotated[
        Text,
        _option(
            "BASE",
            "Numbers are rounded to the nearest multiple of BASE; for an even base **ties-up:BASE**, "
            "**ties-down:BASE** or **ties-even:BASE**. Also **down:BASE**, **up:BASE**, **random:BASE**, "
            "**midpoint:BASE**.",
        ),
    ] = None
    suppressed: Annotated[Text, _option("RANGE", "Counts behind marks, before rounding, such as **1-9**.")] = None
    marks: Annotated[Text, _option("MARKS", "Marks of hidden counts, instead of S, D, C, X, *: **N,-999**.")] = None
    empty: Annotated[Text, _option("MEANING", "Empty cells, absent rows: **suppressed**, **missing**, **zero**.")] = (
        None
    )
    of: Annotated[Text, _option("COLUMN", "Denominators of percentages; labels or **total**.", "--percent-of")] = None
    over: Annotated[Texts, _option("DIM:LENGTH", "Sums: **week:all**, **date:7**, **COLUMN=date:7:change**.")] = None
    totals: Annotated[Text, _option("LAW", "Totals among the rows: **exact**, **published**, or **drop**.")] = None
    sums: Annotated[Files, _option("FILE", "Sums that are published as the table is; repeat for more.")] = None
    public: Annotated[Files, _option("FILE", "Sums that are published exactly; repeat for more.")] = None
    not_totals: NOT_TOTAL = None
    total_labels: Annotated[Texts, _option("LABEL", "Label that is the total of all others.", "--total")] = None
    count_rows: Annotated[bool | None, typer.Option("--count-rows", help="Rows are persons, and counted.")] = None
    sheet: Annotated[Text, _option("NAME", "Sheet of a spreadsheet with several sheets.")] = None

    def read(self, explain: Callable[[Any], object] | None = None) -> ppd.Measurements:
        """Read releases, a file of measurements, or a table in a text file."""
        from ppdinf.datasets.printed_file import SUFFIXES

        first, *others = self.files
        options = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        stated = {name: option for name, option in options.items() if option is not None}
        is_table = first.suffix.lower() in SUFFIXES or (stated and not is_zipfile(first))
        if is_table and not others:
            given: dict[str, Any] = {name: option for name, option in stated.items() if name not in OF_RULES}
            given |= {name: names_in(given[name]) for name in ("dims", "coords") if name in given}
            return ppd.read_published(first, rule=self._rule(), explain=explain, **given)
        if stated:
            raise PpdinfError(
                "--value, --dims and the options of published values describe one table: "
                + (f"found {len(self.files)} files" if others else f"{first.name} is a file by ppdinf")
            )
        if not others and isinstance(published := ppd.measurements.read_ppd(first), ppd.Measurements):
            return published
        return ppd.Measurements.of_releases(ppd.read_release(file) for file in self.files)

    def _rule(self) -> ppd.rules.Rule:
        """Compose the rule that the options state."""
        rule = ppd.rules.Rule() if self.rule is None else ppd.rules.publisher(self.rule)
        law = _law(self.noise, self.clipped, self.rounded)
        rule = rule if law is None else rule.then(law)
        marks: dict[str, Any] = {} if self.marks is None else {"marks": names_in(self.marks)}
        if self.suppressed is not None:
            return rule.then(ppd.rules.suppressed(self.suppressed, **marks))
        if self.empty == "suppressed" and rule.least is None:
            raise PpdinfError("--empty suppressed needs the range of suppressed counts: --suppressed 1-9")
        return rule if self.marks is None else rule.then(ppd.rules.suppressed(">=0", **marks))


def names_in(columns: str) -> list[str]:
    """Return the names in a text such as ``county,month``."""
    return [name.strip() for name in columns.split(",") if name.strip()]


def takes_published_table(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the first parameter of a command, a `PublishedTable`, by arguments and options for its fields."""
    described = signature(PublishedTable, eval_str=True).parameters
    _, *others = signature(command, eval_str=True).parameters.values()
    parameters = sorted([*described.values(), *others], key=lambda option: option.default is not Parameter.empty)

    @wraps(command)
    def with_options(**values: Any) -> None:
        command(PublishedTable(**{name: values.pop(name) for name in described}), **values)

    # typer reads the parameters of a command from its signature
    with_options.__signature__ = Signature(  # type: ignore[attr-defined]
        [option.replace(kind=Parameter.KEYWORD_ONLY) for option in parameters]
    )
    with_options.__annotations__ = {option.name: option.annotation for option in parameters}
    return with_options


@takes_published_table
def read(
    table: PublishedTable,
    output: Annotated[Path | None, typer.Option(help="Statement of the table for other commands, .ppd.")] = None,
) -> None:
    """Read a published table and print what was understood: cells, marks, totals, and lines that are left out.

    **ppdinf audit STATEMENT.ppd** and **ppdinf denoise STATEMENT.ppd** need no further options. STATEMENT.cells.csv has
    the cells, with ranges instead of marks, unless values are sums or percentages.
    """
    from ppdinf.measurements.published_table import clean_cells

    cells = None if output is None else output.with_suffix(".cells.csv")
    require_replaceable(output, cells)
    understood = list[Any]()

    def explain(found: object) -> None:
        understood.append(found)
        notes(str(found))

    seen = table.read(explain)
    if output is not None and cells is not None:
        output.unlink(missing_ok=True)
        seen.save(output)
        wrote(output)
        if understood and table.over is None and table.of is None:
            write_atomically(cells, clean_cells(understood[0]).to_csv(index=False))
            wrote(cells)


@takes_published_table
def audit(
    table: PublishedTable,
    output: Annotated[
        Path | None, typer.Option(help="Table of all cells with their bounds, .csv. An existing file is replaced.")
    ] = None,
    report: REPORT = None,
    seconds: Annotated[float, typer.Option(help="Time limit of integer programmes.", min=0)] = 300.0,
) -> None:
    """Find the smallest and largest count of every cell, and cells that are not published but determined.

    Exit code 1 if the table discloses a count that it does not publish, or if the time was not sufficient to exclude
    this.
    """
    require_replaceable(output, report)
    seen = table.read()
    bounds = ppd.identified_bounds(seen, seconds=seconds)
    disclosed, open_cells = bounds[bounds.disclosed], bounds[~bounds.exact]
    several = int((bounds.lower < bounds.upper).sum())
    have = "has" if several == 1 else "have"
    notes(f"{_cells(len(bounds))}; {several} {have} more than one possible count.")
    if len(disclosed):
        title = f"{_cells(len(disclosed), ' is', ' are')} not published, but determined"
        paragraphs(title, disclosed.lower.rename("count").head(SHOWN).to_string())
        if len(disclosed) > SHOWN:
            notes(f"... and {len(disclosed) - SHOWN} more.")
    else:
        notes("No cell that is not published is determined.")
    totals = seen.possible_totals() if several else []  # determined cells need no total
    for sentence in totals:
        notes(sentence)
    if len(open_cells):
        notes(f"{_cells(len(open_cells), ' is', ' are')} undecided after {seconds:g} s: allow more by --seconds.")
    if output is not None:
        write_atomically(output, bounds.to_csv())
        wrote(output, len(bounds))
    if report is not None:
        from ppdinf.report import write_bounds

        write_bounds(bounds, report, f"Possible counts of {table.files[0].name}", totals)
        wrote(report)
    if len(disclosed) or len(open_cells):
        raise typer.Exit(1)


def _cells(number: int, one: str = "", many: str = "") -> str:
    return f"1 cell{one}" if number == 1 else f"{number} cells{many}"


@takes_published_table
def denoise(
    table: PublishedTable,
    output: Annotated[Path, typer.Option(help="Table of the results, .csv or .parquet. An existing file is replaced.")],
    by: Annotated[
        list[str] | None, typer.Option(help="Dimension or coordinate to sum by; repeat for more. Default: every cell.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws per chain, of two chains.", min=10)] = 1000,
    report: REPORT = None,
    seed: Annotated[int, typer.Option(help="Seed of the analysis. The noise of a release has no seed.", min=0)] = 1,
) -> None:
    """Estimate counts from releases of a table, its measurements, or a CSV file, without a data model.

    The values of a CSV file are counts, ranges such as 1-9 and <5, and suppression marks.

    Every draw satisfies all public statements, and no count is negative. The level, effects and sparsity of the prior
    are estimated from the published data. Exit code 1 if the chains disagree. After Ctrl-C, the results use the
    finished draws.
    """
    from ppdinf.denoising.denoised import require_columns, require_name

    require_name(output)
    require_replaceable(output, report)
    if report is not None and report.resolve() == output.resolve():
        raise PpdinfError(f"--output and --report name the same file, {output.name}: choose two names")
    statement = ppd.invariants.margin(*by) if by else None
    published = table.read()
    require_columns(published, statement)
    with plain_warnings():
        denoised = ppd.denoise(published, draws, rng=seed)
    results = denoised.summary(statement)
    denoised.save(output, statement)
    paragraphs("Counts, with 90 % intervals", results.head(SHOWN).round(1).to_string())
    if len(results) > SHOWN:
        notes(f"... and {len(results) - SHOWN} more.")
    wrote(output, len(results))
    if report is not None:
        denoised.report(report, statement)
        wrote(report)
    drawn = denoised.draws.sizes["draw"]
    if drawn < draws:
        notes(f"Interrupted: the results use the first {drawn} of {draws} draws of each chain.")
    for problem in denoised.problems:
        notes(problem)
    if denoised.problems:
        raise typer.Exit(1)


def _law(noise: str | None, clipped: int | None, rounded: str | None) -> ppd.rules.Rule | None:
    """Return the rule of numbers, or None for exact numbers."""
    if noise is not None and rounded is not None:
        raise PrivacyError("--noise and --rounded exclude each other: rounded noise needs a law in Python")
    if noise is None and clipped is not None:
        raise PrivacyError("--clipped needs --noise")
    if rounded is not None:
        rule, _, text = rounded.rpartition(":")
        base = int(_number(text, "--rounded", whole=True))
        if rule in ("", "down", "up"):
            return ppd.rules.Rule(ppd.laws.Rounded(base, rule or "nearest"))
        if rule in ("ties-up", "ties-down", "ties-even"):
            return ppd.rules.rounded(base, ties=rule.removeprefix("ties-"))
        if rule in ("random", "midpoint"):
            return (ppd.rules.random_rounded if rule == "random" else ppd.rules.midpoint_rounded)(base)
        raise PrivacyError(
            f"--rounded {rounded}: the rule must be ties-up, ties-down, ties-even, down, up, random or midpoint"
        )
    if noise is None:
        return None
    kind, _, parameter = noise.partition(":")
    laws = ppd.laws
    of_scale = {"discrete-gaussian": laws.DiscreteGaussian, "gaussian": laws.Gaussian, "laplace": laws.Laplace}
    of_scale |= {"sampled": laws.Sampled}
    of_text = {"geometric": laws.DoubleGeometric, "ptable": laws.read_ptable}
    if kind not in of_scale | of_text:
        raise PrivacyError(
            f"--noise {noise}: the law must be geometric:EPSILON, discrete-gaussian:SD, gaussian:SD, laplace:SCALE, "
            "sampled:WEIGHT or ptable:FILE"
        )
    law: Any = of_text[kind](parameter) if kind in of_text else of_scale[kind](_number(parameter, "--noise"))
    return ppd.rules.noisy(law if clipped is None else laws.Clipped(law, at=clipped))


def _number(text: str, option: str, whole: bool = False) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number > 0 or number == float("inf") or (whole and number != int(number)):
        raise PrivacyError(f"{option} needs a positive {'integer' if whole else 'number'}, found {text!r}")
    return number
