"""``ppdinf release``, ``counts`` and ``session``: publishable files from confidential tables, and their budget."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ppdinf as ppd
from ppdinf._internal.atomic_files import require_place
from ppdinf.cli.plain_output import notes, paragraphs, plain_warnings, print_table, quoted, stage
from ppdinf.cli.published_commands import NOT_TOTAL, names_in
from ppdinf.errors import CountError, InvariantError, LabelError, PrivacyError

if TYPE_CHECKING:
    from xarray import DataArray

    from ppdinf.invariants import Public
    from ppdinf.releases import Release
    from ppdinf.sessions import Session


TABLE = Annotated[Path, typer.Argument(metavar="TABLE.csv", help="Confidential table, one row per cell.")]
COUNT = Annotated[str, typer.Option(metavar="COLUMN", help="Column of counts.")]
DIMS = Annotated[str, typer.Option(metavar="COLUMNS", help="Columns of labels, such as **county,sex**.")]
NORM = Annotated[str, typer.Option(help="Norm of Laplace noise: **l1** or **l2**.")]
PUBLIC = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STATEMENT",
        help="Exact public sums: **total**, **margin:county** (sums for each label of "
        "county; several joined by commas), **groups:state** (sums for each value of a column). "
        "Repeat for more; by default nothing is exact.",
    ),
]
SESSION = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Session whose budget limits the release; see **ppdinf session**.")
]
PART = Annotated[
    str | None,
    typer.Option(metavar="LABEL", help="Part of the session's partition that contains everybody in the table."),
]


def release(
    table: TABLE,
    count: COUNT,
    dims: DIMS,
    output: Annotated[Path, typer.Option(help="File to write; must not exist yet.")],
    session: SESSION = None,
    part: PART = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Loss of Laplace noise per unit of distance, such as **1/4** or **0.25**.")
    ] = None,
    rho: Annotated[
        str | None, typer.Option(help="zCDP loss of Gaussian noise per unit of squared distance, instead of epsilon.")
    ] = None,
    norm: NORM = "l1",
    allow_mcmc: Annotated[
        bool, typer.Option("--allow-mcmc", help="Use a Markov chain if no exact sampler applies; it adds to delta.")
    ] = False,
    public: PUBLIC = None,
    covariate: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column to publish with the table, such as population. Repeat for more."),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN:LABELS",
            help="All labels of a column, in their published order, such as **sex:f,m**. Labels that the "
            "table lacks have the count 0. Repeat for more columns.",
        ),
    ] = None,
    not_total: NOT_TOTAL = None,
) -> None:
    """Publish a confidential table: add noise that keeps the public sums exact, and write one file.

    The noise comes from the operating system's secure source and cannot be repeated. Every further release of
    the same table adds its privacy loss to the previous losses.
    """
    if (epsilon is None) == (rho is None):
        raise PrivacyError("give either --epsilon for Laplace noise or --rho for Gaussian noise")
    require_new(output)
    budget = None if session is None else ppd.Session.open(session)
    statements, groups = read_statements(public or [], covariate or [])
    if budget is not None and (budget.unit, budget.contributions) != ("person", 1):
        statements &= ppd.invariants.unit(budget.unit, contributions=budget.contributions)
    declared = read_labels(labels or [])
    for dim, dim_labels in declared.items():
        statements &= ppd.invariants.labels(dim, dim_labels)
    names = names_in(dims)
    with stage(f"Reading {table.name}"):
        data = ppd.datasets.read_table(
            table,
            count=count,
            dims=names,
            coordinates=[*groups, *(covariate or [])],
            labels=declared,
            not_totals=not_total or (),
        )
    if statements.on(data).fixed.all():
        raise PrivacyError(
            f"--public {' --public '.join(public or [])} fixes every cell, so that the confidential table would be "
            "published without noise: make less public, such as --public total; nothing was written"
        )
    _refuse_leaks(statements, data)
    with plain_warnings(), stage("Drawing noise"):
        gaussian = None if rho is None else ppd.GeneralizedGaussian(statements, rho=rho)
        mechanism = gaussian or ppd.GeneralizedLaplace(statements, epsilon=epsilon or "", norm=norm)
        if budget is None and part is not None:
            raise PrivacyError("--part requires a session with a partition: give its file with --session")
        draw = mechanism.release if budget is None else partial(budget.release, mechanism, name=output.stem, part=part)
        made = draw(data, allow_mcmc=allow_mcmc)
    write_release(made, output, f"{made.frame.size} cells, {len(made.public.names)} public sums", budget)


def require_new(output: Path) -> None:
    """Refuse an existing or unwritable file, before any privacy is spent."""
    if output.exists():
        raise FileExistsError(
            f"{output} exists: a second release of a table adds its privacy loss to the first; "
            "choose another name for a second release"
        )
    require_place(output)


def write_release(made: Release, output: Path, held: str, budget: Session | None) -> None:
    """Write a release, and print its guarantee, its contents and the remaining budget."""
    from ppdinf.privacy.unit_loss import format_loss

    made.save(output)
    paragraphs("Guarantee", made.guarantee.describe())
    paragraphs("Written", f"{quoted(output)} ({held})")
    if budget is None:
        notes("This release has no budget: ppdinf session keeps a budget for all releases of the same people.")
    else:
        left = ", ".join(f"{name} = {format_loss(value)}" for name, value in budget.left.items())
        loss = f"All releases: {budget.guarantee.describe_unit()}"
        paragraphs("Budget", f"{loss}\n{left} is left in {budget.path.name}")
    notes(f"Verify the file with: ppdinf check {quoted(output)}")


def read_labels(texts: list[str], option: str = "--labels") -> dict[str, list[str]]:
    """Parse labels such as ``sex:f,m``."""
    labels = {}
    for text in texts:
        dim, colon, rest = text.partition(":")
        dim_labels = [label.strip() for label in rest.split(",")]
        if not colon or not dim or not all(dim_labels) or len(set(dim_labels)) < len(dim_labels):
            raise LabelError(f"{option} {text!r} must be written COLUMN:LABEL,LABEL,..., each label once")
        labels[dim] = dim_labels
    return labels


def _refuse_leaks(statements: Public, data: DataArray) -> None:
    """Refuse to publish the ranking of the confidential counts, or the counts as a covariate."""
    from ppdinf.mechanisms.input_checks import copied_counts, ranked_labels
    from ppdinf.tables.table import labelled_cells

    frame, cells = labelled_cells(data)
    if ranked_labels(frame, cells, statements):
        raise PrivacyError(
            "labels are in the order of their counts, and the order of rows is published: sort the rows of the file "
            "by its labels, or state a fixed order with --labels COLUMN:LABEL,LABEL,..."
        )
    if copied := copied_counts(frame, cells):
        raise PrivacyError(f"{copied.split(':')[0]}: leave out that --covariate; nothing was written")


def read_statements(statements: list[str], covariates: list[str]) -> tuple[Public, list[str]]:
    """Parse statements such as ``margin:county``; also return the columns that groups need."""
    public, groups = ppd.invariants.Public(), []
    for text in statements:
        kind, _, argument = text.partition(":")
        columns = names_in(argument)
        if kind == "total" and not columns:
            public &= ppd.invariants.total()
        elif kind == "margin" and columns:
            public &= ppd.invariants.margin(*columns)
        elif kind == "groups" and len(columns) == 1:
            public &= ppd.invariants.groups(columns[0])
            groups.append(columns[0])
        else:
            raise InvariantError(f"--public {text!r} must be total, margin:COLUMN[,COLUMN] or groups:COLUMN")
    return (public & ppd.invariants.covariates(*covariates) if covariates else public), groups


def counts(
    table: TABLE,
    count: COUNT,
    dims: DIMS,
    epsilon: Annotated[str, typer.Option(help="Privacy loss of both stages together, such as **1/2**.")],
    output: Annotated[Path, typer.Option(help="File to write; must not exist yet.")],
    most: Annotated[
        int | None,
        typer.Option(help="Upper bound on all counts, chosen without use of the table; by default from noisy counts."),
    ] = None,
    session: SESSION = None,
    top_code: Annotated[
        bool, typer.Option("--top-code", help="Replace larger counts by the upper bound instead of refusing them.")
    ] = False,
    split: Annotated[
        str | None, typer.Option(help="Share of epsilon for the histogram; by default 0.4 with **ranked**.")
    ] = None,
    constructor: Annotated[
        str, typer.Option(help="**ranked**, **best**, **sandwich**, **max**, **min**, **optimal** or **unfixed**.")
    ] = "ranked",
) -> None:
    """Publish a confidential table and preserve its histogram: the numbers of cells with the count 0, 1, 2, ...

    First the histogram is privatized; then every cell gets noise, and the noisy cells are re-ranked to the histogram.
    No sum and no cell is exact. The noise cannot be repeated; every further release of the table adds its loss.
    """
    require_new(output)
    if most is not None and most < 1:
        raise PrivacyError(f"--most must be at least 1, found {most}")
    budget = None if session is None else ppd.Session.open(session)
    mechanism = ppd.counts.TwoStage(epsilon, None if most is None else most + 1, split=split, constructor=constructor)
    with stage(f"Reading {table.name}"):
        data = ppd.datasets.read_table(table, count=count, dims=names_in(dims))
    if top_code and most is not None:
        data = data.clip(max=most)
    elif most is not None and bool((data > most).any()):
        raise CountError(f"some counts are larger than --most {most}: give a larger bound, or --top-code")
    with plain_warnings(), stage("Privatizing the histogram, then the cells"):
        draw = mechanism.release if budget is None else partial(budget.release, mechanism, name=output.stem)
        made = draw(data)
    counted = "counts" if most is None else f"counts from 0 to {most}"
    write_release(made, output, f"{made.frame.size} cells with {counted}", budget)


FILE = Annotated[Path, typer.Argument(metavar="FILE", help="Session file, such as **cases.budget**.")]

session = typer.Typer(no_args_is_help=True, help="One budget for many releases of the same people.")


@session.command("begin")
def begin(
    file: FILE,
    epsilon: Annotated[str | None, typer.Option(help="Budget of Laplace noise, per unit of distance.")] = None,
    delta: Annotated[str | None, typer.Option(help="Budget for the sum of deltas; requires epsilon.")] = None,
    rho: Annotated[str | None, typer.Option(help="Budget of zCDP loss, per unit of squared distance.")] = None,
    unit: Annotated[str, typer.Option(help="Protected unit, in the singular.")] = "person",
    contributions: Annotated[int, typer.Option(help="Maximal number of records of one unit in each table.")] = 1,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:PARTS",
            help="Partition of the people into disjoint parts, such as **region:north,south**: the largest loss of "
            "the parts counts.",
        ),
    ] = None,
) -> None:
    """Begin a session with one budget for all releases.

    The command first prints the largest loss of one person under this budget. A person counted in another cell is an
    l1 distance of 2, so a budget of epsilon = 2 permits a loss of 4. Draw each release with **ppdinf release --session
    FILE**; the losses per unit of distance add up. The file contains the spent budget and nothing confidential. Protect
    the file: anybody who changes or copies it can spend the budget again.
    """
    if epsilon is None and rho is None:
        raise PrivacyError("a session requires a budget: --epsilon, --epsilon and --delta, or --rho")
    if file.exists():
        raise FileExistsError(f"{file} exists: show it with ppdinf session show {quoted(file)}, or choose another name")
    parts = read_labels(partition, "--partition") if partition else None
    budget = {"epsilon": epsilon, "delta": delta, "rho": rho}
    show_session(ppd.Session.open(file, **budget, unit=unit, contributions=contributions, partition=parts))


@session.command("show")
def show(file: FILE) -> None:
    """Print the spent budget of each release and the remaining budget. Every line of the file is verified."""
    show_session(ppd.Session.open(file))


def show_session(opened: ppd.Session) -> None:
    """Print what a session has spent, what is left, and its releases."""
    from ppdinf.privacy.unit_loss import format_loss

    left, spent, releases = opened.left, opened.spent, opened.table()
    together = opened.guarantee if len(releases) and (releases["outcome"] != "void").any() else None
    if together is not None:
        notes(f"All releases: {together.describe_unit()}")
    notes(opened.budget.describe(opened.unit, opened.contributions))
    records = "1 record" if opened.contributions == 1 else f"up to {opened.contributions} records"
    notes(f"Protects one {opened.unit} with {records} in each table.")
    notes(f"Budget per unit of {'squared ' * ('rho' in left)}distance, or between neighbours:")
    for name, total in opened.budget.total.items():
        notes(f"{name}: {format_loss(spent[name])} of {format_loss(total)} spent, {format_loss(left[name])} remaining.")
    if len(releases):
        releases = releases.drop(columns=["public", "per"])  # the guarantee below says both
        texts = releases.map(lambda value: f"{value:.6g}" if isinstance(value, float) else value)
        print_table(("release", *texts.columns), texts.itertuples(name=None))
    if together is not None:
        paragraphs("Guarantee of all releases", together.describe())
    notes(f"Digest of the last line: {opened.digest} (record it elsewhere to detect removed last lines)")
