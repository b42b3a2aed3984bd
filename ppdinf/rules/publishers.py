"""Rules of publishers by name, with their sources. Documentation of a publisher decides for its own release."""

from __future__ import annotations

import difflib
from functools import cache
from itertools import pairwise

from ppdinf.errors import PrivacyError
from ppdinf.laws import DiscreteGaussian, read_ptable
from ppdinf.rules.rule import (
    Rule,
    averaged,
    empty_cells,
    marked,
    midpoint_rounded,
    noisy,
    random_rounded,
    rounded,
    suppressed,
)

ANY = ">=0"

PUBLISHERS = {
    "cdc-wonder": "CDC WONDER, data use restrictions: counts from 1 to 9 are suppressed, zeros are printed",
    "nchs": "NCHS, provisional counts: counts from 1 to 9 are empty",
    "cms": "CMS, cell size suppression policy: counts from 1 to 10 are *, secondary suppression is #",
    "nhs-hes": "NHS England, Hospital Episode Statistics: counts from 1 to 7 are *, others are rounded to 5",
    "nhs-snomed": "NHS England, SNOMED code usage: counts from 1 to 4 are *, others are rounded to 10",
    "opensafely-redacted": "OpenSAFELY, disclosure control: counts up to 7 are redacted, others are rounded to 5",
    "opensafely-midpoint6": "OpenSAFELY, midpoint rounding with base 6: 0, 3, 9, 15",
    "qcew": "BLS, Quarterly Census of Employment and Wages: disclosure code N with the value 0",
    "cbp": "Census Bureau, County Business Patterns before 2017: ranges of employment by letter, D and S withheld",
    "qwi": "Census Bureau, Quarterly Workforce Indicators: status 5 or S is suppressed; noise is multiplicative",
    "acs": "Census Bureau, American Community Survey: annotation codes; add rules.noisy(laws.Sampled(weight))",
    "ddhc-a": "Census Bureau, 2020 Detailed DHC-A: discrete Gaussian noise with a 95 % margin of 11, absent is unknown",
    "ons-cell-key:PTABLE": "ONS, Census 2021: cell keys with a perturbation table in a file",
    "abs-cell-key:PTABLE": "ABS, TableBuilder: cell keys with a perturbation table in a file",
    "stats-nz": "Stats NZ, microdata output guide: random rounding to base 3, S is a count below 6",
    "statcan": "Statistics Canada, census: random rounding to base 5, x is suppressed, .. and F are not available",
    "edfacts": "EDFacts: numbers of assessed pupils; PS and n/a are suppressed. Percentages need ppdinf.percentages",
    "state-cancer-profiles": "State Cancer Profiles: averages of five years, sums below 16 are suppressed",
    "irs-migration": "IRS, migration data: flows below 20 returns are -1",
    "hhs-facilities": "HHS, hospital capacity by facility: sums of seven days from 1 to 3 are -999999",
}
"""Source and description of each rule."""


@cache
def publisher(name: str) -> Rule:
    """Return the rule of a publisher by its name.

    Parameters
    ----------
    name : str
        A key of `ppdinf.rules.PUBLISHERS`, such as ``"cdc-wonder"``. Cell keys need their perturbation table:
        ``"ons-cell-key:ptable.csv"``.

    Raises
    ------
    PrivacyError
        The name is unknown; the message contains similar names.

    See Also
    --------
    ppdinf.rules.Rule, ppdinf.laws.read_ptable

    Notes
    -----
    Rules change between releases of a publisher: compare ``print(rule)`` with the documentation of the file.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> print(ppd.rules.publisher("nhs-hes").meaning("10"))
    8 to 12
    """
    kind, _, file = name.partition(":")
    if kind in ("ons-cell-key", "abs-cell-key") and file:
        return noisy(read_ptable(file)).then(empty_cells("zero"))
    if name not in PUBLISHERS or ":" in name:
        near = difflib.get_close_matches(name, PUBLISHERS) or PUBLISHERS
        raise PrivacyError(f"the rule {name!r} is unknown: use one of {', '.join(near)}, or compose ppdinf.rules")
    return _rule_of(name)


def _rule_of(name: str) -> Rule:
    """Return a rule without parameters."""
    match name:
        case "cdc-wonder":
            unknown = dict.fromkeys(("Missing", "Not Applicable", "Not Available"), ANY)
            return suppressed(1, 9, "Suppressed").then(marked(unknown))
        case "nchs":
            return suppressed(1, 9).then(empty_cells("suppressed"))
        case "cms":
            return suppressed(1, 10, "*").then(marked({"#": ANY}))
        case "nhs-hes":
            return rounded(5).then(suppressed(1, 7, "*")).then(empty_cells("zero"))
        case "nhs-snomed":
            return rounded(10).then(suppressed(1, 4, "*")).then(empty_cells("zero"))
        case "opensafely-redacted":
            # older files print 0 for redacted counts
            return rounded(5).then(suppressed(0, 7, ("[REDACTED]", 0))).then(empty_cells("suppressed"))
        case "opensafely-midpoint6":
            return midpoint_rounded(6)
        case "qcew":
            return marked({"N": ANY})
        case "cbp":
            letters = "ABCEFGHIJKLM"
            ends = (0, 20, 100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000)
            ranges = [f"{low}-{high - 1}" for low, high in pairwise(ends)] + ["100000+"]
            return marked(dict(zip(letters, ranges, strict=True)) | dict.fromkeys("DSN", ANY))
        case "qwi":
            return marked({"S": ANY}).then(empty_cells("missing"))
        case "acs":
            codes = ("-", "**", "***", "N", "(X)", "null", -222222222, -333333333, -666666666, -888888888, -999999999)
            return marked(dict.fromkeys(codes, ANY)).then(empty_cells("missing"))
        case "ddhc-a":
            return noisy(DiscreteGaussian(11 / 1.96)).then(empty_cells("missing"))
        case "stats-nz":
            return random_rounded(3).then(marked({"S": "0-5", "..S": "0-5", "C": ANY, "..C": ANY}))
        case "statcan":
            return random_rounded(5).then(marked(dict.fromkeys(("x", "..", "...", "F"), ANY)))
        case "edfacts":
            return marked(dict.fromkeys(("PS", "n/a", "*", "."), ANY)).then(empty_cells("missing"))
        case "state-cancer-profiles":
            hidden = marked({"3 or fewer": "0-15", "data not available": ANY, "[P]": ANY})
            return averaged(5).then(suppressed(0, 15, "*")).then(hidden)
        case "irs-migration":
            return suppressed(1, 19, (-1, "d"))
        case _:
            return suppressed(1, 3, -999999)
