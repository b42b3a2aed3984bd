"""Every case study runs with ``--quick``, and its claims hold or state why not."""

import pytest
from typer.testing import CliRunner
from written_studies import claims_of

from ppdinf.cli import app
from ppdinf.cli.reproduce_command import cases


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")  # of short runs
@pytest.mark.parametrize("case", [case for case in cases() if case != "covid"])  # whose quick run has its own test
def test_quick_run(case, tmp_path):
    found = CliRunner().invoke(app, ["reproduce", case, "--quick", "--output", str(tmp_path)])
    assert found.exit_code == 0, found.output
    claims = claims_of(tmp_path)
    assert not [claim for claim in claims if claim["holds"] is False and not claim["reason"]]
    assert all(f"| {claim['here']} |" in found.output for claim in claims)
    readme = (cases()[case].parent / "README.md").read_text(encoding="utf-8")
    assert all(f"({path.name})" in readme for path in tmp_path.glob("*.png"))
