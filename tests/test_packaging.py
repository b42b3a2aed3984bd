"""What the installed package offers besides its modules."""

import re
import subprocess
import sys
from pathlib import Path

import ppdinf as ppd

ROOT = Path(__file__).parents[1]


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "ppdinf", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"ppdinf {ppd.__version__}"


def test_citation_names_the_papers_of_the_citation_file():
    titles = re.findall(r'title: "(.*)"', (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert len(titles) == 6
    cited = re.findall(r"^  title = \{(.*)\}", ppd.citation(), flags=re.M)
    assert sorted(cited) == sorted(titles)
    assert f"version = {{{ppd.__version__}}}" in ppd.citation()
    assert ppd.citation().count("{") == ppd.citation().count("}")
