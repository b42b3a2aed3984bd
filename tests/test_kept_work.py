"""Long work that is kept: a kill at any moment costs little, and what goes on comes to the same result."""

import os
import pickle

import numpy as np
import pytest

from ppdinf._internal import checkpoint as _kept_work
from ppdinf._internal.checkpoint import KeptChain, forget, kept_folder
from ppdinf.errors import WriteError


def walked(folder, until, *, total=30, every=1):
    """A chain that depends on all its past: it stops after `until` draws of this run; all its draws."""
    work = KeptChain(folder, "0")
    draws, (done, at, rng) = work.load() or ([], (0, 0.0, np.random.default_rng(1)))
    for k in range(done, min(done + until, total)):
        at = 0.9 * at + rng.standard_normal()
        draws.append({"at": at, "both": np.array([at, k])})
        work.add(draws[-1])
        if (k + 1) % every == 0:
            work.keep((k + 1, at, rng))
    return draws


def test_a_chain_that_is_stopped_goes_on_to_the_same_draws(tmp_path):
    whole = walked(tmp_path / "whole", 30)
    for pieces, every in [([1] * 30, 1), ([7, 1, 15, 30], 3)]:
        folder = tmp_path / f"{every}"
        for piece in pieces:
            draws = walked(folder, piece, every=every)
        assert len(draws) == 30
        assert all((a["both"] == b["both"]).all() and a["at"] == b["at"] for a, b in zip(draws, whole, strict=True))
    forget(tmp_path / "1")
    assert not (tmp_path / "1").exists()
    forget(tmp_path / "1")


def test_what_was_changed_is_done_again(tmp_path):
    """Every byte of the state and of a file of draws, and files that are missing."""
    whole = walked(tmp_path, 4, total=4)
    for name in ("state", "2.npz"):
        data = (tmp_path / "0" / name).read_bytes()
        for place in {*range(0, len(data), 7), len(data) - 1}:
            (tmp_path / "0" / name).write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            assert KeptChain(tmp_path, "0").load() is None
        for wrong in (b"", data[:-1], data[:40]):
            (tmp_path / "0" / name).write_bytes(wrong)
            assert KeptChain(tmp_path, "0").load() is None
        (tmp_path / "0" / name).unlink()
        assert KeptChain(tmp_path, "0").load() is None
        (tmp_path / "0" / name).write_bytes(data)
        assert KeptChain(tmp_path, "0").load() is not None
    (tmp_path / "0" / "2.npz").unlink()
    again = walked(tmp_path, 4, total=4)
    assert [draw["at"] for draw in again] == [draw["at"] for draw in whole]


class Calls:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    "call",
    [(os.system, ("true",)), (eval, ("1",)), (getattr, ("text", "upper")), (np.load, ("x",)), (pickle.loads, (b"",)),
     (_kept_work.forget, (".",))],
    ids=lambda call: call[0].__name__,
)  # fmt: skip
def test_a_state_calls_nothing(tmp_path, call):
    KeptChain(tmp_path, "0").keep({"harmless": 1, "not": Calls(*call)})
    assert (tmp_path / "0" / "state").exists()
    assert KeptChain(tmp_path, "0").load() is None


def test_work_of_another_kind_is_kept_elsewhere(tmp_path):
    one = kept_folder(tmp_path, b"table", seed=1, draws=10)
    assert one == kept_folder(tmp_path, b"table", draws=10, seed=1)
    assert one not in (kept_folder(tmp_path, b"tables", seed=1, draws=10), kept_folder(tmp_path, b"table", seed=2))


def test_no_room_costs_what_would_be_kept_and_no_more(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WriteError, match="could not be made"):
        KeptChain(tmp_path / "file", "0")
    whole = walked(tmp_path / "whole", 30)
    kept = walked(tmp_path / "full", 10)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert [draw["at"] for draw in walked(tmp_path / "full", 20)] == [draw["at"] for draw in whole]
    monkeypatch.undo()
    found, (done, *_) = KeptChain(tmp_path / "full", "0").load()
    assert (len(found), done) == (len(kept), 10)
