"""What a case study leaves in its folder."""

import json


def claims_of(folder):
    """Its claims; page, results and figures in both formats are there."""
    claims = json.loads((folder / "results.json").read_text(encoding="utf-8"))["claims"]
    assert claims
    assert (folder / "report.html").stat().st_size > 1000
    pictures = list(folder.glob("*.png"))
    assert pictures
    assert {path.stem for path in pictures} == {path.stem for path in folder.glob("*.svg")}
    return claims
