"""Rules of publishers as values: the meaning of a text is its preimage, under compositions and for named rules."""

import numpy as np
import pytest

import ppdinf as ppd
from ppdinf.errors import CountError, PrivacyError
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
    "nhs": (
        rounded(5).then(suppressed(1, 7)).then(empty_cells("zero")),
        lambda x: ["*" if 1 <= x <= 7 else str(nearest(x, 5))] + [""] * (x == 0),
    ),
    "the other order": (
        suppressed(1, 7, "*").then(rounded(5)),
        lambda x: ["*" if 1 <= x <= 7 else str(nearest(x, 5))],
    ),
    "hole": (rounded(10).then(suppressed(2, 3)), lambda x: ["*" if x in (2, 3) else str(nearest(x, 10))]),
    "up": (rounded(10, "up").then(suppressed(4, 39)), lambda x: ["*" if 4 <= x < 40 else str(-(-x // 10) * 10)]),
    "midpoint": (midpoint_rounded(6), lambda x: [str(0 if x == 0 else -(-x // 6) * 6 - 3)]),
    "after rounding": (
        rounded(5).then(hidden_below(10)),
        lambda x: [str(nearest(x, 5))] if nearest(x, 5) >= 10 else [""],
    ),
    "random": (
        random_rounded(3).then(suppressed(1, 2)),
        lambda x: ["*"] if x in (1, 2) else [str(x // 3 * 3)] + [str(x // 3 * 3 + 3)] * (x % 3 > 0),
    ),
    "noise": (noisy(laws.AdditiveNoise({-2: 0.5, 1: 0.5})), lambda x: [str(x - 2), str(x + 1)]),
    "secondary": (
        suppressed(1, 9, secondary=True),
        lambda x: ["S"] if 1 <= x <= 9 else ["S", str(x)],
    ),
    "letters": (
        marked({"A": "0-19", "B": "20-99", "Z": "100+"}),
        lambda x: ["AB"[x >= 20] if x < 100 else "Z", str(x)],
    ),
    "top": (suppressed(90, 10**6, "90+"), lambda x: ["90+" if x >= 90 else str(x)]),
}


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
    from fractions import Fraction

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
    import pandas as pd

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


@pytest.mark.parametrize("rule", [rounded(5).then(suppressed(1, 7)), midpoint_rounded(6), suppressed(1, 9)], ids=str)
def test_posterior_of_rules_against_enumeration(rule):
    """Three cells and their exact total; 2,000 exact draws from all tables, false-alarm rate 1e-6."""
    texts, total = ["0", "*" if rule.marks and rule.most else "3", "27" if rule.law.offset else "25"], 30
    sets = [rule.meaning(text) for text in texts]
    tables = np.array([(a, b, total - a - b) for a in sets[0] for b in sets[1] if total - a - b in sets[2]])
    law = ppd.measured(inv.margin("p"), texts, rule)
    seen = ppd.Measurements({"p": list("ABC")}, law, public={inv.total(): total})
    draws = ppd.denoise(seen, draws=1000, rng=1, prior="flat", progressbar=False).draws.values.reshape(-1, 3)
    shares = (draws[:, None] == tables).all(axis=2).mean(axis=0)
    assert shares.sum() == pytest.approx(1)
    p = 1 / len(tables)
    assert np.abs((shares - p) / np.sqrt(p * (1 - p) / len(draws) + 1e-6)).max() < 5.5
