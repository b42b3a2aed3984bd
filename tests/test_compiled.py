"""Cached machine code is recompiled after edits of every file that it depends on."""

import importlib
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numba
import numba.core.event
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numba import types
from numba.core.caching import NullCache

import ppdinf
import ppdinf.models
from ppdinf._internal import numba_jit
from ppdinf._internal.numba_jit import Deferred, callback, jit

PACKAGE = Path(ppdinf.__file__).parent

CALLER = """
import numba
from ppdinf._internal.numba_jit import callback, jit
from ppdinf.callee import FACTOR, twice
from ppdinf.pair import Pair

@jit
def early(x):
    return late(x)

@jit
def late(x):
    return twice(Pair(x, 1).first)

@jit
def scaled(x):
    return FACTOR * x

def in_c(x):
    return late(x)

@numba.njit(cache=True, nogil=True)
def unaware(x):
    return late(x)

if __name__ == "ppdinf.caller":
    print(early(10), scaled(10), callback("int64(int64)", in_c).ctypes(10), unaware(10))
    print("compiled" if early.stats.cache_misses else "kept")
"""

OTHERS = {
    "callee": "from ppdinf._internal.numba_jit import jit\nfrom ppdinf.plain import FACTOR\n"
    "from ppdinf.deepest import deepest\n\n@jit\ndef twice(x):\n    return deepest(deepest(x))\n",
    "deepest": "from ppdinf._internal.numba_jit import jit\n\n@jit\ndef deepest(x):\n    return 2 * x\n",
    "pair": "from typing import NamedTuple\n\nclass Pair(NamedTuple):\n    first: int\n    second: int\n",
    "plain": "FACTOR = 3\n",
}


@jit
def one_more(x, k):
    return x + 1 + k


def counted(x):
    """Call a kernel with a number, and with a variable of another value."""
    found, at = one_more(x, 0), 0
    while at < 5:
        found += one_more(x, at)
        at += 2
    return found


@jit
def positive(x):
    if x < 0:
        raise ValueError("a negative number")
    return x


def roots(x):
    return math.sqrt(positive(x))


@numba.njit
def twice_counted(x):
    """A kernel compiled by numba alone."""
    return 2 * counted_within(x)


@jit
def counted_within(x):
    return one_more(x, 3)


class Compiled(numba.core.event.Listener):
    """Kernels whose compilation begins."""

    def __init__(self):
        self.names = []

    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event):
        pass


def test_a_kernel_called_by_kernels_is_compiled_once_and_inlined():
    kernel = jit(counted)
    kernel._cache = one_more._cache = NullCache()  # compile them now
    with numba.core.event.install_listener("numba:compile", Compiled()) as compiled:
        assert kernel(1) == 2 + (2 + 4 + 6)
        assert compiled.names == ["counted", "one_more"]
        assert not one_more.signatures, "nobody has called it from Python"
        assert not re.search(r"call .*one_more", kernel.inspect_llvm(kernel.signatures[0]))
        assert kernel(2) == 3 + (3 + 5 + 7)
        assert one_more(1, 2) == 4
        assert compiled.names == ["counted", "one_more", "one_more"]


def test_a_kernel_that_numba_alone_compiles_takes_all_that_ours_call():
    assert twice_counted(1) == 10


def test_a_kernel_called_by_kernels_raises():
    kernel = jit(roots)
    kernel._cache = NullCache()
    assert kernel(4) == 2
    with pytest.raises(ValueError, match="a negative number"):
        kernel(-3)


def half_of(x):
    return 0.5 * x


HALF = Deferred("ppdinf_tests_half", types.float64(types.float64), half_of)
half = HALF.call


@jit
def half_or_zero(x):
    return half(x) if x > 0 else 0.0


