"""Round trips through files, labels of every kind, and what a case study leaves in its folder."""

import json

import numpy as np
import xarray as xr
from hypothesis import strategies as st

import ppdinf as ppd

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
WHOLE = st.integers(-(2**53), 2**53)
DIMS = ["a", "b c", 'd,"e"', "名", "law", "value"]


def round_trip(content, folder):
    """Save and read a release or measurements; the second file has the same bytes, and the same content is read."""
    is_release = isinstance(content, ppd.Release)
    read = ppd.read_release if is_release else ppd.read_measurements
    content.save(folder / "once.ppd", overwrite=True)
    again = read(folder / "once.ppd")
    again.save(folder / "twice.ppd", overwrite=True)
    assert (folder / "once.ppd").read_bytes() == (folder / "twice.ppd").read_bytes()
    assert again.frame.dims == content.frame.dims
    assert again.frame.coords.keys() == content.frame.coords.keys()
    for name, (dims, values) in content.frame.coords.items():
        assert again.frame.coords[name][0] == dims
        assert again.frame.coords[name][1].dtype == values.dtype
        assert again.frame.coords[name][1].tolist() == values.tolist()
    assert again.public.public == content.public.public
    assert again.public.names == content.public.names
    assert (again.public.A != content.public.A).nnz == 0
    assert again.public.values.tolist() == content.public.values.tolist()
    assert again.public.limits.tolist() == content.public.limits.tolist()
    if is_release:
        xr.testing.assert_identical(again.table, content.table)
        assert again.mechanism == content.mechanism
        assert again.plan == content.plan
        assert again.guarantee == content.guarantee
    else:
        assert again.equals(content)
        assert (again.entries.matrix != content.entries.matrix).nnz == 0
        assert again.entries.y.tolist() == content.entries.y.tolist()
    return again


@st.composite
def labels_of_every_kind(draw):
    """Labels of one to three dimensions: any text, dates as text, or integers."""
    dims = draw(st.lists(st.sampled_from(DIMS), min_size=1, max_size=3, unique=True))
    kinds = st.sampled_from([TEXT, st.dates().map(str), WHOLE])
    return {dim: draw(st.lists(draw(kinds), min_size=1, max_size=3, unique=True)) for dim in dims}


def array_of(draw, kind, shape, dtype=object):
    """Draw an array of values of one kind."""
    values = np.empty(shape, dtype=dtype)
    values.flat = draw(st.lists(kind, min_size=values.size, max_size=values.size))
    return values


def claims_of(folder):
    """Its claims; page, results and figures in both formats are there."""
    claims = json.loads((folder / "results.json").read_text(encoding="utf-8"))["claims"]
    assert claims
    assert (folder / "report.html").stat().st_size > 1000
    pictures = list(folder.glob("*.png"))
    assert pictures
    assert {path.stem for path in pictures} == {path.stem for path in folder.glob("*.svg")}
    return claims
