"""Compilation of kernels, the inner loops of the package.

Numba caches the machine code of a function while the file of the function is unchanged. A kernel that calls a kernel of
another file would run old code after an edit of that file. The cache of kernels compiled here is valid only while all
files are unchanged from which their file imports kernels, named tuples or numbers, directly or indirectly. Machine code
is stored next to the sources, in ``NUMBA_CACHE_DIR``, or in the user's cache if the sources are read-only. Copies of
the package with equal files share the machine code in ``NUMBA_CACHE_DIR``.

Only kernels called from Python are optimized and cached. A kernel called by a kernel is translated to LLVM code, linked
into its caller, and optimized once with the caller. Kernels are compiled once for all literal numbers in calls such as
``kernel(x, 0)``; inlining still propagates the number as a constant.
"""

import hashlib
import math
import sys
from _thread import interrupt_main
from collections.abc import Callable
from contextlib import suppress
from ctypes import CFUNCTYPE, POINTER, addressof, c_double, c_int64, c_void_p, cast
from functools import cache, cached_property
from pathlib import Path
from threading import Timer
from typing import Any, overload

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from llvmlite.binding import add_symbol  # type: ignore[import-untyped]
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.ccallback import CFunc
from numba.core.cgutils import add_global_variable, unpack_tuple
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher
from numba.core.sigutils import normalize_signature
from numba.core.types.misc import unliteral
from numba.core.typing.ctypes_utils import to_ctypes
from numba.extending import intrinsic
from numpy.typing import NDArray

if numba.config.DISABLE_JIT:
    raise ImportError(
        "NUMBA_DISABLE_JIT is set, but kernels need 64-bit integers, unlike Python, and PyTensor "
        "calls their machine code: unset it"
    )


@overload
def jit[**P, R](function: Callable[P, R]) -> Callable[P, R]: ...
@overload
def jit[**P, R](**options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a kernel for its argument types, without the global interpreter lock; cache the machine code."""
    if function is None:
        return lambda function: jit(function, **options)
    options |= {"nogil": True, "no_cfunc_wrapper": True}
    compiled = numba.njit(**options)(function)
    within = numba.njit(no_cpython_wrapper=True, pipeline_class=_Within, **options)(function)
    within.add_overload = lambda result: within.overloads.update({result.signature.args: result})
    template = within.get_call_template

    def without_literals(args: Any, kws: Any) -> Any:
        return template([unliteral(arg) for arg in args], {name: unliteral(arg) for name, arg in kws.items()})

    compiled.get_call_template, compiled.get_overload = without_literals, within.get_overload
    return _kept(compiled, function)


def callback(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile a function for C callers immediately, and cache the machine code as `jit` does."""
    signature = normalize_signature(signature)
    compiled = _kept(CFunc(function, signature, locals={}, options={}), function)
    compiled.compile()
    return compiled


class External:
    """A function of pointers and numbers that code compiled by other libraries calls through a symbol."""

    def __init__(self, symbol: str, signature: Any, function: Callable[..., Any]) -> None:
        self.call = types.ExternalFunction(symbol, signature)
        self._symbol, self._signature, self._function = symbol, signature, function

    def provide(self) -> Any:
        """Return the function for C callers and register its symbol; the first call compiles it."""
        return self._provided

    @cached_property
    def _provided(self) -> Any:
        compiled = callback(self._signature, self._function)  # its machine code has the same lifetime as this object
        add_symbol(self._symbol, compiled.address)
        return compiled


class Deferred:
    """A function of pointers and numbers that compiled code calls through a pointer; its first call compiles it."""

    def __init__(self, symbol: str, signature: Any, function: Callable[..., Any]) -> None:
        compiled = cache(lambda: callback(signature, function))

        def first(*arguments: Any) -> float:
            try:
                self._target.value = compiled().address
                return float(compiled().ctypes(*arguments))
            except KeyboardInterrupt:  # callers in C would lose it: it is sent again when they have ended
                Timer(0.1, interrupt_main).start()
                return math.nan

        kinds = [to_ctypes(kind) for kind in (signature.return_type, *signature.args)]
        self._first = CFUNCTYPE(*kinds)(first)  # must live as long as the symbol
        self._target = c_void_p(cast(self._first, c_void_p).value)
        add_symbol(symbol, addressof(self._target))

        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            kinds = [context.get_data_type(kind) for kind in signature.args]
            kind = ir.FunctionType(context.get_data_type(signature.return_type), kinds)
            target = add_global_variable(builder.module, kind.as_pointer(), symbol)
            values = zip(signature.args, unpack_tuple(builder, arguments[0]), strict=True)
            return builder.call(
                builder.load(target), [context.get_value_as_data(builder, kind, value) for kind, value in values]
            )

        def call(_context: Any, *_arguments: Any) -> Any:
            return signature.return_type(types.StarArgTuple(signature.args)), generate

        self.call = intrinsic(call)


def pointers(*arrays: NDArray[Any]) -> list[Any]:
    """Return pointers to contiguous arrays of float64 or int64, for functions with C calling conventions."""
    return [x.ctypes.data_as(POINTER(c_int64 if x.dtype == np.int64 else c_double)) for x in arrays]


def _kept(compiled: Any, function: Callable[..., Any]) -> Any:
    with suppress(RuntimeError):  # numba found no writable folder
        compiled._cache = _Cache(function)
    return compiled


def cache_folder() -> str:
    """Return the folder of compiled kernels of this package; RuntimeError if no folder can be written."""
    return str(_Cache(jit).cache_path)


class _Within(Compiler):
    """All steps of numba's compiler up to the LLVM code of one kernel, for kernels that call it."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        self.state.flags.no_compile = True
        self.state.library = _Unoptimised(self.state.targetctx.codegen(), func.__qualname__)
        result = super().compile_extra(func)
        key = object()  # replaces a function that Python could call
        self.state.targetctx.insert_user_function(key, result.fndesc, [result.library])
        return result._replace(entry_point=key)


class _Unoptimised(JITCodeLibrary):
    """LLVM code of a kernel and of all kernels that it calls, without optimization."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _Stamped(CompileResultCacheImpl):
    """Location and format of the cached machine code of one kernel, and the stamp that shows whether it is valid."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = _stamp(function)
        self._locator.get_source_stamp = lambda: stamp
        if chosen := numba.config.CACHE_DIR:
            self._locator.get_cache_path = lambda: str(Path(chosen, function.__module__))


class _Cache(FunctionCache):
    _impl_class = _Stamped


def _stamp(function: Callable[..., Any]) -> str:
    """Digest of this file, modules of a kernel and of kernels and named tuples that it imports, and their numbers."""
    behind = {function.__module__: (function.__code__.co_filename, function.__globals__)}
    waiting = list(behind)
    packages = {name.partition(".")[0] for name in (__name__, function.__module__)}
    while waiting:
        _, names = behind[waiting.pop()]
        for value in names.values():
            if isinstance(value, Dispatcher) or (isinstance(value, type) and issubclass(value, tuple)):
                home = value.__module__
                if home not in behind and home.partition(".")[0] in packages:
                    behind[home] = sys.modules[home].__file__ or "", vars(sys.modules[home])
                    waiting.append(home)
    parts = [_contents(__file__)]  # how kernels call each other
    for module, (file, names) in sorted(behind.items()):
        numbers = sorted((name, value) for name, value in names.items() if isinstance(value, int | float))
        parts.append(f"{module} {_contents(file)} {numbers}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def _contents(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
