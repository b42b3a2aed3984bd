"""A composition of features: stages of code, and the enumerator's representation of each."""

from dataclasses import dataclass

import numpy as np

HEADER = """import cloudpickle, pickle
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
import ppdinf as ppd
inv, laws, nan = ppd.invariants, ppd.laws, np.nan
"""


@dataclass
class Stage:
    code: str
    posed: object
    kind: str


@dataclass
class Composition:
    seed: int
    features: set
    stages: list[Stage]
    truth: np.ndarray
    way: str = "posterior"

    def show(self, upto=None):
        return HEADER + "\n".join(stage.code for stage in self.stages[:upto])
