"""``ppdinf error``: how far released counts will be off, for several losses, before any of them is spent."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from ppdinf.cli.plain import notes, stdout
from ppdinf.cli.release import COUNT, DIMS, NORM, PUBLIC, TABLE, read_statements

__all__ = ["error"]

EPSILONS = ["1/20", "1/10", "1/4", "1/2", "1", "2"]
SIZES = (10, 100, 1000)


def error(
    table: TABLE,
    count: COUNT,
    dims: DIMS,
    epsilon: Annotated[
        list[str] | None, typer.Option(help="Loss of Laplace noise; repeat to compare. Some usual ones by default.")
    ] = None,
    rho: Annotated[list[str] | None, typer.Option(help="zCDP loss of Gaussian noise; repeat to compare.")] = None,
    norm: NORM = "l1",
    public: PUBLIC = None,
) -> None:
    """Show which privacy loss gives which error: standard deviation, 90 % half-width, relative error by cell size.

    Reads the labels of the table and what is public; the answer does not depend on any count, and costs no privacy.
    """
    from ppdinf.datasets import read_table
    from ppdinf.mechanisms import GeneralizedGaussian, GeneralizedLaplace
    from ppdinf.mechanisms.lattice_noise import LatticeNoise

    console = stdout()
    statements, groups = read_statements(public or [], [])
    data = read_table(table, count=count, dims=[name.strip() for name in dims.split(",")], coordinates=groups)
    mechanisms: dict[str, LatticeNoise] = {}
    for value in epsilon or ([] if rho else EPSILONS):
        mechanisms[f"epsilon = {value}"] = GeneralizedLaplace(statements, epsilon=value, norm=norm)
    for value in rho or []:
        mechanisms[f"rho = {value}"] = GeneralizedGaussian(statements, rho=value)
    shown = Table("loss", "cells", "sd", "90 % within", *(f"CV of {size:,}" for size in SIZES), header_style="bold")
    simulated = False
    for name, mechanism in mechanisms.items():
        found = mechanism.expected_error(data, sizes=SIZES)
        simulated |= not found["exact"].all()
        for kind, row in found.iterrows():
            relative = [f"{row[f'cv_{size}']:.1%}" for size in SIZES]
            shown.add_row(name, f"{row['cells']} {kind}", f"{row['sd']:.2f}", f"±{row['half_width']:g}", *relative)
    console.print(shown)
    notes(console, "CV: standard deviation of the noise over the count. No count of the table was used.")
    if simulated:
        notes(console, "Where public sums cross, and for l2 noise, from simulated noise: right to about 2 %.")
