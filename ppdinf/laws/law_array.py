"""Laws of noise whose scale differs from entry to entry, or is a variable of a PyMC model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf._internal.values import Array, unmasked
from ppdinf.errors import PrivacyError
from ppdinf.laws.synonyms import AcceptsSynonyms
from ppdinf.tables.count_ranges import with_labels_of
from ppdinf.tables.frame import native

if TYPE_CHECKING:
    from ppdinf.laws.law import IntegerLaw
    from ppdinf.laws.observation_model import ObservationModel

type Labelled = Array | xr.DataArray | pd.DataFrame | pd.Series

NONE = -1
"""Index of an entry without a law, whose parameter is nan."""


@dataclass(frozen=True, eq=False)
class LawArray:
    """A law for each entry of an array.

    A law returns this object if its parameter is an array; nan marks entries that were not measured.


    Attributes
    ----------
    laws : tuple of IntegerLaw, or of ObservationModel
        The different laws.
    number : numpy.ndarray, xarray.DataArray or pandas object of int
        Index into `laws` for each entry, with the labels of the parameter; -1 for entries without a law.


    See Also
    --------
    ppdinf.laws.Law, ppdinf.measured

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> by_level = ppd.laws.DiscreteGaussian(variance=[4.95, 10, np.nan, 4.95])
    >>> by_level.number
    array([ 0,  1, -1,  0])
    """

    laws: tuple[IntegerLaw | ObservationModel, ...]
    number: Labelled


@dataclass(frozen=True, eq=False)
class LearnedScale:
    """A law whose parameter is a variable of a PyMC model, returned by the laws that take variables."""

    kind: type[Any]
    variable: Any


class PerEntry(metaclass=AcceptsSynonyms):
    """Base class of laws that return a `LawArray` if a parameter is an array or a `LawArray`."""

    name: ClassVar[str]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a law, one law for each entry, or the law of a scale that is a variable of a model."""
        for name, value in (*enumerate(args), *kwargs.items()):
            if hasattr(value, "owner") and hasattr(value, "type"):  # a variable of PyTensor, which is not imported
                return LearnedScale(cls, value**0.5 if name == "variance" else value)
        if any(np.ndim(value) or isinstance(value, LawArray) for value in (*args, *kwargs.values())):
            return law_array(cls, args, kwargs)
        return super().__new__(cls)


def law_array(kind: type[PerEntry], args: tuple[Any, ...], kwargs: dict[str, Any]) -> LawArray:
    """Return a law for each entry of the one parameter that is an array or a `LawArray`."""
    arrays = [("", k, value) for k, value in enumerate(args) if np.ndim(value) or isinstance(value, LawArray)]
    arrays += [(name, -1, value) for name, value in kwargs.items() if np.ndim(value) or isinstance(value, LawArray)]
    if len(arrays) > 1:
        raise PrivacyError(f"at most one parameter of {kind.name} noise may be an array, found {len(arrays)}")
    name, position, parameter = arrays[0]

    def law_of(value: object) -> Any:
        by_place = (*args[:position], value, *args[position + 1 :]) if position >= 0 else args
        return kind(*by_place, **kwargs | ({name: value} if name else {}))

    if isinstance(parameter, LawArray):
        return LawArray(tuple(law_of(law) for law in parameter.laws), parameter.number)
    return law_of_each(law_of, parameter)


def law_of_each(law_of: Callable[[Any], Any], parameter: Any) -> Any:
    """Return the law of a number, or a `LawArray` with the law of each entry of an array."""
    is_labelled = isinstance(parameter, xr.DataArray | pd.Series | pd.DataFrame)
    labelled = parameter if is_labelled else unmasked(parameter, "parameters", PrivacyError)
    if not labelled.ndim:
        return law_of(parameter)
    if isinstance(parameter, list | tuple) and labelled.dtype.kind == "U":
        labelled = np.asarray(parameter, dtype=object)  # NumPy would convert the numbers of the list to text
    missing = np.asarray(pd.isna(np.asarray(labelled)))
    number = np.full(missing.shape, NONE)
    number[~missing], different = pd.factorize(np.asarray(labelled)[~missing])
    laws = []
    for k, value in enumerate(map(native, different)):
        try:
            laws.append(law_of(value))
        except PrivacyError as error:
            raise PrivacyError(f"{_place(labelled, np.argwhere(number == k)[0].tolist())}: {error}") from None
    return LawArray(tuple(laws), with_labels_of(labelled, number))


def _place(like: Labelled, index: list[int]) -> str:
    """Return the labels of an entry for messages, or its position."""
    if isinstance(like, xr.DataArray):
        return ", ".join(
            f"{dim}={like.coords[dim].values[k]}" if dim in like.coords else f"position {k} of {dim!r}"
            for dim, k in zip(like.dims, index, strict=True)
        )
    if isinstance(like, pd.Series | pd.DataFrame):
        return "label " + ", ".join(repr(native(axis[k])) for axis, k in zip(like.axes, index, strict=True))
    return f"position {', '.join(map(str, index))}"
