"""Every case study runs with ``--quick``, and its claims hold or say why not."""

import inspect
import json
import runpy

import pytest

from ppdinf.cli.reproduce import cases


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")  # of short runs
@pytest.mark.parametrize("case", cases())
def test_quick_run(case, tmp_path):
    main = runpy.run_path(str(cases()[case]))["main"]
    assert "quick" in inspect.signature(main).parameters
    main(tmp_path, quick=True)
    claims = json.loads((tmp_path / "results.json").read_text())["claims"]
    assert claims
    if case != "covid":  # whose quick run is two months, with a test of its own on the simulated table
        assert not [claim for claim in claims if not claim["holds"] and not claim["reason"]]
    assert (tmp_path / "report.html").stat().st_size > 1000
    pictures = list(tmp_path.glob("*.png"))
    assert pictures
    assert {path.stem for path in pictures} == {path.stem for path in tmp_path.glob("*.svg")}
