"""Case studies: results of interrupted studies, and independence of the way of execution."""

import io
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from case_studies._shared.replicate_files import pack, unpack
from case_studies._shared.study import Study
from ppdinf.errors import ReleaseFileError


def study(folder, seed=1):
    return Study("A title", folder, about="About.", settings={"seed": seed, "quick": True})


def draw(rng, k):
    return k, float(rng.random())


@pytest.mark.quick_cases(0)
def test_replicates_depend_on_the_settings_alone(tmp_path):
    alone = study(tmp_path / "a").replicates(draw, 6)
    assert [k for k, _ in alone] == list(range(6))
    assert len({x for _, x in alone}) == 6
    assert study(tmp_path / "b").replicates(draw, 6, workers=2) == alone
    assert study(tmp_path / "c").replicates(draw, 4) == alone[:4]
    assert study(tmp_path / "d", seed=2).replicates(draw, 6) != alone
    assert study(tmp_path / "e").replicates(draw, 6, name="others") != alone


def test_finished_replicates_are_not_drawn_again(tmp_path):
    seen = []

    def interrupted(rng, k):
        if k == 3 and 3 not in seen:
            seen.append(3)
            raise KeyboardInterrupt
        seen.append(k)
        return draw(rng, k)

    with pytest.raises(KeyboardInterrupt):
        study(tmp_path).replicates(interrupted, 6)
    assert study(tmp_path).replicates(interrupted, 6) == study(tmp_path / "whole").replicates(draw, 6)
    assert sorted(seen) == [0, 1, 2, 3, 3, 4, 5]


def test_replicates_of_other_settings_are_left_alone(tmp_path):
    study(tmp_path).replicates(draw, 3)
    assert study(tmp_path, seed=2).replicates(draw, 3) == study(tmp_path / "new", seed=2).replicates(draw, 3)


class Trap:
    """Sets a mark where it is unpickled."""

    sprung = False

    def __reduce__(self):
        return setattr, (Trap, "sprung", True)


def objects():
    file = io.BytesIO()
    np.savez(file, structure=np.array([Trap()], dtype=object))
    return file.getvalue()


@pytest.mark.parametrize(
    "data", [b"", b"PK", pickle.dumps(Trap()), objects(), pack(1)[:-9]], ids=lambda data: len(data)
)
def test_files_in_the_folder_run_no_code(tmp_path, data):
    """Wrong variant: a pickle in the folder of a study is loaded and runs its code."""
    first = study(tmp_path).replicates(draw, 1)
    (place,) = (tmp_path / "replicates").iterdir()
    assert pickle.dumps(first[0]) not in place.read_bytes()
    place.write_bytes(data)
    place.with_suffix(".pickle").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ReleaseFileError, match="remove it and run again"):
        study(tmp_path).replicates(draw, 1)
    assert not Trap.sprung


def test_results_are_read_unchanged():
    frame = pd.DataFrame({"way": ["a", "b"], "n": [1, 2], "x": [0.5, np.nan], "on": [True, False]}, index=[3, 5])
    frame["kind"] = pd.Categorical(["u", "v"])
    labelled = frame.set_index(["way", "n"])
    result = {
        ("counting", "l1"): (np.arange(6, dtype=np.int32).reshape(2, 3), np.float32(0.5)),
        2.5: [None, True, "text \n 'x'", -(10**30), float("inf")],
        "labels": np.array(["a", "bc"]),
        "nested": {"frame": frame, "labelled": labelled},
    }
    again = unpack(pack(result), "file")
    for name in ("frame", "labelled"):
        pd.testing.assert_frame_equal(again["nested"].pop(name), result["nested"].pop(name))
    np.testing.assert_equal(again, result)
    kinds = again["counting", "l1"]
    assert kinds[0].dtype == np.int32
    assert type(kinds[1]) is np.float32
    for odd in (object(), {1, 2}, np.array([object()]), b"bytes", 1j):
        with pytest.raises(TypeError, match="replicates return numbers"):
            pack(odd)


def test_written_files(tmp_path):
    made = study(tmp_path)
    made.claim("one < two", "a paper", "1", 2, holds=False, reason="it is <b>not</b>")
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([1, 2])
    made.figure("line", figure, "A line.")
    made.table("numbers", pd.DataFrame({"x": [1.23456789]}, index=pd.Index(["a"], name="cell")), "Numbers.")
    made.text("A paragraph.", heading="A heading")
    made.write(progress=False)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["claims"] == [
        {
            "claim": "one < two",
            "source": "a paper",
            "there": "1",
            "here": "2",
            "holds": False,
            "reason": "it is <b>not</b>",
        }
    ]
    assert results["settings"] == {"seed": 1, "quick": True}
    page = (tmp_path / "report.html").read_text()
    assert "one &lt; two" in page
    assert "<b>not</b>" not in page
    assert all(text in page for text in ("A line.", "1.23", "Numbers.", "A heading", "A paragraph."))
    assert (tmp_path / "numbers.csv").read_text() == "cell,x\na,1.23456789\n"
    assert (tmp_path / "line.svg").exists()
    assert not list(tmp_path.rglob("*.unfinished"))


def test_claims_have_three_results_in_quick_and_in_whole_runs(tmp_path, capsys):
    made = study(tmp_path)
    made.claim("true", "here", 1, 1, holds=np.True_)
    made.claim("noisy", "here", 1, 2, holds=None, reason="a note")
    made.claim("misprinted", "here", 1, 2, holds=False, reason="a misprint")
    made.write()
    results = [line.split(" | ")[-1] for line in capsys.readouterr().out.splitlines()[2:]]
    assert results == ["holds |", "too few replicates |", "fails: a misprint |"]
    claims = json.loads((tmp_path / "results.json").read_text())["claims"]
    assert [claim["holds"] for claim in claims] == [True, None, False]
    assert '<td class="text claim ">too few replicates</td>' in (tmp_path / "report.html").read_text()
