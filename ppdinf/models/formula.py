"""Models of a release from a formula.

The formula is translated into PyMC code (`formula.py.j2`), and the model is what this code builds, so that the text of
`Fit.source` cannot differ from the model. formulae, the parser of bambi, reads the right-hand side.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from jinja2 import Environment

from ppdinf.errors import LabelError, ModelError
from ppdinf.models.label_effects import log_rates
from ppdinf.models.partially_private import PartiallyPrivate
from ppdinf.releases import Release

Family = Literal["poisson", "negativebinomial", "binomial"]
TEMPLATE = Path(__file__).with_name("formula.py.j2")
FAMILIES = ("poisson", "negativebinomial", "binomial")
FUNCTIONS = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt}
RESPONSE = re.compile(r"\s*(?:p|prop|proportion)\(\s*(?P<count>\w+)\s*,\s*(?P<trials>\w+)\s*\)\s*|\s*(?P<name>\w+)\s*")


@dataclass(frozen=True)
class Fit:
    """A model of a release written as a formula, and its posterior.

    Attributes
    ----------
    model : pymc.Model
        The model; an ordinary PyMC model.
    idata : xarray.DataTree
        Result of ``pm.sample``.

    See Also
    --------
    ppdinf.fit, ppdinf.sample_confidential, ppdinf.diagnose

    Examples
    --------
    >>> import ppdinf as ppd
    >>> release = ppd.Release([3, 1, 4, 2], ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> result = ppd.fit("cases ~ 1", release, draws=20, tune=20, random_seed=1)  # doctest: +SKIP
    >>> print(ppd.diagnose(result.idata, result.model))  # doctest: +SKIP
    """

    model: pm.Model
    idata: xr.DataTree
    code: str

    def source(self, release: str = "release.ppd", data: str = "data.csv") -> str:
        """Return Python code that builds the model from a release file and, if used, a CSV file of covariates."""
        head = [
            "import numpy as np",
            "import pandas as pd",
            "import pymc as pm",
            "from formulae import design_matrices",
            "",
            "from ppdinf import PartiallyPrivate, read_release",
            "from ppdinf.models import log_rates",
            "",
            f"release = read_release({release!r})",
        ]
        if "merge(data" in self.code:
            head.append(f"data = pd.read_csv({data!r})")
        return "\n".join([*head, self.code])


def fit(
    formula: str, release: Release, *, family: Family = "poisson", data: pd.DataFrame | None = None, **sampling: Any
) -> Fit:
    """Fit a regression of confidential counts, written as a formula, to their release.

    Parameters
    ----------
    formula : str
        ``"cases ~ rural + (1 | state) + offset(log(population))"``: name of the counts, covariates, effects of labels
        ``(1 | label)``, slopes by label ``(x | label)`` and offsets, in the syntax of formulae and bambi. For the
        binomial family the left side is ``proportion(deaths, persons)``, with public numbers of trials.
    release : Release
        Release of a table. Its dimensions and covariates are the variables of the formula.
    family : {"poisson", "negativebinomial", "binomial"}
        Law of the counts: log link, except for the binomial family (logit).
    data : DataFrame, optional
        Further covariates, one row per label or cell, joined by the columns that are dimensions of the table.
    **sampling
        Options of ``pm.sample``, such as ``draws=1000, random_seed=1``.

    Returns
    -------
    Fit
        The PyMC model (``.model``), the posterior (``.idata``) and the code of the model (``.source()``).

    Raises
    ------
    ModelError
        The formula cannot be read, has no intercept, uses an unknown variable, or contains a term that has to be
        written in PyMC; a column is constant or not finite.
    LabelError
        Rows of `data` do not match the cells.
    ImportError
        formulae is not installed.

    See Also
    --------
    ppdinf.PartiallyPrivate, ppdinf.models.log_rates, ppdinf.sample_confidential

    Notes
    -----
    Columns are centred, so that the intercept belongs to average covariates. Priors: intercept ~ Normal(overall, 2.5)
    on the link scale, a coefficient ``b_x`` ~ Normal(0, 2.5 / sd(x)), standard deviations of effects ``label_spread`` ~
    HalfNormal(1), shape of the negative binomial family ``alpha`` ~ Gamma(2, 0.1). For other priors change the
    code that `Fit.source` returns. Effects of public labels have the coordinates of `log_rates`.

    Examples
    --------
    >>> import numpy as np, pandas as pd, ppdinf as ppd
    >>> income = pd.DataFrame({"dim_0": [0, 1, 2, 3], "income": [1.0, 2.0, 4.0, 3.0]})
    >>> release = ppd.Release([3, 1, 4, 2], ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> result = ppd.fit("cases ~ income", release, data=income, draws=20, tune=20, random_seed=1)  # doctest: +SKIP
    >>> print(result.source("cases.ppd"))  # doctest: +SKIP
    """
    code = translate(formula, release, family, data)
    model = build(code, release, data)
    return Fit(model, pm.sample(model=model, **sampling), code)


def build(code: str, release: Release, data: pd.DataFrame | None) -> pm.Model:
    """Run the code of a model."""
    design_matrices = _parser()
    names: dict[str, Any] = {"release": release, "data": data, "design_matrices": design_matrices}
    names |= {"np": np, "pd": pd, "pm": pm, "log_rates": log_rates, "PartiallyPrivate": PartiallyPrivate}
    exec(code, names)
    model: pm.Model = names["model"]
    return model


def translate(formula: str, release: Release, family: Family = "poisson", data: pd.DataFrame | None = None) -> str:
    """Return the code that builds the model of a formula."""
    name, trials, right = _sides(formula, family)
    on = [] if data is None else [dim for dim in release.dims if dim in data]
    cells = _cells(release) if data is None else _joined(release, data, on)
    known = ", ".join(map(str, cells))
    if name in cells:
        raise ModelError(f"the counts {name!r} must have another name than the columns {known}")
    if trials is not None and trials not in cells:
        raise ModelError(f"the trials {trials!r} must be one of the columns {known}")
    design_matrices = _parser()
    try:
        design = design_matrices(right, cells, "error", extra_namespace=FUNCTIONS)
    except KeyError as error:
        raise ModelError(f"the formula uses {error}, but the cells have {', '.join(map(str, cells))}") from error
    except Exception as error:  # the parser has several own classes of errors
        raise ModelError(f"the formula cannot be read: {error}") from error
    common = design.common.terms if design.common else {}
    if "Intercept" not in common:
        raise ModelError("the formula has no intercept: change the code of the formula with one (source())")
    offsets = [term for term, part in common.items() if part.kind == "offset"]
    covariates = [term for term in common if term not in (*offsets, "Intercept")]
    columns = [_column(k, term, common[term].labels) for k, term in enumerate(covariates)]
    _require_finite(design.common, offsets, columns, family)
    groups = [_group(term, part, cells) for term, part in (design.group.terms if design.group else {}).items()]
    # labels published with the table have coordinates that suit the noise; others are scaled standard normals
    ready = []
    if trials is None:
        published = (*release.dims, *release.frame.coords)
        ready = [group["label"] for group in groups if not group["slope"] and group["label"] in published]
        groups = [group for group in groups if group["slope"] or group["label"] not in ready]
    environment = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    environment.filters["repr"] = repr
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        name=name,
        trials=trials,
        right=right,
        family=family,
        on=on,
        offsets=offsets,
        columns=columns,
        groups=groups,
        ready=ready,
    )


def _sides(formula: str, family: Family) -> tuple[str, str | None, str]:
    """Return the name of the counts, the column of trials, and the right-hand side."""
    if family not in FAMILIES:
        raise ModelError(f"family must be one of {', '.join(FAMILIES)}: {family!r}")
    left, tilde, right = formula.partition("~")
    response = RESPONSE.fullmatch(left)
    if not tilde or response is None:
        raise ModelError(f"a formula reads 'cases ~ covariates' or 'proportion(deaths, persons) ~ ...': {formula!r}")
    if (response["trials"] is not None) != (family == "binomial"):
        raise ModelError(
            "the binomial family, and only this family, has a left side proportion(count, trials). The persons at risk "
            "of a rate are + offset(log(persons))"
        )
    return response["name"] or response["count"], response["trials"], right.strip()


def _cells(release: Release) -> pd.DataFrame:
    """Return labels and covariates of the cells, without the noisy counts."""
    return release.to_dataframe().drop(columns="released")


def _joined(release: Release, data: pd.DataFrame, on: list[str]) -> pd.DataFrame:
    """Return the cells with the columns of `data`; every cell has exactly one row of it."""
    cells = _cells(release)
    if not on or (set(data) - set(on)) & set(cells):
        raise LabelError(
            f"data needs a column of labels ({' or '.join(release.dims)}), and no other column of the release: it has "
            f"{', '.join(map(str, data))}"
        )
    twice = data[data.duplicated(on)]
    if len(twice):
        raise LabelError(f"data has two rows for {dict(twice.iloc[0][on])}")
    joined = cells.merge(data, on=on, how="left", indicator=True)
    lost = joined[joined["_merge"] != "both"]
    if len(lost):
        raise LabelError(f"data has no row for {dict(lost.iloc[0][on])}")
    return joined.drop(columns="_merge")


def _parser() -> Any:
    try:
        from formulae import design_matrices
    except ImportError:
        raise ImportError("formulas need the package formulae: pip install formulae", name="formulae") from None
    return design_matrices


def _column(k: int, term: str, labels: list[str]) -> dict[str, Any]:
    variable = f"x{k}_" + re.sub(r"\W+", "_", term).strip("_")  # a:b and a_b differ by their number
    return {"term": term, "labels": labels, "variable": variable, "name": f"b_{term}", "dim": f"{term} columns"}


def _require_finite(common: Any, offsets: list[str], columns: list[dict[str, Any]], family: Family) -> None:
    for term in offsets:
        values = np.asarray(common[term], float)
        if np.isnan(values).any() or np.isposinf(values).any():
            raise ModelError(f"the term {term} of the formula is not a finite number in every cell")
        if family == "negativebinomial" and np.isneginf(values).any():
            raise ModelError(
                f"the term {term} is an exposure of 0 in a cell: use the Poisson family, or a positive exposure"
            )
    for column in columns:
        term = column["term"]
        values = np.asarray(common[term], float).reshape(len(common[term]), -1)
        if not np.isfinite(values).all():
            raise ModelError(f"the term {term} of the formula is not a finite number in every cell")
        if not np.ptp(values, axis=0).all():
            raise ModelError(f"the term {term} of the formula is the same in every cell: leave it out")


def _group(term: str, part: Any, cells: pd.DataFrame) -> dict[str, Any]:
    """Return the names of a term ``(1 | label)`` or ``(x | label)``."""
    x, _, label = term.partition("|")
    slope = part.kind == "numeric"
    if label not in cells or not (slope or part.kind == "intercept"):
        raise ModelError(
            f"the term ({term}) is not an effect or a numeric slope of one column of labels: add such a column, or "
            "write the term in the code of the other terms (source())"
        )
    return {"term": term, "slope": slope, "label": label, "name": f"{x}_{label}" if slope else label}
