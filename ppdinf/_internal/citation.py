"""References to cite with results of the package."""

from pathlib import Path

from ppdinf import __version__

SOFTWARE = """@software{{ppdinf,
  title = {{ppdinf: inference for partially private data}},
  author = {{{{The ppdinf developers}}}},
  version = {{{version}}}
}}"""

PAPERS = Path(__file__).with_name("papers.bib")


def citation() -> str:
    """Return BibTeX entries of the package and of the five papers that it implements.

    Cite the package, and the papers whose methods you use: integer noise with public sums
    (``dharangutte2023integer``), inference from partially private data (``seeman2022formal``), noise on subspaces
    (``gao2022subspace``), conditioning on mandated totals (``gong2020congenial``), mechanisms that preserve the
    histogram of counts (``kohli2026preserving``).

    See Also
    --------
    ppdinf.privacy.ReleaseGuarantee : the guarantee of a release in words, to cite with its numbers.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> print(ppd.citation().partition(",")[0])
    @software{ppdinf
    """
    return SOFTWARE.format(version=__version__) + "\n\n" + PAPERS.read_text(encoding="utf-8")
