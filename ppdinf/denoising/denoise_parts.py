"""`denoise_parts`: the exact posterior of a table that does not fit in memory, part by part, from files to Parquet."""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf._internal.atomic_files import as_path, make_folder, write_atomically
from ppdinf._internal.values import Integers
from ppdinf._internal.workers import Workers, run_parts
from ppdinf.denoising.part_sums import IMPOSSIBLE, BinomialPrior, PartSums, PartTotals, TotalMessage
from ppdinf.errors import DiagnosisWarning, LabelError, ModelError, PpdinfError
from ppdinf.fiber.nested_sums.nested_sums import Evaluated
from ppdinf.measurements import Measurements, read_measurements
from ppdinf.measurements.measurement_file import pack_measurements

FOLDERS = MESSAGES, DRAWS, DIGESTS = "messages", "draws", "digests"
DRAW = "draw_"  # prefix of the columns of draws
DIGEST = "sha256"  # of the notes and of the data of a file
# notes of a file of draws: digest of the measurements, the prior and the totals; see `Part.draw`
GIVEN, TRUNCATED = "given", "truncated"
AGAIN = "delete it, and run denoise_parts again: it makes the same draws"

type Notes = dict[str, str | int]

type Source = Callable[[], Measurements] | str | PathLike[str] | Measurements
"""Measurements of a part, a function that loads them, or the path of a file that `Measurements.save` wrote."""


