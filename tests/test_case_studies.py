"""Every case study runs with ``--quick``, and its claims hold or say why not."""

import runpy

import pytest
from written_studies import claims_of

from ppdinf.cli.reproduce import cases


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")  # of short runs
@pytest.mark.parametrize("case", [case for case in cases() if case != "covid"])  # whose quick run has its own test
def test_quick_run(case, tmp_path):
    runpy.run_path(str(cases()[case]))["main"](tmp_path, quick=True)
    assert not [claim for claim in claims_of(tmp_path) if not claim["holds"] and not claim["reason"]]
