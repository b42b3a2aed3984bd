"""Compositions of features: stages of code with the enumerator's representation of each, and outcomes of checks."""

import signal
import traceback
import warnings
from contextlib import contextmanager
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


SECONDS = 240  # of the processor, to end what hangs
ALARM = 1e-7  # for one chi-square test: 1,000 compositions with one each give a false alarm once in 10,000 runs


class HangError(BaseException):
    """A composition exceeds the time limit; no handler of Exception catches this."""


class FaultError(Exception):
    """A wrong number."""


class ReportedError(Exception):
    """The package itself reports that a result should not be used."""


@dataclass
class Outcome:
    seed: int
    kind: str  # "right", "refused", "fault"
    words: str
    features: set
    code: str = ""

    def __str__(self):
        return f"seed {self.seed}: {self.words}\n{self.code}"


@contextmanager
def limited(seconds):
    def stop(*_):
        raise HangError(f"not finished in {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def refuses(error, composition, ran):
    """Return whether an error is a refusal: of too much work, of another order, or by PyMC of another model's table."""
    too_much = "too wide or cross too much for elimination", "too much for exact"
    kinds = [stage.kind for stage in composition.stages[:ran]]
    copied = kinds[-1].startswith("later") and {"copy", "pickle", "do", "observe"} & set(kinds)
    words = str(error)
    if "observed in another order" in composition.features and type(error).__name__ == "LabelError":
        return True
    return any(one in words for one in too_much) or (copied and "different models" in words)


def outcome(composition, check, seconds=SECONDS):
    """Return the outcome of `check`, a generator of progress; the executed code is stored if there is a fault."""
    from ppdinf.errors import ModelError, PrivacyError

    ran = 1
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            with limited(seconds):
                for ran in check:  # noqa: B007
                    pass
            return Outcome(composition.seed, "right", "", composition.features)
        except (ModelError, PrivacyError) as refusal:
            kind, words = "refused", f"{type(refusal).__name__}: {refusal}"
        except ReportedError as report:
            kind, words = "reported", str(report)
        except (FaultError, HangError) as fault:
            kind, words = "fault", str(fault)
        except Exception as error:
            if refuses(error, composition, ran):
                words = f"{type(error).__name__}: {error}"
                return Outcome(composition.seed, "refused", words, composition.features)
            last = traceback.extract_tb(error.__traceback__)[-3:]
            where = " < ".join(f"{one.filename.rsplit('site-packages/')[-1]}:{one.lineno}" for one in reversed(last))
            kind, words = "fault", f"{type(error).__name__}: {error} ({where})"
    return Outcome(composition.seed, kind, words, composition.features, composition.show(ran))


def run_code(stage, namespace):
    exec(compile(stage.code, "<composition>", "exec"), namespace)