@dataclass(frozen=True, eq=False)
class Part:
    """One part of a table, and the folder of its results; it can be sent to another process."""

    name: str
    source: Source
    prior: BinomialPrior | None
    folder: Path

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or Path(self.name).name != self.name:
            raise LabelError(f"the name of a part must be text that can be the name of a file, found {self.name!r}")

    def message(self, step: int, tilt: float, tolerance: float) -> TotalMessage:
        """Compute and store the message of an upward pass, or read it if the part has not changed since."""
        place = self.folder / MESSAGES / f"{self.name}.{step}.npz"
        stored, file = None, read_checked(self.folder, place, f"of part {self.name!r}")
        if file is not None:
            with np.load(io.BytesIO(file[0]), allow_pickle=False) as arrays:
                values = {name: arrays[name] for name in arrays.files}
            stored = TotalMessage(**{name: value if value.ndim else value.item() for name, value in values.items()})
        if stored is not None and stored.tilt == tilt and step > 0:  # compared with the part in the first pass
            return stored
        sums = self._load()
        if stored is not None:
            self._require_same(sums, stored)
            if stored.tilt == tilt:
                return stored
        with _named(self.name):
            message = sums.message(tilt, tolerance)
        data = io.BytesIO()
        np.savez(data, **asdict(message))
        write_checked(self.folder, place, data.getvalue(), {})
        return message

    def draw(self, message: TotalMessage, totals: Integers, seed: np.random.SeedSequence) -> int:
        """Draw all cells given their total in each draw, and write them, unless the file exists."""
        place = self.folder / DRAWS / f"{self.name}.parquet"
        given = hashlib.sha256(message.digest.encode() + totals.tobytes()).hexdigest()
        file = read_checked(self.folder, place, f"of part {self.name!r}")
        if file is not None:
            if file[1][GIVEN] != given:
                raise ModelError(
                    f"{place.name} has draws of part {self.name!r} given other measurements or another total: use "
                    "another output folder"
                )
            return int(file[1][TRUNCATED])
        sums = self._load()
        self._require_same(sums, message)
        with _named(self.name):
            drawn = sums.draw(message, totals, np.random.default_rng(seed))
        frame = sums.data.frame
        labels = {name: frame.broadcast(name) for name in frame.coords}
        table = pd.DataFrame(labels | {f"{DRAW}{n}": row for n, row in enumerate(drawn)}, copy=False)
        notes: Notes = {GIVEN: given, TRUNCATED: (truncated := sums.truncated(drawn))}
        write_checked(self.folder, place, table.to_parquet(index=False), notes)
        return truncated

    def _load(self) -> PartSums:
        with _named(self.name):
            data = self.source
            if isinstance(data, str | PathLike):
                data = read_measurements(data)
            elif not isinstance(data, Measurements):
                data = data()
            if not isinstance(data, Measurements):
                raise ModelError(f"its function must return Measurements, found {type(data).__name__}")
            for name in data.frame.coords:
                if name.startswith(DRAW) and name.removeprefix(DRAW).isdigit():
                    raise LabelError(f"rename the coordinate {name!r}, which is the name of a column of draws")
            return PartSums(data, self.prior)

    def _require_same(self, sums: PartSums, message: TotalMessage) -> None:
        if sums.digest != message.digest:
            raise ModelError(
                f"the measurements or the prior of part {self.name!r} have changed since {self.folder.name} was "
                "started: use another output folder"
            )


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Add the name of a part to the messages of errors."""
    try:
        yield
    except PpdinfError as error:
        if len(error.args) != 1:
            raise
        raise type(error)(f"part {name!r}: {error}") from error


def write_checked(folder: Path, place: Path, data: bytes, notes: Notes) -> None:
    """Write a file of a run, then its notes and the digest of both; a file without a digest is not used."""
    write_atomically(place, data)
    write_atomically(_index(folder, place), json.dumps(notes | {DIGEST: _digest(notes, data)}))


def read_checked(folder: Path, place: Path, of: str, remedy: str = AGAIN) -> tuple[bytes, Notes] | None:
    """Return the bytes and the notes of a file of a run; None if the file or its digest was not written."""
    index = _index(folder, place)
    if not (place.exists() and index.exists()):
        return None
    try:
        notes = json.loads(index.read_bytes())
        digest = notes.pop(DIGEST)
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        raise ModelError(f"the file {DIGESTS}/{index.name} {of} is damaged: {remedy}") from None
    try:
        data = place.read_bytes()
    except OSError as error:
        raise ModelError(f"the file {place.name} {of} cannot be read ({error.strerror}): {remedy}") from None
    if digest != _digest(notes, data):
        raise ModelError(f"the file {place.name} {of} is damaged, its digest differs: {remedy}")
    return data, notes


def _index(folder: Path, place: Path) -> Path:
    return folder / DIGESTS / f"{place.name}.json"


def _digest(notes: Notes, data: bytes) -> str:
    return hashlib.sha256(json.dumps(notes, sort_keys=True).encode() + data).hexdigest()


TOLERANCES = 1e-16 * 1e-3 ** np.arange(9)  # error bounds of the messages of successive upward passes
SCHEMA = 2  # of settings.json


@dataclass(frozen=True, eq=False)
class DenoisedParts:
    """Posterior draws of a table in parts, returned by `ppdinf.denoise_parts`.

    Attributes
    ----------
    folder : Path
        Output folder.
    totals : xarray.DataArray of int64, dimensions ``("draw", part)``
        Draws of the total of every part.
    bound : float
        Proved bound on the total variation distance between the law of the draws and the posterior of counts within
        their windows, up to rounding.

    See Also
    --------
    ppdinf.denoise_parts

    Examples
    --------
    >>> import tempfile, ppdinf as ppd
    >>> def part(block, noisy):
    ...     count = ppd.measured(ppd.invariants.margin("block"), [noisy], ppd.laws.DoubleGeometric(1))
    ...     return ppd.Measurements({"block": [block]}, count)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     posterior = ppd.denoise_parts(
    ...         {"04": part("04a", 7), "44": part("44a", 5)}, folder, draws=50, rng=1, progressbar=False
    ...     )
    >>> posterior.totals.dims, posterior.totals.shape, posterior.bound < 1e-9
    (('draw', 'part'), (50, 2), True)
    """

    folder: Path
    totals: xr.DataArray
    bound: float

    @property
    def files(self) -> dict[str, Path]:
        """The Parquet file of every part."""
        names = self.totals.coords[self.totals.dims[1]].values.tolist()
        return {name: self.folder / DRAWS / f"{name}.parquet" for name in names}

    def read(self, part: str) -> pd.DataFrame:
        """Return the cells of one part after a check of every byte of its file.

        Parameters
        ----------
        part : str

        Returns
        -------
        pandas.DataFrame
            One row per cell: labels, coordinates, and the columns ``draw_0``, ``draw_1``, ...

        Raises
        ------
        LabelError
            `part` is not the name of a part.
        ModelError
            The file is missing or damaged. The message names the file and the remedy.
        """
        if part not in self.files:
            raise LabelError(f"{part!r} is not a part: the parts are {', '.join(self.files)}")
        place = self.files[part]
        file = read_checked(self.folder, place, f"of part {part!r}")
        if file is None:
            raise ModelError(
                f"the file {place.name} of part {part!r}, or its digest, is missing: run denoise_parts again"
            )
        return pd.read_parquet(io.BytesIO(file[0]))


def denoise_parts(
    parts: Mapping[str, Source],
    output: str | PathLike[str],
    draws: int = 100,
    *,
    top: Measurements | None = None,
    prior: str | BinomialPrior | Mapping[str, BinomialPrior] = "flat",
    rng: int | None = None,
    workers: Workers = None,
    progressbar: bool = True,
) -> DenoisedParts:
    """Draw the exact joint posterior of a table in parts, with one part in memory at a time.

    Any two sums that were published must be nested or disjoint. The draws are independent, and every draw satisfies
    everything exact, in all parts together. The prior is given; no parameter is learned.

    Parameters
    ----------
    parts : mapping of str to (Measurements, path, or function without arguments)
        Measurements of every part of the table, such as a state, or how to load them: the path of a file that
        `Measurements.save` wrote, or a function, for example
        ``functools.partial(ppd.census.read_occupied, root, within="04")``.
    output : path
        Folder. It receives ``draws/<part>.parquet``: one row per cell, with its labels and coordinates and the columns
        ``draw_0``, ``draw_1``, ... in the smallest signed integer type that fits.
    draws : int, default 100
    top : Measurements, optional
        Everything known about sums of whole parts: measurements of a table whose only dimension has the names of the
        parts as labels, in any order. For example a public total, or noisy totals of regions.
    prior : {"flat"}, BinomialPrior, or mapping of str to BinomialPrior
        "flat" gives all counts that the measurements and bounds allow the same weight. `BinomialPrior` refers to a
        coordinate with the known number of trials of every cell, such as the housing units of a block; a mapping
        has one by part.
    rng : int, optional
        Seed. By default a random one, which is stored in the folder. Every part has its own random stream.
    workers : int or distributed.Client, optional
        Number of processes, or a Dask cluster whose workers share the folder. Parts are then loaded and drawn in
        parallel, with the same draws. By default everything runs in this process.
    progressbar : bool, default True

    Returns
    -------
    DenoisedParts
        The draws of all totals, the files, and the error bound, at most 1e-9.

    Raises
    ------
    ModelError
        A cell is unbounded; the folder was started with other arguments, or a part has changed since; a file of the
        folder is damaged; or the sums of parts are impossible or too improbable given the parts. The message names
        the part.
    InvariantError
        Two sums overlap, or no table satisfies everything exact. The message names the part and the sums.
    LabelError
        `top` has other labels than the names of the parts.
    ModuleNotFoundError
        pyarrow is not installed: it comes with the extra ``census``.

    Warns
    -----
    DiagnosisWarning
        With a flat prior, draws reach the end of the range that the noise permits, because `top` or other sums
        contradict the noise. The truncation then matters, and `bound` does not include it.

    See Also
    --------
    ppdinf.denoise, ppdinf.denoising.BinomialPrior, ppdinf.census.read_occupied

    Notes
    -----
    With a binomial prior, the draws have the law of the posterior up to the error bound. With a flat prior, the noise
    truncates the windows of counts with a tail probability of 1e-12, which the bound does not include.

    Each part is loaded twice. In between, only the weights of its total are kept, in memory and in the folder. After an
    interruption, the same call resumes with the same draws: it loads the parts to check that they have not changed. A
    file that differs from its stored digest is refused by name; after it is deleted, the same call makes it again.
    Memory is that of the largest part. Times are in docs/speed.md.

    A given binomial prior is narrow: the sum of 100,000 units with p = 0.9 has a standard deviation of 95. If noisy
    sums contradict the prior, counts are pulled towards it. A flat prior of sparse tables fits the noise.

    Examples
    --------
    >>> import tempfile, ppdinf as ppd
    >>> inv, law = ppd.invariants, ppd.laws.DiscreteGaussian(variance=4)
    >>> def state(blocks, noisy):
    ...     return ppd.Measurements({"block": blocks}, ppd.measured(inv.margin("block"), noisy, law))
    >>> parts = {"04": state(["04a", "04b"], [7, 3]), "44": state(["44a", "44b"], [5, 2])}
    >>> nation = ppd.Measurements({"state": ["04", "44"]}, public={inv.total(): 16})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     posterior = ppd.denoise_parts(parts, folder, draws=50, top=nation, rng=1, progressbar=False)
    ...     files = sorted(path.name for path in posterior.files.values())
    >>> files, set(posterior.totals.sum("state").values.tolist())
    (['04.parquet', '44.parquet'], {16})
    """
    if find_spec("pyarrow") is None:
        raise ModuleNotFoundError(
            "draws are written as Parquet, which needs pyarrow: pip install pyarrow", name="pyarrow"
        )
    if not isinstance(draws, int | np.integer) or draws < 1:
        raise ModelError(f"draws must be an integer >= 1, found {draws!r}")
    if rng is not None and (not isinstance(rng, int | np.integer) or rng < 0):
        raise ModelError(f"rng must be an integer >= 0, so that the run can be resumed, found {rng!r}")
    if not parts:
        raise ModelError("parts must contain at least one part")
    folder = as_path(output)
    made = {name: Part(name, source, _prior_of(prior, name), folder) for name, source in parts.items()}
    totals = PartTotals(list(parts), top)
    tasks = [made[name] for name in totals.parts]
    for name in FOLDERS:
        make_folder(folder / name)
    seed = _seed(folder, totals.parts, draws, top, rng)
    messages, evaluated, bound = _upward(tasks, totals, workers, progressbar)
    root, *streams = np.random.SeedSequence(seed).spawn(len(tasks) + 1)
    drawn = evaluated.draw(draws, np.random.default_rng(root))
    given = zip(tasks, messages, drawn.T, streams, strict=True)
    truncated = run_parts("Draws of parts", _draw, given, workers, progressbar=progressbar)
    if any(truncated):
        part = next(name for name, number in zip(totals.parts, truncated, strict=True) if number)
        warnings.warn(
            f"draws of {sum(truncated)} cells reach the end of the range that their noise permits, the first in part "
            f"{part!r}: top or other sums contradict the noise; correct a value or the scale of a law, or state a "
            "BinomialPrior",
            DiagnosisWarning,
            stacklevel=2,
        )
    coords = {"draw": np.arange(draws), totals.dim: totals.parts}
    counts = xr.DataArray(drawn, dims=("draw", totals.dim), coords=coords, name="count")
    return DenoisedParts(folder, counts.sel({totals.dim: list(parts)}), bound)


def _upward(
    tasks: Sequence[Part], totals: PartTotals, workers: Workers, progressbar: bool
) -> tuple[list[TotalMessage], Evaluated, float]:
    """Compute the messages of all parts and the posterior of their totals, with tilts if the bound requires them."""
    tilts = np.zeros(len(tasks))
    for step, tolerance in enumerate(TOLERANCES.tolist()):
        given = ((part, step, tilt, tolerance) for part, tilt in zip(tasks, tilts.tolist(), strict=True))
        messages = run_parts("Weights of parts", _message, given, workers, progressbar=progressbar)
        posterior = totals.posterior(messages)
        if posterior is not None:
            return messages, *posterior
        tilts = totals.tilts(messages)
    raise ModelError(IMPOSSIBLE)


def _message(task: tuple[Part, int, float, float]) -> TotalMessage:
    part, step, tilt, tolerance = task
    return part.message(step, tilt, tolerance)


def _draw(task: tuple[Part, TotalMessage, Integers, np.random.SeedSequence]) -> int:
    part, message, totals, seed = task
    return part.draw(message, totals, seed)


def _prior_of(prior: str | BinomialPrior | Mapping[str, BinomialPrior], name: str) -> BinomialPrior | None:
    """Return the prior of a part; None if it is flat."""
    stated = prior.get(name) if isinstance(prior, Mapping) else prior
    if stated == "flat":
        return None
    if not isinstance(stated, BinomialPrior):
        raise ModelError(f"prior must be 'flat', a BinomialPrior, or a mapping of part to one; {name!r} has {stated!r}")
    return stated


def _seed(folder: Path, parts: Sequence[str], draws: int, top: Measurements | None, rng: int | None) -> int:
    """Store the arguments that determine the draws, or require those of the stored run; return its seed."""
    place = folder / "settings.json"
    known = hashlib.sha256(b"" if top is None else pack_measurements(top)).hexdigest()
    settings = {"schema": SCHEMA, "parts": list(parts), "draws": int(draws), "top": known}
    remedy = f"delete {place.name} and state the rng of the run, or use another output folder"
    file = read_checked(folder, place, "of the run", remedy)
    if file is None and place.exists():
        raise ModelError(f"{folder.name} has a {place.name} without a digest: {remedy}")
    if file is None:
        settings["seed"] = int(np.random.SeedSequence().entropy % 2**63) if rng is None else int(rng)  # type: ignore[operator]
        write_checked(folder, place, json.dumps(settings, indent=1).encode(), {})
    else:
        stored = json.loads(file[0])
        settings["seed"] = stored.get("seed") if rng is None else int(rng)
        for name, value in settings.items():
            if stored.get(name) != value:
                raise ModelError(f"{folder.name} was started with other {name}: use another output folder")
    return int(settings["seed"])  # type: ignore[call-overload]
