"""One run of a case study: claims with numbers, figures, one page, and replicates.

A study is a folder of `case_studies`. Its ``run.py`` contains ``main(output, *, quick, data, seed, workers)``, which
creates a `Study` and finally calls `Study.write`. Each replicate has its own random stream, so results are the same
with one process, with many, and on a cluster (``main(..., workers=distributed.Client(...))``).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ppdinf._internal.atomic_files import as_path, make_folder, write_atomically
from ppdinf._internal.progress import tracked
from ppdinf._internal.workers import Workers, run
from ppdinf.report.page import Page

from .replicate_files import pack, unpack

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Claim:
    """A statement that a run of a study confirms, refutes or leaves open.

    Attributes
    ----------
    claim : str
        The statement.
    source : str
        Paper and place, or "here" for statements without a paper.
    there, here : str
        Published and computed numbers, with units.
    holds : bool or None
        None if there are too few replicates to decide.
    reason : str
        Reason why the claim does not hold, or the interpretation under which it does.
    """

    claim: str
    source: str
    there: str
    here: str
    holds: bool | None
    reason: str = ""

    @property
    def result(self) -> str:
        """Return "holds", "fails" or "too few replicates"."""
        return {True: "holds", False: "fails", None: "too few replicates"}[self.holds]


class Study:
    """One run of a case study, and the folder of its results.

    Parameters
    ----------
    title : str
    output : path
        Output folder; created if it does not exist.
    about : str
        One sentence.
    settings : mapping of str to str, int, float or bool
        Everything except the code that determines the numbers: seed, quick, data. Replicates stored under other
        settings are not reused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     study = Study("Coins", folder, about="Two coins.", settings={"seed": 1})
    ...     heads = sum(study.replicates(lambda rng, k: int(rng.integers(2)), 10))
    ...     study.claim("coins are fair", "here", "half", f"{heads} of 10", holds=heads in range(1, 10))
    ...     study.write(progress=False)
    ...     sorted(path.name for path in study.output.iterdir())
    ['replicates', 'report.html', 'results.json']
    """

    def __init__(
        self, title: str, output: str | os.PathLike[str], *, about: str, settings: Mapping[str, object]
    ) -> None:
        self.title, self.about, self.settings = title, about, dict(settings)
        self.output = as_path(output)
        make_folder(self.output)
        self.claims: list[Claim] = []
        self._page = Page(title, about, settings=self.settings)

    def claim(
        self, claim: str, source: str, there: object, here: object, *, holds: bool | None, reason: str = ""
    ) -> None:
        """Add a claim with its numbers; fields as in `Claim`."""
        decided = None if holds is None else bool(holds)
        self.claims.append(Claim(claim, source, str(there), str(here), decided, reason))

    def text(self, text: str, heading: str = "") -> None:
        """Add a paragraph to the page, optionally under a heading."""
        self._page.add(heading, text)

    def figure(self, name: str, figure: Figure, caption: str) -> None:
        """Add a figure to the page, and write it as ``name.png`` and ``name.svg``."""
        write_atomically(self.output / f"{name}.png", self._page.figure(figure, caption))
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
        write_atomically(self.output / f"{name}.svg", drawn.getvalue())
        figure.clear()

    def table(self, name: str, table: pd.DataFrame, caption: str, digits: int = 3) -> None:
        """Add a table to the page with its index as first column, and write it in full precision as ``name.csv``."""
        flat = table.reset_index()
        write_atomically(self.output / f"{name}.csv", flat.to_csv(index=False))
        printed = flat.map(lambda entry: f"{entry:.{digits}g}" if isinstance(entry, float) else str(entry))
        self._page.table(printed, caption)

    def replicates[Result](
        self,
        work: Callable[[np.random.Generator, int], Result],
        number: int,
        *,
        name: str = "replicate",
        workers: Workers = None,
        progress: bool = False,
    ) -> list[Result]:
        """Call ``work(rng, k)`` for k = 0 ... `number` - 1 in parallel, and store each result on disk when it is done.

        Parameters
        ----------
        work : callable
            A function of its arguments and the settings of the study. Its result consists of numbers, text, arrays and
            DataFrames, in tuples, lists and dictionaries.
        number : int
        name : str
            Unique name of the replicates in the study.
        workers : int or distributed.Client, optional
            Processes, or a Dask cluster; by default this process.
        progress : bool
            Whether to show a bar.

        Returns
        -------
        list
            Results in the order of k. Results of an earlier run in this folder with the same settings are reused.
        """
        folder = self.output / "replicates"
        make_folder(folder)
        stamp = hashlib.sha256(json.dumps([name, self.settings], sort_keys=True, default=str).encode()).hexdigest()
        places = [folder / f"{name}-{stamp[:12]}-{k}.npz" for k in range(number)]
        missing = [k for k in range(number) if not places[k].exists()]
        seed = int(stamp[12:28], 16)

        def replicate(k: int) -> Result:
            return work(np.random.default_rng([seed, k]), k)

        results = run(replicate, missing, workers)
        for k, result in zip(missing, tracked(results, name, len(missing), disable=not progress), strict=True):
            write_atomically(places[k], pack(result))
        return [unpack(place.read_bytes(), place.name) for place in places]

    def write(self, progress: bool = True) -> None:
        """Write ``results.json`` and ``report.html``, and print the claims unless `progress` is False."""
        results = {"title": self.title, "settings": self.settings, "claims": [asdict(claim) for claim in self.claims]}
        write_atomically(self.output / "results.json", json.dumps(results, indent=1, default=str, ensure_ascii=False))
        self._write_page()
        if progress and self.claims:
            print("| claim | source | there | here | result |\n|---|---|---|---|---|")
            for claim in self.claims:
                reason = f": {claim.reason}" if claim.reason and claim.holds is False else ""
                print(f"| {claim.claim} | {claim.source} | {claim.there} | {claim.here} | {claim.result}{reason} |")

    def _write_page(self) -> None:
        """Write the page: the number of claims that hold in the box, the claims first."""
        results = [claim.result for claim in self.claims]
        failed = [claim for claim in self.claims if claim.holds is False]
        unexplained = [claim.claim for claim in failed if not claim.reason]
        page = replace(self._page, parts=[])
        if self.claims:
            holding, undecided = results.count("holds"), results.count("too few replicates")
            open_claims = f"; undecided for lack of replicates: {undecided}" if undecided else ""
            page.verdict = f"{holding} of {len(results)} claims hold; failed: {len(failed)}{open_claims}."
            page.ok = False if unexplained else None if len(set(results)) > 1 or failed else True
            page.finding = f"Claims that fail: {'; '.join(claim.claim for claim in failed)}." if failed else ""
            page.add("Claims and results")
            columns = ["claim", "result", "source", "there", "here", "reason"]
            rows = [(c.claim, c.result, c.source, c.there, c.here, c.reason) for c in self.claims]
            marks = {k: {"holds": "pass", "fails": "fail"}.get(result, "") for k, result in enumerate(results)}
            table = pd.DataFrame(rows, columns=columns)
            if not table["reason"].any():
                table = table.drop(columns="reason")
            page.table(table, "", labels=len(columns), marks=marks, wrapped=True)
        page.parts += self._page.parts
        page.write(self.output / "report.html")
