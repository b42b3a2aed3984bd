"""Privacy noise that keeps public totals exact, and inference that accounts for both."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ppdinf import invariants as invariants
from ppdinf.mechanisms import GeneralizedLaplace as GeneralizedLaplace
from ppdinf.releases import Release as Release
from ppdinf.releases import read_release as read_release
from ppdinf.tables import as_table as as_table

if TYPE_CHECKING:
    from ppdinf import datasets as datasets
    from ppdinf import plots as plots
    from ppdinf.diagnostics import diagnose as diagnose
    from ppdinf.models import PartiallyPrivate as PartiallyPrivate
    from ppdinf.models import sample_confidential as sample_confidential

__version__ = "0.1.0"

# PyMC takes seconds to import: whoever only reads or writes releases does not wait for it.
_LATE = {
    "PartiallyPrivate": "ppdinf.models",
    "sample_confidential": "ppdinf.models",
    "diagnose": "ppdinf.diagnostics",
    "datasets": "ppdinf.datasets",
    "plots": "ppdinf.plots",
}

__all__ = [
    "GeneralizedLaplace",
    "PartiallyPrivate",
    "Release",
    "as_table",
    "datasets",
    "diagnose",
    "invariants",
    "plots",
    "read_release",
    "sample_confidential",
]


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'ppdinf' has no attribute {name!r}")
    module = import_module(_LATE[name])
    return module if _LATE[name].endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
