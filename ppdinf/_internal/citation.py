"""References to cite with results of the package."""

from ppdinf import __version__

SOFTWARE = """@software{{ppdinf,
  title = {{ppdinf: inference for partially private data}},
  author = {{{{The ppdinf developers}}}},
  version = {{{version}}}
}}"""

PAPERS = """@inproceedings{dharangutte2023integer,
  title = {Integer Subspace Differential Privacy},
  author = {Dharangutte, Prathamesh and Gao, Jie and Gong, Ruobin and Yu, Fang-Yi},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year = {2023}
}

@misc{seeman2022formal,
  title = {Formal Privacy for Partially Private Data},
  author = {Seeman, Jeremy and Reimherr, Matthew and Slavkovi{\\'c}, Aleksandra},
  eprint = {2204.01102},
  archiveprefix = {arXiv},
  year = {2022}
}

@inproceedings{gao2022subspace,
  title = {Subspace Differential Privacy},
  author = {Gao, Jie and Gong, Ruobin and Yu, Fang-Yi},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year = {2022}
}

@inproceedings{gong2020congenial,
  title = {Congenial Differential Privacy under Mandated Disclosure},
  author = {Gong, Ruobin and Meng, Xiao-Li},
  booktitle = {Proceedings of the 2020 ACM-IMS Foundations of Data Science Conference},
  year = {2020}
}

@article{kohli2026preserving,
  title = {Preserving Target Distributions With Differentially Private Count Mechanisms},
  author = {Kohli, Nitin and Laskowski, Paul},
  journal = {Proceedings on Privacy Enhancing Technologies},
  volume = {2026},
  number = {2},
  pages = {615--641},
  doi = {10.56553/popets-2026-0063},
  year = {2026}
}"""


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
    return SOFTWARE.format(version=__version__) + "\n\n" + PAPERS + "\n"
