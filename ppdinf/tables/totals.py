"""Totals among the labels of a table, found by their names, their numbers and their codes.

A total counts everybody twice: a person is then in two cells, and suppressed cells follow from it. Labels with the
names of totals are refused. Other labels are refused if their numbers equal the sums of other labels, and this happens
by chance with a probability below `CHANCE` under each of two laws (`_log_chance`): all tables with the same total are
equally likely; the label and the sum of the others are Poisson with equal means. Two equal numbers and zeros
do not count as evidence.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from scipy.special import gammaln, ive

from ppdinf._internal.values import Array, Flags, Integers
from ppdinf.errors import LabelError
from ppdinf.tables.frame import Frame, native

CHANCE = 1 / 20
"""Largest probability of an accidental sum at which a label is refused; names and decimal codes permit `LIKELY`."""
LIKELY = 1 / 2

type Codes = tuple[Integers, list[str], Integers]
type Bounds = tuple[Sequence[str], Array, Array]

_ALL = "all|alle|tous|toutes|todos|todas|tutti|tutte"
_TOTAL = (
    "(?:sub)?totals?|(?:sub|eind)?totaal|(?:sub)?totale|totali|(?:sub)?totales|totaux|totais|(?:ins)?gesamt|summe|"
    "(?:gesamt|end|zwischen|teil)summe|gesamt(?:ergebnis|zahl|bevolkerung)|zusammen"
)
_EVERY = (  # nouns after "all"
    "ages?|race|races|sexe?s?|genders?|causes?|count(?:y|ies)|states|areas|regions?|persons?|people|(?:age )?groups|"
    "ethnicit(?:y|ies)|origins|types|categories|industries|sectors|occupations|districts|places|schools|grades|levels|"
    "years|months|diseases|sites|countries|cases|deaths|alter|altersgruppen|altersklassen|geschlechter|kreise|lander|"
    "regionen|personen|ursachen|departements|personnes|edades|sexos|generos|provincias|regiones|causas|personas|"
    "municipios|eta|classi|sessi|province|regioni|cause|persone|idades|racas|regioes|pessoas|leeftijden"
)
_OF = "of|for|in|des?|der|do|da|del|della|all|both|general|generale|geral|complessivo|population|poblacion|popolazione|"
_OF += "populacao|persons?|people|number|counts?|cases|deaths|births|residents|households|sum|ages|national|nacional|"
_OF += "nazionale|state|us|u s"
_NAMES = re.compile(
    rf"(?:.+ )?(?:{_TOTAL})|(?:sub)?total(?:e|es)? (?:{_OF})(?: .*)?|{_ALL}|"
    rf"(?:{_ALL}) (?:(?:of )?the |les |las |los |le |i |gli |as |os )?(?:{_EVERY})(?: .*)?|"
    "sums?|suma|overall|combined|everyone|everybody|ensemble(?: des .*)?|insieme|(?:in )?complesso|tot|"
    "both (?:sexe|gender)s(?: .*)?|beide geschlechter|(?:les )?deux sexes|ambos (?:os )?(?:sexos|generos)|"
    "entrambi i sessi|(?:fe)?males? and (?:fe)?males?|m(?: and)? f|manner und frauen|hommes et femmes|"
    "hombres y mujeres|homens e mulheres|maschi e femmine|(?:state|nation|country|county|city|district|world|"
    "province|system)wide"
)
_FIRST = re.compile(rf"(?:{_TOTAL})\s*[-–—:,(]")  # "Total - Mother tongue"
_HINTS = re.compile(
    rf"\b(?:{_TOTAL}|combined|overall|national|both|beide|ambos|ambas|entrambi)\b|^(?:{_ALL})\b(?! others?\b)|^t$"
)
_STEMS = re.compile(  # one of them is in each text that the other two patterns match
    "tot|gesamt|zusammen|sum|overall|combined|every|ensemble|insieme|complesso|both|beide|sexes|amb[oa]s|entrambi|"
    f"male|frauen|femm|mujeres|mulheres|wide|national|(?<![^\\W_])(?:{_ALL}|[mt])(?![^\\W_])"
)


def exempt_labels(data: object, not_totals: Iterable[str | int] = ()) -> tuple[str | int, ...]:
    """Return the labels that a table, in its attribute ``not_totals``, and an argument state not to be totals."""
    if isinstance(not_totals, str | int):
        raise LabelError(f"not_totals must be a list of labels, such as not_totals=[{not_totals!r}]")
    return (*map(native, getattr(data, "attrs", {}).get("not_totals", ())), *not_totals)


def all_labels(frame: Frame) -> set[str | int]:
    """Return the labels of all dimensions."""
    return {label for dim in frame.dims for label in frame.coords[dim][1].tolist()}


def require_known(frame: Frame, not_totals: Iterable[str | int]) -> None:
    """Refuse labels that no dimension of the table has."""
    known = all_labels(frame)
    for label in not_totals:
        if label not in known:
            raise LabelError(f"not_totals contains {label!r}, which is not a label of the table")


def refuse_totals(frame: Frame, tables: Iterable[Bounds] = (), not_totals: Iterable[str | int] = ()) -> None:
    """Refuse labels that are totals of other labels, because everybody would be counted twice."""
    exempt = set(not_totals)
    for dim in frame.dims:
        labels = frame.coords[dim][1]
        for label in labels[named_totals(labels)[0]].tolist() if labels.size > 1 else ():
            if label not in exempt:
                raise LabelError(f"{dim!r} has the label {label!r} among others: {_advice(label)}")
    for _, label, words, _ in sums_of_labels(frame, list(tables), exempt, CHANCE):
        raise LabelError(f"the numbers of {label!r} equal the sums of the {words}: {_advice(label)}")


def possible_totals(frame: Frame, tables: Iterable[Bounds], not_totals: Iterable[str | int] = ()) -> list[str]:
    """Return a sentence for each label whose numbers agree with sums of others, by chance or not."""
    return [
        f"The numbers of {label!r} agree with the sums of the {words}. {label!r} may be a total: {_advice(label)}."
        for _, label, words, _ in sums_of_labels(frame, list(tables), set(not_totals), np.inf)
    ]


def sums_of_labels(
    frame: Frame, tables: list[Bounds], exempt: set[str | int], chance: float = CHANCE
) -> Iterator[tuple[str, str | int, str, list[str | int]]]:
    """Yield dimensions and labels whose numbers agree with sums of others, and which others; see `refuse_totals`."""
    for dim in frame.dims:
        labels = frame.coords[dim][1]
        if labels.size < 3:
            continue
        _, likely = named_totals(labels)
        candidates = np.ones(labels.size, dtype=bool)
        if exempt:
            candidates[:] = [label not in exempt for label in labels.tolist()]
        codes = _codes(labels)
        for dims, low, high in tables:
            if dim not in dims:
                continue
            axis = list(dims).index(dim)
            low, high = np.moveaxis(low, axis, 0), np.moveaxis(high, axis, 0)
            if (k := _sum_of_others(low, high, candidates, likely, chance)) is not None:
                others = np.delete(labels, k).tolist()
                yield dim, native(labels[k]), f"other labels of {dim!r}, wherever these are known", others
            if codes is not None and (code := _sum_of_codes(low, high, candidates, codes, chance)) is not None:
                parts = labels[code[1]].tolist()
                words = f"labels of {dim!r} that begin with the same code, such as {parts[0]!r}"
                yield dim, native(labels[code[0]]), words, parts


def _advice(label: str | int) -> str:
    return (
        "a total would count everybody twice. Remove its rows and state the totals as public sums, by --public "
        "(public=, or statements of ppdinf.invariants). If it is not a total, state this by --not-total "
        f"{label!r} (not_totals=[{label!r}])"
    )


def named_totals(labels: Array) -> tuple[Flags, Flags]:
    """Return masks of the labels that have the name of a total, and of those whose name may be of a total."""
    named, likely = np.zeros((2, labels.size), dtype=bool)
    if labels.dtype != object or not _STEMS.search("\n".join(labels).casefold()):
        return named, likely
    for k, label in enumerate(labels.tolist()):
        if _STEMS.search(label.casefold()):
            text = "".join(c for c in unicodedata.normalize("NFKD", label.casefold()) if not unicodedata.combining(c))
            words = re.sub(r"[\W_]+", " ", text).strip()
            is_sdmx = label == "_T"
            named[k] = is_sdmx or _NAMES.fullmatch(words) is not None or _FIRST.match(text) is not None
            likely[k] = named[k] or _HINTS.search(words) is not None
    return named, likely


def _sum_of_others(low: Array, high: Array, candidates: Array, likely: Flags, chance: float) -> int | None:
    """Return the label, on the first axis, whose numbers agree with the sums of all other labels."""
    least, most, known = _by_label(low, high)
    infinite = (~known).sum() - ~known
    rest_most = np.where(infinite > 0, np.inf, np.where(known, most, 0).sum() - np.where(known, most, 0))
    possible = np.flatnonzero(candidates & (most > 0) & (least <= rest_most) & (least.sum() - least <= most))
    for k in possible.tolist():  # none in most tables
        others = np.arange(least.size) != k
        rest_low, rest_high = low[others].sum(axis=0), high[others].sum(axis=0)
        n = int((most > 0).sum())
        if np.all((low[k] <= rest_high) & (rest_low <= high[k])):
            log_chance = _log_chance(n, n, least[others], low[k], high[k], rest_low, rest_high)
            if log_chance < np.log(max(chance, LIKELY) if likely[k] else chance):
                return k
    return None


def _by_label(low: Array, high: Array) -> tuple[Array, Array, Flags]:
    """Return the sums of both bounds for each label of the first axis, and whether the upper bound is finite."""
    others = tuple(range(1, low.ndim))
    most = high.sum(axis=others)
    return (most if low is high else low.sum(axis=others)), most, np.isfinite(most)


def _log_chance(n: int, tried: int, parts: Array, low: Array, high: Array, rest_low: Array, rest_high: Array) -> float:
    """Return the log probability that one of `tried` labels agrees with the sums of n - 1 others by chance."""
    if n < 3:
        return 0.0  # two equal numbers
    at = np.maximum(np.maximum(low, rest_low), 0).astype(float)
    log_differences = np.log((high - low) + (rest_high - rest_low) + 1)
    # all tables of n labels with the total 2 s are equally likely: C(s + n - 2, n - 2) of C(2 s + n - 1, n - 1)
    uniform = gammaln(at + n - 1) - gammaln(at + 1) - gammaln(n - 1)
    uniform -= gammaln(2 * at + n) - gammaln(2 * at + 1) - gammaln(n)
    poisson = np.log(ive(0, 2 * np.minimum(at, 1e6)))
    first, second = (float(np.minimum(log_differences + log_p, 0).sum()) for log_p in (uniform, poisson))
    together = 2 * np.log(parts.sum()) - np.log((parts.astype(float) ** 2).sum()) if parts.any() else 0.0
    return float(max(first + np.log(tried), second - together))


def _codes(labels: Array) -> Codes | None:
    """Return labels whose code begins other labels, in sorted order, and the ranges of the other labels."""
    if labels.dtype != object and np.array_equal(labels, np.arange(labels.size)):
        return None  # positions
    texts = [str(label) for label in labels.tolist()]
    if labels.dtype != object:
        width = max(map(len, texts))
        texts = [text.zfill(width) for text in texts]
    order = np.array(sorted(range(len(texts)), key=texts.__getitem__))
    ordered = [texts[k] for k in order.tolist()]
    found: list[tuple[int, int, int, int]] = []
    for place, (text, following) in enumerate(zip(ordered, [*ordered[1:], ""], strict=True)):
        stems = [len(text)] if following.startswith(text) else []
        if text[-1:] == "0" and text.isdecimal():
            stems += range(max(1, len(text.rstrip("0"))), len(text))
        ranges = set[tuple[int, int]]()  # the longest stem of each: 200 of the years 2000, 2001, 2002
        for stem in reversed(stems):
            start, stop = bisect_left(ordered, text[:stem]), bisect_left(ordered, text[:stem] + "\U0010ffff")
            if stop - start > 2 and (start, stop) not in ranges:
                ranges.add((start, stop))
                found.append((place, stem, start, stop))
    return (order, ordered, np.array(found)) if found else None


def _sum_of_codes(low: Array, high: Array, candidates: Array, codes: Codes, chance: float) -> tuple[int, Array] | None:
    """Return a label whose numbers agree with the sums of the labels that begin with its code, and these labels."""
    order, ordered, found = codes
    least, most, known = (values[order] for values in _by_label(low, high))
    place, _, start, stop = found.T

    def sums(values: Array) -> Array:
        ahead = np.concatenate([[0], np.cumsum(values)])
        return ahead[stop] - ahead[start] - values[place]

    # sums over the other dimensions decide in most cases
    possible = (least[place] <= sums(np.where(known, most, 0))) | (sums((~known).astype(int)) > 0)
    possible &= candidates[order[place]] & (sums(least) <= most[place])
    positive = sums((most > 0).astype(int))
    tried, agreeing = max(1, int((positive > 1).sum())), []
    for (k, stem, first, last), n in zip(found[possible].tolist(), positive[possible].tolist(), strict=True):
        parts = np.delete(np.arange(first, last), k - first)
        lengths = {len(ordered[part]) for part in parts.tolist()}
        if stem < len(ordered[k]) and lengths != {len(ordered[k])}:
            continue
        label, rest_low, rest_high = order[k], low[order[parts]].sum(axis=0), high[order[parts]].sum(axis=0)
        if np.all((low[label] <= rest_high) & (rest_low <= high[label])):
            likely = min(lengths) - stem > 1 and ordered[k].isdecimal()
            log_chance = _log_chance(n + 1, 1, least[parts], low[label], high[label], rest_low, rest_high)
            agreeing.append((log_chance - np.log(max(chance, LIKELY) if likely else chance), int(label), order[parts]))
    # among many codes, a few agree by chance (Benjamini and Hochberg, 1995); wide ranges agree without evidence
    agreeing.sort(key=lambda each: each[:2])
    refused = any(each[0] + np.log(tried / rank) < 0 for rank, each in enumerate(agreeing, start=1))
    return agreeing[0][1:] if refused else None