@pytest.mark.quick_cases(0)
def test_a_deferred_kernel_is_compiled_by_its_first_call(monkeypatch):
    requests = []

    def compiled(signature, function):
        requests.append(function)
        if len(requests) == 1:
            raise KeyboardInterrupt
        return callback(signature, function)

    monkeypatch.setattr(numba_jit, "callback", compiled)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by commands in the background
    assert half_or_zero(-1.0) == 0
    assert not requests, "no call needs it"
    assert math.isnan(half_or_zero(3.0))
    with pytest.raises(KeyboardInterrupt):  # sent after the kernel has returned
        time.sleep(5)
    signal.signal(signal.SIGINT, previous)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(half_or_zero, [3.0, 5.0, 7.0])) == [1.5, 2.5, 3.5]
    assert len(requests) >= 2


@pytest.fixture
def copied(tmp_path):
    """A copy of the package without machine code, with four files of kernels, and a function to run code."""
    package = tmp_path / "ppdinf"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in {"caller": CALLER, **OTHERS}.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")

    def run(code="import ppdinf.caller", **environment):
        found = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "NUMBA_CACHE_DIR": "", "PYTHONPATH": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        return found.stdout.split()

    return package, run


def edit(file, before, after):
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")


@pytest.mark.deep
def test_edits_behind_a_kernel_are_detected(copied):
    package, run = copied
    assert run() == ["40", "30", "40", "40", "compiled"]
    assert run() == ["40", "30", "40", "40", "kept"]
    edit(package / "errors.py", '"""', '"""No kernel looks here. ')
    assert run() == ["40", "30", "40", "40", "kept"]
    edit(package / "deepest.py", "2 * x", "7 * x")
    assert run() == ["490", "30", "490", "40", "compiled"], "numba's own cache is stale, or no longer: then go without"
    edit(package / "plain.py", "3", "5")
    assert run()[:3] == ["490", "50", "490"]
    edit(package / "pair.py", "first: int\n    second: int", "second: int\n    first: int")
    assert run()[:3] == ["49", "50", "49"]


@pytest.mark.deep
def test_edits_behind_a_kernel_of_the_package_are_detected(copied):
    package, run = copied
    code = (
        "import numpy as np; from ppdinf.noise.exact.klein import log_acceptance as f; o = np.ones;"
        "print(*f(o((1, 1), int), o((1, 1)) / 4, o(1), o(1), o((1, 1), int))[0], len(f.stats.cache_misses))"
    )
    before, compiled = run(code)
    assert compiled == "1"
    assert run(code) == [before, "0"]
    edit(package / "noise" / "exact" / "theta.py", "return _dual(f, v) -", "return 1.0 + _dual(f, v) -")
    after, compiled = run(code)
    assert compiled == "1"
    assert float(after) == pytest.approx(float(before) + 1)


@pytest.mark.deep
def test_machine_code_is_cached_in_writable_folders(copied, tmp_path):
    package, run = copied
    home, chosen, file = tmp_path / "home", tmp_path / "chosen", tmp_path / "file"
    file.touch()
    assert run(NUMBA_CACHE_DIR=str(chosen))[-1] == "compiled"
    assert list(chosen.rglob("*.nbi"))
    assert not list(package.rglob("*.nbi"))
    shutil.copytree(package, tmp_path / "copy" / "ppdinf")  # another clone with the same files
    assert run(NUMBA_CACHE_DIR=str(chosen), PYTHONPATH=str(tmp_path / "copy"))[-1] == "kept"
    shutil.rmtree(package / "__pycache__", ignore_errors=True)
    (package / "__pycache__").touch()  # as good as a folder that cannot be written, also for an administrator
    environment = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    assert run(**environment)[-1] == "compiled"
    assert list(home.rglob("*.nbi"))
    assert run(**environment)[-1] == "kept"
    nowhere = {"HOME": str(file), "XDG_CACHE_HOME": str(file)}
    edit(package / "caller.py", "@numba.njit(cache=True, nogil=True)", "@jit")
    assert run(**nowhere) == ["40", "30", "40", "40", "compiled"]


