"""Rules of publishers as values: the meaning of a text is its preimage, under compositions and for named rules."""

from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from integer_programmes import programme

import ppdinf as ppd
from ppdinf.errors import CountError, LabelError, PrivacyError
from ppdinf.rules import (
    PUBLISHERS,
    Rule,
    averaged,
    empty_cells,
    hidden_below,
    marked,
    midpoint_rounded,
    noisy,
    publisher,
    random_rounded,
    rounded,
    suppressed,
)

inv, laws = ppd.invariants, ppd.laws
COUNTS = range(200)


def nearest(x, base):
    return base * ((2 * x + base) // (2 * base))


def mean_text(x, years, decimals):
    """The average of a sum, ties up."""
    return f"{(2 * x * 10**decimals + years) // (2 * years) / 10**decimals:.{decimals}f}"


RULES = {
    "nhs": (rounded(5).then(suppressed(1, 7)).then(empty_cells("zero")),
            lambda x: ["*" if 1 <= x <= 7 else str(nearest(x, 5))] + [""] * (x == 0)),
    "the other order": (suppressed(1, 7, "*").then(rounded(5)), lambda x: ["*" if 1 <= x <= 7 else str(nearest(x, 5))]),
    "hole": (rounded(10).then(suppressed(2, 3)), lambda x: ["*" if x in (2, 3) else str(nearest(x, 10))]),
    "up": (rounded(10, "up").then(suppressed(4, 39)), lambda x: ["*" if 4 <= x < 40 else str(-(-x // 10) * 10)]),
    "midpoint": (midpoint_rounded(6), lambda x: [str(0 if x == 0 else -(-x // 6) * 6 - 3)]),
    "after rounding": (rounded(5).then(hidden_below(10)),
                       lambda x: [str(nearest(x, 5))] if nearest(x, 5) >= 10 else [""]),
    "random": (random_rounded(3).then(suppressed(1, 2)),
               lambda x: ["*"] if x in (1, 2) else [str(x // 3 * 3)] + [str(x // 3 * 3 + 3)] * (x % 3 > 0)),
    "noise": (noisy(laws.AdditiveNoise({-2: 0.5, 1: 0.5})), lambda x: [str(x - 2), str(x + 1)]),
    "secondary": (suppressed(1, 9, secondary=True), lambda x: ["S"] if 1 <= x <= 9 else ["S", str(x)]),
    "letters": (marked({"A": "0-19", "B": "20-99", "Z": "100+"}),
                lambda x: ["AB"[x >= 20] if x < 100 else "Z", str(x)]),
    "top": (suppressed(90, 10**6, "90+"), lambda x: ["90+" if x >= 90 else str(x)]),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_the_meaning_of_a_text_is_its_preimage(name):
    """Each text is printed by a function that is written here, for all counts that print it and for no other."""
    rule, printed = RULES[name]
    preimages = {}
    for x in COUNTS:
        for text in printed(x):
            preimages.setdefault(text, set()).add(x)
    for text, counts in preimages.items():
        meaning = rule.meaning(text)
        if max(counts) < 190:
            assert meaning == counts, text
        else:
            assert {x for x in COUNTS if x in meaning} == counts, text
        seen = ppd.Measurements({"p": ["A"]}, ppd.measured(inv.margin("p"), {"A": text}, rule)) if text else None
        if seen is not None and name not in ("random", "noise") and max(counts) < 190:
            bounds = ppd.identified_bounds(seen).loc["A"]
            assert (bounds.lower, bounds.upper) == (min(counts), max(counts))
    for text in {str(y) for y in range(0, 41, 5)} - preimages.keys():
        with pytest.raises(CountError, match=r"impossible for every count, which is .*|is published from"):
            rule.meaning(text)
    forgotten = Rule(rule.law, marks=rule.marks)  # wrong: numbers that do not exclude suppressed counts
    if name in ("nhs", "the other order", "hole"):
        assert any(forgotten.meaning(text) != counts for text, counts in preimages.items() if text.isdigit())


@pytest.mark.parametrize(("years", "decimals"), [(5, 0), (5, 1), (3, 2), (4, 0), (1, 0)])
def test_averages(years, decimals):
    """A tie is in both ranges, because its rule is unknown."""
    rule = averaged(years)
    for x in COUNTS:
        meaning = rule.meaning(mean_text(x, years, decimals))
        assert x in meaning
        ties = {y for y in meaning if mean_text(y, years, decimals) != mean_text(x, years, decimals)}
        assert all((2 * y * 10**decimals + years) % (2 * years) == 0 for y in ties)
    with pytest.raises(CountError):
        averaged(5).meaning("2.3")


@pytest.mark.parametrize("size", [1, 7, 8, 41, 60, 200])
def test_percentages(size):
    """Against every count of the denominator, with exact arithmetic."""
    shares = [Fraction(100 * x, size) for x in range(size + 1)]
    for decimals in (0, 1):
        unit = Fraction(1, 10**decimals)
        for x, share in enumerate(shares):
            text = f"{float(unit * int(share / unit + Fraction(1, 2))):.{decimals}f}%"
            assert x in Rule().meaning(ppd.percentages([text], of=size)[0])
    for text, allowed in {
        "GE95": lambda p: p >= 95, ">95%": lambda p: p > 95, "LT50": lambda p: p < 50, "<=20 %": lambda p: p <= 20,
        "60-64": lambda p: Fraction(119, 2) <= p <= Fraction(129, 2),
    }.items():  # fmt: skip
        counts = {x for x, share in enumerate(shares) if allowed(share)}
        if counts:
            assert Rule().meaning(ppd.percentages([text], of=size)[0]) == counts
        else:
            with pytest.raises(CountError, match="no count of"):
                ppd.percentages([text], of=size)


def test_percentages_keep_labels_and_refuse_impossible_numbers():
    values = pd.Series({"A": "87.5", "B": None, "C": "LT50"}, dtype=object)
    found = ppd.percentages(values, of=pd.Series({"A": 8, "B": 4, "C": 9}))
    assert found.tolist() == ["7", None, "0-4"]
    assert ppd.percentages(["440.0"], of=25_000, per=100_000).tolist() == ["110"]
    for wrong, of in (("33%", 8), ("PS", 8), ("12", [1, 2])):
        with pytest.raises(CountError):
            ppd.percentages([wrong], of=of)


EXAMPLES = {
    "cdc-wonder": {"Suppressed": "1 to 9", "0": "0", "14": "14", "Missing": "0 or more"},
    "nchs": {"": "1 to 9", "12": "12"},
    "cms": {"*": "1 to 10", "#": "0 or more", "11": "11"},
    "nhs-hes": {"*": "1 to 7", "0": "0", "10": "8 to 12", "": "0"},
    "nhs-snomed": {"*": "1 to 4", "10": "5 to 14", "0": "0"},
    "opensafely-redacted": {"[REDACTED]": "0 to 7", "0": "0 to 7", "10": "8 to 12"},
    "opensafely-midpoint6": {"0": "0", "3": "1 to 6", "15": "13 to 18"},
    "qcew": {"N": "0 or more", "120": "120"},
    "cbp": {"A": "0 to 19", "M": "100000 or more", "E": "250 to 499", "7": "7"},
    "qwi": {"S": "0 or more", "": "0 or more"},
    "acs": {"-666666666": "0 or more", "**": "0 or more", "26": "26"},
    "ddhc-a": {"52": "0 or more"},
    "stats-nz": {"S": "0 to 5", "6": "4 to 8", "0": "0 to 2"},
    "statcan": {"x": "0 or more", "15": "11 to 19"},
    "edfacts": {"PS": "0 or more", "41": "41"},
    "state-cancer-profiles": {"3 or fewer": "0 to 15", "3": "16 to 17", "17": "83 to 87"},
    "irs-migration": {"-1": "1 to 19", "25": "25"},
    "hhs-facilities": {"-999999": "1 to 3", "0": "0", "21": "21"},
}


def test_every_publisher_has_an_example():
    assert PUBLISHERS.keys() == EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_named_rules(name):
    rule = publisher(name)
    assert {text: str(rule.meaning(text)) for text in EXAMPLES[name]} == EXAMPLES[name]
    assert str(rule).endswith(".")
    printed = [text for text in EXAMPLES[name] if text]
    seen = ppd.Measurements({"p": printed}, ppd.measured(inv.margin("p"), printed, rule))
    again = ppd.identified_bounds(seen)
    assert len(again) == len(printed)


def test_cell_keys_are_read_from_their_table(tmp_path):
    (tmp_path / "ptable.csv").write_text("i,p,v\n0,1,0\n1,0.5,-1\n1,0.5,1\n2,1,0\n")
    rule = publisher(f"cell_key({str(tmp_path / 'ptable.csv')!r})")
    assert rule.meaning("0") == {0, 1}
    assert rule.meaning("2") == {1, 2}


def test_contradictions_are_refused():
    with pytest.raises(CountError, match="'3' is impossible for every count"):
        rounded(1).then(suppressed(1, 7)).meaning("3")
    with pytest.raises(CountError, match="two meanings"):
        marked({"S": "1-4"}).then(marked({"s": "1-9"}))
    with pytest.raises(PrivacyError, match="two meanings"):
        Rule(marks={"S": "1-4", "s": "1-9"})
    with pytest.raises(PrivacyError, match="two laws"):
        rounded(5).then(random_rounded(3))
    with pytest.raises(PrivacyError, match="different suppressed counts"):
        suppressed(1, 4).then(suppressed(1, 9))
    for name in ("cdc-wunder", "rounded(5) then cdc-wunder", "rounded(open('x'))"):
        with pytest.raises(PrivacyError, match="is unknown: use one of "):
            publisher(name)
    assert publisher("rounded(5) then suppressed(1, 7)") == rounded(5).then(suppressed(1, 7))


def test_rules_print_sentences():
    rule = rounded(5).then(suppressed(1, 7, "*")).then(empty_cells("zero"))
    assert str(rule) == (
        "Counts from 1 to 7 are suppressed. *: a suppressed count. Other counts are printed as a number which is "
        "rounded to a multiple of 5. Empty values and absent rows are zero."
    )


def hidden(low, high, mark, base=1):
    """The printer of counts that are hidden behind a mark, and rounded otherwise."""
    return lambda x: {mark if low <= x <= high else str(nearest(x, base)): 1.0}


def withheld(mark):
    """The printer of a mark that does not depend on the count."""
    return lambda x: {str(x): 0.5, mark: 0.5}


def randomly(base):
    """The printer of unbiased random rounding."""
    return lambda x: (
        {str(x // base * base): 1 - x % base / base}
        | ({str(x // base * base + base): x % base / base} if x % base else {})
    )


PRINTERS = {
    "cdc-wonder": hidden(1, 9, "Suppressed"), "nchs": hidden(1, 9, ""), "cms": hidden(1, 10, "*"),
    "nhs-hes": hidden(1, 7, "*", 5), "nhs-snomed": hidden(1, 4, "*", 10),
    "opensafely-redacted": hidden(0, 7, "[REDACTED]", 5),
    "opensafely-midpoint6": lambda x: {str(0 if x == 0 else -(-x // 6) * 6 - 3): 1.0},
    "qcew": withheld("N"), "qwi": withheld("S"), "acs": withheld("**"), "edfacts": withheld("PS"),
    "cbp": lambda x: {"ABC"[(x > 19) + (x > 99)] if x < 250 else "E": 1.0},
    "ddhc-a": lambda x: {str(y): np.exp(-((y - x) ** 2) / (2 * 5.612**2)) for y in range(-60, 260)},
    "stats-nz": randomly(3), "statcan": randomly(5),
    "state-cancer-profiles": lambda x: {"3 or fewer" if x < 16 else mean_text(x, 5, 0): 1.0},
    "irs-migration": hidden(1, 19, "-1"), "hhs-facilities": hidden(1, 3, "-999999"),
}  # fmt: skip
"""Printers of each publisher, written from the documentation: the texts of a count and their probabilities."""


def printed_table(name, x, rng):
    """One printed text of each count."""
    texts = []
    for count in x:
        choices = PRINTERS[name](int(count))
        p = np.array(list(choices.values()))
        texts.append(rng.choice(list(choices), p=p / p.sum()))
    return texts


def test_every_publisher_has_a_printer():
    assert PUBLISHERS.keys() == PRINTERS.keys()


@pytest.mark.deep
@pytest.mark.parametrize("name", PRINTERS)
def test_bounds_of_named_rules_against_integer_programmes(name):
    """100 tables of two by three cells with sums of rows, and of columns for every other table, by HiGHS."""
    rng, preimages = np.random.default_rng(1), {}
    for x in range(400):
        for text in PRINTERS[name](x):
            low, _ = preimages.setdefault(text, (x, x))
            preimages[text] = low, (x if x < 399 else np.inf)
    if name == "ddhc-a":
        preimages = dict.fromkeys(preimages, (0, np.inf))
    for k in range(100):
        x = rng.negative_binomial(0.7, 0.05, size=6)
        texts = printed_table(name, x, rng)
        public = {inv.margin("a"): x.reshape(2, 3).sum(1)} | (
            {inv.margin("b"): x.reshape(2, 3).sum(0)} if k % 2 else {}
        )
        rows = [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]] + [[1, 0, 0] * 2, [0, 1, 0] * 2, [0, 0, 1] * 2] * (k % 2)
        table = ppd.measured(inv.margin("a", "b"), np.array(texts, dtype=object).reshape(2, 3), publisher(name))
        seen = ppd.Measurements({"a": "xy", "b": "pqr"}, table, public=public, not_totals=[*"xypqr"])
        found = ppd.identified_bounds(seen, progressbar=False)
        ends = np.array([preimages[text] for text in texts], dtype=float).T
        expected = programme(*ends, [(np.array(row), row @ x, row @ x) for row in rows])
        np.testing.assert_array_equal(found[["lower", "upper"]].to_numpy(float).T, expected)
        assert ((found.lower <= x) & (x <= found.upper)).all()


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", PRINTERS)
def test_posterior_of_named_rules_against_enumeration(name):
    """Three cells and their exact total; 2,000 exact draws from all tables, false-alarm rate 1e-6."""
    rng, x = np.random.default_rng(2), [0, 4, 26]
    texts = printed_table(name, x, rng)
    tables = np.array([(a, b, 30 - a - b) for a in range(31) for b in range(31 - a)])
    weights = np.array([[PRINTERS[name](c).get(text, 0.0) for c in range(31)] for text in texts])
    weights = np.prod([weights[k, tables[:, k]] for k in range(3)], axis=0)
    tables, p = tables[weights > 0], weights[weights > 0] / weights.sum()
    law = ppd.measured(inv.margin("p"), texts, publisher(name))
    seen = ppd.Measurements({"p": list("ABC")}, law, public={inv.total(): 30})
    draws = ppd.denoise(seen, draws=1000, rng=1, prior="flat", progressbar=False).draws.values.reshape(-1, 3)
    shares = (draws[:, None] == tables).all(axis=2).mean(axis=0)
    assert shares.sum() == pytest.approx(1)
    assert np.abs((shares - p) / np.sqrt(p * (1 - p) / len(draws) + 1e-6)).max() < 5.5


@pytest.mark.deep
@pytest.mark.interpreted
def test_percentages_of_unknown_sums_against_enumeration():
    """All tables of two by three cells with the total 12 whose percentages are printed so, by exact arithmetic."""
    texts = [">20%", "45-55", None, "LT50", "62.5", None]
    tables = []
    for x in product(range(13), repeat=5):
        table = (*x, 12 - sum(x))
        park, hill = sum(table[:3]), sum(table[3:])
        if table[5] < 0 or park == 0 or hill == 0 or 5 * table[0] <= park or 2 * table[3] >= hill:
            continue
        second, fifth = Fraction(table[1], park), Fraction(table[4], hill)
        if Fraction(89, 200) <= second <= Fraction(111, 200) and abs(fifth - Fraction(5, 8)) <= Fraction(1, 2000):
            tables.append(table)
    labels = {"school": ["Park", "Hill"], "level": ["1", "2", "3"]}
    printed = pd.Series(texts, pd.MultiIndex.from_product(labels.values(), names=list(labels)), dtype=object)
    bounds = inv.shares(printed, "school")
    seen = ppd.Measurements(labels, bounds=bounds, public={inv.total(): 12})
    found = ppd.identified_bounds(seen)
    assert (found.lower.tolist(), found.upper.tolist()) == (np.min(tables, 0).tolist(), np.max(tables, 0).tolist())
    draws = ppd.denoise(seen, draws=2000, rng=1, prior="flat", progressbar=False).draws.values.reshape(-1, 6)
    number = np.array([tables.index(tuple(row)) for row in draws.tolist()])
    counts = np.bincount(number, minlength=len(tables))
    assert len(tables) > 3
    assert counts.min() > 0.5 * counts.mean()  # uniform
    assert counts.max() < 1.5 * counts.mean()
    with pytest.raises(LabelError, match="need a level 'state'"):
        inv.shares(printed, "state")


@pytest.mark.parametrize("text", ["33.3", "GE95", "LT50", "60-64", "0"])
@pytest.mark.parametrize("size", ["<10", "n<4", "10-19", ">=1", "7"])
def test_percentages_of_ranges_of_persons(text, size):
    """Against all counts of all numbers of persons up to 200."""
    first, last = {"<10": (1, 9), "n<4": (1, 3), "10-19": (10, 19), ">=1": (1, 200), "7": (7, 7)}[size]
    counts = set()
    for n in range(first, last + 1):
        try:
            counts |= set(Rule().meaning(ppd.percentages([text], of=n)[0]))
        except CountError:
            continue
    if not counts:
        with pytest.raises(CountError, match="no count of"):
            ppd.percentages([text], of=[size])
        return
    low, high = Rule().meaning(ppd.percentages([text], of=[size])[0]).intervals[0]
    assert low == min(counts)
    assert high == max(counts) or (np.isinf(high) and last == 200)
