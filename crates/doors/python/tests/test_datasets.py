"""Datasets, whose views are arrays in the store."""

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy
import pytest
import xarray
from numpy.typing import NDArray

import terrace

DECLARATION = """
dataset {
    var m [40, 7, 30]float32
    var points [5]struct { a int16; b float64 }
    var label string6
    var one int64
}
view all { var m = m; var points = points; var label = label; var one = one }
view turned { var m [k, j, i] = m[i, j, k] }
view b big { var b [i] = points[i].b }
view tiles tiled(2, 2, 2) { var m = m }
view fixed read-only { var one = one }
replica main { view all }
replica second { view turned; view b; consistency on-close }
"""


@pytest.fixture
def dataset(store: terrace.Store) -> terrace.Dataset:
    return store.add_dataset("made", DECLARATION)


def field(dataset: terrace.Dataset) -> NDArray[Any]:
    values = numpy.random.default_rng(1).random((40, 7, 30), "f4")
    dataset["all"]["m"] = values
    return values


def test_views_are_arrays(store: terrace.Store, dataset: terrace.Dataset) -> None:
    values = field(dataset)
    assert list(dataset) == ["all", "turned", "b", "tiles", "fixed"] and "b" in dataset
    variable = dataset["all"]["m"]
    assert (variable.shape, variable.dtype, variable.nbytes, len(variable)) == ((40, 7, 30), "<f4", values.nbytes, 40)
    numpy.testing.assert_array_equal(variable, values)
    numpy.testing.assert_array_equal(dataset["turned"], values.T)
    numpy.testing.assert_array_equal(store.dataset("made")["turned"][3:9, ::-2, 5], values.T[3:9, ::-2, 5])

    points = numpy.array([(1, 0.5), (2, 1.5), (3, 2.5), (4, 3.5), (5, 4.5)], [("a", "<i2"), ("b", "<f8")])
    dataset["all"]["points"] = points
    assert (dataset["b"][1:] == points["b"][1:]).all() and dataset["b"]["b"].dtype == ">f8"
    dataset["b"][2] = 9.5
    assert dataset["all"]["points"][2]["b"] == 9.5 and dataset["all"]["points"][2]["a"] == 3

    dataset["all"]["label"] = (3, b"abc")
    assert dataset["all"]["label"][()]["text"] == b"abc" and dataset["all"]["label"][...]["length"] == 3
    dataset["all"]["one"][...] = 7
    assert dataset["fixed"][()] == 7


