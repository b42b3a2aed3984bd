"""Compilation of kernels, the hot loops of the package: `jit` for those called from Python and from each other.

Numba keeps the machine code of a function, and of all that it calls, on disk, and takes it for current as long as the
file of the function itself is unchanged. A kernel that calls a kernel of another file, or reads a number from there,
would run as it was before that file was edited. Kernels compiled here are current only while all files are unchanged
from which their own file takes kernels, named tuples or numbers, directly or through others. All else is numba's:
machine code lies beside the sources, in ``NUMBA_CACHE_DIR``, or in the user's cache where sources cannot be written.

Numba optimises a kernel, makes machine code of it and keeps that, and does it all again in every kernel that calls it.
Here only what Python calls comes so far. What a kernel calls is translated for LLVM and joins its caller as it is, to
be optimised with it, once; it is not kept, since its callers are.

A kernel that another calls with a number, ``kernel(x, 0)``, numba compiles for this number alone, and once more for all
others. Kernels compiled here are compiled once; what the number decides is still found where the call is inlined.
"""

import hashlib
import sys
from collections.abc import Callable
from contextlib import suppress
from ctypes import POINTER, c_double, c_int64
from functools import cache, cached_property
from pathlib import Path
from typing import Any, overload

import numba
import numpy as np
from llvmlite.binding import add_symbol  # type: ignore[import-untyped]
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher
from numba.core.sigutils import normalize_signature
from numba.core.types.misc import unliteral
from numpy.typing import NDArray

__all__ = ["External", "callback", "jit", "pointers"]

if numba.config.DISABLE_JIT:
    raise ImportError(
        "NUMBA_DISABLE_JIT is set, but kernels count in integers of 64 bits, which Python's are not, and PyTensor "
        "calls their machine code: unset it"
    )


@overload
def jit[**P, R](function: Callable[P, R]) -> Callable[P, R]: ...
@overload
def jit[**P, R](**options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a kernel for the types it is called with, to run without the interpreter's lock; keep the machine code.

    Where no folder can be written, every process compiles anew.

    Parameters
    ----------
    function : callable
        At the top level of a module, and naming what it takes from others (``from file import kernel``): what it
        reached through a module (``file.kernel``) would not be looked at for changes. Exceptions that it raises where
        another kernel calls it can hold constants alone: no values.
    **options
        Further options of `numba.njit`.

    Examples
    --------
    >>> @jit(error_model="numpy")
    ... def inverse(x):
    ...     return 1 / x
    >>> inverse(0.0)
    inf
    """
    if function is None:
        return lambda function: jit(function, **options)
    options |= {"nogil": True, "no_cfunc_wrapper": True}
    compiled = numba.njit(**options)(function)
    within = numba.njit(no_cpython_wrapper=True, pipeline_class=_Within, **options)(function)
    within.add_overload = lambda result: within.overloads.update({result.signature.args: result})
    template = within.get_call_template

    def whatever_its_numbers(args: Any, kws: Any) -> Any:
        return template([unliteral(arg) for arg in args], {name: unliteral(arg) for name, arg in kws.items()})

    compiled.get_call_template, compiled.get_overload = whatever_its_numbers, within.get_overload
    return _kept(compiled, function)


def callback(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile a function for callers in C, at once, and keep the machine code as `jit` does."""
    signature = normalize_signature(signature)
    compiled = _kept(CFunc(function, signature, locals={}, options={}), function)
    compiled.compile()
    return compiled


class External:
    """A function of pointers and numbers that code compiled by others reaches by a symbol.

    So it is compiled once per installation, and not linked into (and optimised again with) all that calls it.

    Parameters
    ----------
    symbol : str
        Its name among all of the process.
    signature : numba signature
    function : callable
        As for `callback`.

    Attributes
    ----------
    call : numba.types.ExternalFunction
        What compiled code calls, after `provide`.
    """

    def __init__(self, symbol: str, signature: Any, function: Callable[..., Any]) -> None:
        self.call = types.ExternalFunction(symbol, signature)
        self._symbol, self._signature, self._function = symbol, signature, function

    def provide(self) -> Any:
        """Return the function for callers in C, under its symbol from now on; compiled the first time."""
        return self._provided

    @cached_property
    def _provided(self) -> Any:
        compiled = callback(self._signature, self._function)  # its machine code lives as long as this
        add_symbol(self._symbol, compiled.address)
        return compiled


def pointers(*arrays: NDArray[Any]) -> list[Any]:
    """Pointers to contiguous arrays of float64 or int64, for functions that are called as those in C."""
    return [x.ctypes.data_as(POINTER(c_int64 if x.dtype == np.int64 else c_double)) for x in arrays]


def _kept(compiled: Any, function: Callable[..., Any]) -> Any:
    with suppress(RuntimeError):  # numba found no folder to write to
        compiled._cache = _Cache(function)
    return compiled


class _Within(Compiler):
    """All of numba's steps up to LLVM's code of one kernel, for those that call it."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        self.state.flags.no_compile = True
        self.state.library = _Unoptimised(self.state.targetctx.codegen(), func.__qualname__)
        result = super().compile_extra(func)
        key = object()  # in the place of a function that Python could call
        self.state.targetctx.insert_user_function(key, result.fndesc, [result.library])
        return result._replace(entry_point=key)


class _Unoptimised(JITCodeLibrary):
    """LLVM's code of a kernel with that of all it calls."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _Stamped(CompileResultCacheImpl):
    """Where and how the machine code of one kernel is kept, and the stamp that tells whether it is current."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = _stamp(function)
        self._locator.get_source_stamp = lambda: stamp


class _Cache(FunctionCache):
    _impl_class = _Stamped


def _stamp(function: Callable[..., Any]) -> str:
    """Digest of a kernel's file, of the files it takes kernels and named tuples from, and of all numbers these name."""
    behind = {function.__module__: (function.__code__.co_filename, function.__globals__)}
    waiting = list(behind)
    while waiting:
        _, names = behind[waiting.pop()]
        for value in names.values():
            if isinstance(value, Dispatcher) or (isinstance(value, type) and issubclass(value, tuple)):
                home = value.__module__
                if home not in behind and home.partition(".")[0] == __name__.partition(".")[0]:
                    behind[home] = sys.modules[home].__file__ or "", vars(sys.modules[home])
                    waiting.append(home)
    parts = []
    for _, (file, names) in sorted(behind.items()):
        numbers = sorted((name, value) for name, value in names.items() if isinstance(value, int | float))
        parts.append(f"{_contents(file)} {numbers}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def _contents(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
