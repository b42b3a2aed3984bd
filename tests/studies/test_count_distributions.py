"""The experiments of the paper with few replicates: claims, page, figures."""

import json
import re

import pytest

from ppdinf.cli.reproduce_command import cases, module_of

# claims that few replicates or simulated tables leave undecided
OPEN = (
    "W1 at ε = 0.1",
    "best shares",
    "fitted",
    "loses little",
    "40 times",
    "the best share falls",
    "deviation near",
    "cut W1",
    "the unfixed optimum",
    "the same W1",  # fails, as in the README
    "the staircase has",
)


@pytest.mark.deep
def test_claims_page_and_figures(tmp_path, monkeypatch):
    """No claim fails that does not depend on the tables of the paper, in 20 s; a second run reuses the draws."""
    monkeypatch.delenv("PPDINF_DATA", raising=False)
    script = cases()["count_distributions"]
    main = module_of(script).main
    main(tmp_path, quick=True)
    results = (tmp_path / "results.json").read_text(encoding="utf-8")
    claims = {claim["claim"]: claim for claim in json.loads(results)["claims"]}
    assert len(claims) == 25
    simulated = [name for name in claims if "homicides" in name]
    for name, claim in claims.items():
        assert claim["holds"] is not False or name in simulated or any(part in name for part in OPEN), claim
    page, readme = (
        (tmp_path / "report.html").read_text(encoding="utf-8"),
        (script.parent / "README.md").read_text("utf-8"),
    )
    assert not re.search(r'(src|href)="http', page)
    figures = sorted(path.name for path in tmp_path.glob("*.png"))
    assert figures == sorted(path.name for path in script.parent.glob("*.png"))
    assert all(f"({figure})" in readme for figure in figures)
    assert {path.stem for path in tmp_path.glob("*.svg")} == {path.stem for path in tmp_path.glob("*.png")}
    errors = (tmp_path / "errors.csv").read_bytes()
    main(tmp_path, quick=True)
    assert (tmp_path / "errors.csv").read_bytes() == errors
