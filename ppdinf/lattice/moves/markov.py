"""Markov and Graver bases computed by 4ti2, if it is installed.

A Markov basis connects {A x = a, x >= l} for every a and every lower bound l (Diaconis and Sturmfels 1998); a Graver
basis also connects it under upper bounds. 4ti2 (4ti2 team; Debian package ``4ti2``) runs as a separate program on small
systems.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np
from scipy import sparse

from ppdinf.lattice.algebra.systems import exact_product

Kind = Literal["markov", "graver"]


def program(kind: Kind) -> str | None:
    """Return the path of the 4ti2 program, under its own name or Debian's name, or None."""
    return shutil.which(f"4ti2-{kind}") or shutil.which(kind)


def computed_basis(A: sparse.csc_array, kind: Kind, seconds: float) -> sparse.csc_array | None:
    """Compute a Markov or Graver basis with 4ti2."""
    path = program(kind)
    if path is None or seconds <= 0:
        return None
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "system")
        rows = "\n".join(" ".join(map(str, row)) for row in A.toarray().tolist())
        project.with_suffix(".mat").write_text(f"{A.shape[0]} {A.shape[1]}\n{rows}\n")
        try:
            command = [path, "--quiet", "--precision=arbitrary", str(project)]
            subprocess.run(command, check=True, capture_output=True, timeout=seconds, cwd=folder)
            text = project.with_suffix(".mar" if kind == "markov" else ".gra").read_text()
        except (OSError, subprocess.SubprocessError):
            return None
    numbers = np.array(text.split(), dtype=np.int64)
    vectors = numbers[2:].reshape(numbers[0], numbers[1])
    if vectors.shape[1] != A.shape[1] or any(exact_product(A, vector).any() for vector in vectors):
        return None
    return sparse.csc_array(vectors.T)