def test_random_slices_are_those_of_numpy(dataset: terrace.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small limits make pieces, gaps and single rows of small arrays."""
    expected, random = field(dataset), numpy.random.default_rng(2)
    variable = dataset["all"]["m"]

    def index(length: int) -> Any:
        start, stop = random.integers(-length - 2, length + 2, 2)
        step = int(random.choice([1, 1, 1, 2, 5, -1, -3]))
        whole = random.random() < 0.3
        kinds = [slice(None) if whole else slice(start, stop, step), int(random.integers(-length, length))]
        return kinds[random.random() < 0.3]

    for _ in range(200):
        monkeypatch.setattr("terrace._dataset.GAP_BYTES", int(random.choice([4, 200, 2000, 1 << 16])))
        monkeypatch.setattr("terrace._dataset.PIECE_BYTES", int(random.choice([1, 500, 1 << 20])))
        wanted: tuple[Any, ...] = tuple(index(length) for length in expected.shape[: random.integers(1, 4)])
        if random.random() < 0.2:
            wanted = (..., index(expected.shape[-1]))
        numpy.testing.assert_array_equal(variable[wanted], expected[wanted], err_msg=str(wanted))
        # Each run of elements is a commit of its own.
        if 0 < expected[wanted].size < 100:
            value = random.random(expected[wanted].shape, "f4")
            variable[wanted] = expected[wanted] = value
    numpy.testing.assert_array_equal(variable[...], expected)
    variable[1:3] = 0
    assert not variable[1:3].any()


def test_what_is_not_possible_says_so(store: terrace.Store, dataset: terrace.Dataset) -> None:
    variable = dataset["all"]["m"]
    for index in [40, (0, 7), (0, 0, 0, 0), (..., ...), [1, 2], 1.5, "x", True, (0, False)]:
        with pytest.raises(IndexError):
            variable[index]
    with pytest.raises(ValueError, match="broadcast"):
        variable[0] = numpy.zeros(3)
    with pytest.raises(TypeError, match="mask"):
        variable[0, 0] = numpy.ma.masked_less(numpy.arange(30), 3)
    with pytest.raises(terrace.RefusedError, match="in tiles"):
        dataset["tiles"]["m"]
    with pytest.raises(TypeError, match="several variables; choose one: m, points, label, one"):
        dataset["all"][0]
    with pytest.raises(terrace.RefusedError, match="read-only"):
        dataset["fixed"][...] = 1
    with pytest.raises(terrace.NotFoundError, match="has no view"):
        dataset["none"]
    with pytest.raises(terrace.NotFoundError, match="no dataset"):
        store.dataset("none")
    with pytest.raises(terrace.ConflictError, match="already"):
        store.add_dataset("made", DECLARATION)
    with pytest.raises(terrace.RefusedError, match="the declaration has errors"):
        store.add_dataset("other", "view {")


def test_datasets_are_kept(store: terrace.Store, dataset: terrace.Dataset, tmp_path: Path) -> None:
    values = field(dataset)
    assert store.datasets() == ["made"] and "replica second {" in dataset.declaration
    assert dict((name, behind) for name, _, behind in dataset.replicas) == {"main": False, "second": True}
    with dataset["all"] as view:
        view["one"] = 3
    dataset.settle()
    assert not any(behind for _, _, behind in dataset.replicas)
    assert dataset.explain()["views"][0]["name"] == "all" and dataset.modified > 0
    again = pickle.loads(pickle.dumps(dataset["turned"]["m"]))
    numpy.testing.assert_array_equal(again[0], values.T[0])

    key = next(keys[0] for name, keys, _ in dataset.replicas if name == "second")
    store.delete(key)
    assert "dataset made are gone" in store.health()["findings"][0]["message"]
    assert dataset.repair()["lost"] == 0 and not any(
        finding["code"] == "dataset-incomplete" for finding in store.health()["findings"]
    )
    numpy.testing.assert_array_equal(dataset["turned"], values.T)
    dataset["all"].export("hdf5", tmp_path / "all.h5")
    with h5py.File(tmp_path / "all.h5") as file:
        numpy.testing.assert_array_equal(file["m"][:], values)
    dataset.edit(DECLARATION.replace("view fixed read-only { var one = one }", ""))
    assert "fixed" not in dataset
    store.remove_dataset("made")
    assert store.datasets() == []


def test_xarray_reads_views(store: terrace.Store, dataset: terrace.Dataset) -> None:
    values = field(dataset)
    dims = {"m": ("x", "level", "time")}
    with xarray.open_dataset("made", engine="terrace", view="all", store=store, dims=dims) as opened:
        assert opened.m.dims == ("x", "level", "time") and opened.points.dims == ("points_0",)
        assert opened.attrs == {"dataset": "made", "view": "all"}
        numpy.testing.assert_array_equal(opened.m.isel(time=[3, 5], x=slice(None, None, 7)), values[::7, :, [3, 5]])
        numpy.testing.assert_allclose(opened.m.mean("time"), values.mean(2), rtol=1e-5)
    chunked = xarray.open_dataset("made", engine="terrace", view="turned", store=store.directory, chunks={"k": 7})
    numpy.testing.assert_allclose(chunked.m.sum().compute(scheduler="threads"), values.sum(), rtol=1e-4)
    assert chunked.m.dims == ("k", "j", "i") and dataset["turned"]["m"].dims == ("k", "j", "i")
    with pytest.raises(ValueError, match="several views; name one: all, turned"):
        xarray.open_dataset("made", engine="terrace", store=store)