def test_all_kernels_are_compiled_by_jit():
    """Except for PyTensor's `numba_njit`, which compiles the Ops of models."""
    for file in PACKAGE.rglob("*.py"):
        if file.name != "numba_jit.py":
            found = re.search(
                r"\b(?:numba\.(?:n?jit|cfunc|vectorize|guvectorize|stencil)|from numba import .*\b(?:n?jit|cfunc))\b",
                file.read_text(encoding="utf-8"),
            )
            assert not found, f"{file}: {found and found[0]}; use ppdinf._internal.numba_jit"


def test_kernels_import_names_from_other_files():
    """Changes of kernels that are reached through a module are not detected."""
    from numba.core.dispatcher import Dispatcher

    kernels = 0
    for file in PACKAGE.rglob("*.py"):
        if "numba_jit import" not in file.read_text(encoding="utf-8"):
            continue
        module = importlib.import_module(".".join(["ppdinf", *file.relative_to(PACKAGE).with_suffix("").parts]))
        for kernel in vars(module).values():
            if isinstance(kernel, Dispatcher):
                kernels += 1
                taken = [kernel.py_func.__globals__.get(name) for name in kernel.py_func.__code__.co_names]
                modules = [value.__name__ for value in taken if isinstance(value, ModuleType)]
                assert not [name for name in modules if name.startswith("ppdinf")], kernel
                assert type(kernel._cache).__name__ == "_Cache", kernel
    assert kernels > 80


@pytest.mark.quick_cases(0)
def test_numba_switched_off_is_refused_by_name():
    """Kernels as plain Python would silently not overflow at 64 bits."""
    run = subprocess.run(
        [sys.executable, "-c", "import ppdinf._internal.numba_jit"],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert "ImportError: NUMBA_DISABLE_JIT is set" in run.stderr


@pytest.mark.deep
@pytest.mark.skipif(not hasattr(pytensor.config, "generated_src_dir"), reason="PyTensor always uses temporary files")
def test_functions_of_pytensor_leave_no_temporary_files(tmp_path, monkeypatch):
    """The generated source has a folder in PyTensor's cache."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    x = pt.vector()
    pytensor.function([x], pt.exp(x).sum() + 1, mode="NUMBA")([1.0])
    assert not list(tmp_path.iterdir())


RELEASES = {
    "pieces": (20, ppdinf.invariants.total()),
    "rows": (4, ppdinf.invariants.total()),
    "free": (6, ppdinf.invariants.covariates("people")),
}


def density(cells, public, seed):
    """Return the log density of a release of a month, and its gradient, at zeros."""
    rng = np.random.default_rng(seed)
    table = ppdinf.as_table(rng.poisson(20 + seed, cells), dims=["area"])
    table = table.assign_coords(people=("area", np.arange(100, 100 + cells)))
    mechanism = ppdinf.GeneralizedLaplace(public, epsilon="1/4")
    release = ppdinf.Release(mechanism.simulate(table, draws=1, rng=seed).squeeze("draw", drop=True), mechanism)
    with pm.Model() as model:
        log_rate = pm.Normal("log_rate", 3, 1, shape=cells)
        ppdinf.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(log_rate)), release=release, marginalize=True)
    with numba.core.event.install_listener("numba:compile", Compiled()) as compiled:
        value, gradient = model.logp_dlogp_function(ravel_inputs=True)(np.zeros(cells))
    return len(compiled.names), value, gradient


@pytest.mark.parametrize(
    "case", ["pieces", pytest.param("rows", marks=pytest.mark.deep), pytest.param("free", marks=pytest.mark.deep)]
)
def test_nothing_is_compiled_for_a_second_release(case):
    cells, public = RELEASES[case]
    first = density(cells, public, 1)
    second = density(cells, public, 2)
    assert second[0] == 0
    assert second[1] != first[1]  # its values differ from those of the first release
    assert density(cells, public, 1)[1:] == (first[1], pytest.approx(first[2], rel=1e-12))
    with numba.core.event.install_listener("numba:compile", Compiled()) as compiled:
        numba.njit(lambda x: x + 1)(1)
    assert len(compiled.names) == 1
