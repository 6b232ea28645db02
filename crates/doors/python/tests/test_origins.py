"""Files of an origin, as Python's users see them."""

import errno
import os
import subprocess
from pathlib import Path

import fsspec
import h5py
import numpy
import pytest
import xarray
from fsspec import AbstractFileSystem

import terrace

PROGRAM = Path(__file__).parents[4] / "target/debug/terrace"
DATA = numpy.random.default_rng(1).bytes(3_000_000)


@pytest.fixture
def far(place: Path, tmp_path: Path) -> Path:
    """A directory that the store shows below `data/far`. Its names are asked for again each time."""
    if not PROGRAM.exists():
        pytest.fail("the command is not built: `cargo build --bins`")
    folder = tmp_path / "far"
    (folder / "sub").mkdir(parents=True)
    (folder / "long").write_bytes(DATA)
    (folder / "sub/numbers").write_bytes(numpy.arange(1000, dtype="<f8").tobytes())
    command = [PROGRAM, "origin", "add", "data/far", folder, "--max-age", "0s"]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"TERRACE_STORE": str(place)})
    return folder


def test_the_store_reads_them(store: terrace.Store, far: Path) -> None:
    assert store.read("data/far/long", 1_000_000, 1_000_100) == DATA[1_000_000:1_000_100]
    assert store.get("data/far/long") == DATA
    assert store.stat("data/far/long").length == len(DATA)
    numbers = numpy.frombuffer(store.get("data/far/sub/numbers"), "<f8")
    assert (numbers == numpy.arange(1000)).all()
    (far / "new").write_bytes(b"new")
    assert store.get("data/far/new") == b"new"
    with pytest.raises(FileNotFoundError):
        store.get("data/far/none")


def test_origins_are_added_fetched_and_removed(store: terrace.Store, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far/a").write_bytes(DATA)
    store.add_origin("o", tmp_path / "far", max_age=0)
    assert [found.key for found in store.ls("o")] == ["o", "o/a"]
    told: list[int] = []
    assert store.fetch_origins("o", limit=1_000_000, progress=told.append) == {
        "files": 1,
        "fetched": 1_000_000,
        "left": 2_000_000,
        "refused": 0,
    }
    assert told[-1] == 1_000_000 <= store.origins()[0]["cached"] < 1_100_000
    with pytest.raises(ZeroDivisionError):
        store.fetch_origins("o", progress=lambda done: done // 0)

    def tiers() -> set[str]:
        extents = store.locate("o/a")["extents"]
        return {replica["tier"] for extent in extents for replica in extent["replicas"]}

    assert tiers() == {"fast"} and store.stage("o", "slow")["made"] > 0
    assert store.origins()[0]["cached"] == len(DATA), "what was missing is fetched"
    assert tiers() == {"fast", "slow"} and store.evict("o", "fast")["dropped"] > 0
    assert tiers() == {"slow"}
    for call in [
        store.fetch_origins,
        lambda prefix: store.stage(prefix, "slow"),
        lambda prefix: store.evict(prefix, "slow"),
    ]:
        with pytest.raises(terrace.NotFoundError, match="mistyped"):
            call("mistyped")
    origin = {"prefix": "o", "url": str(tmp_path / "far"), "max_age": 0.0, "files": 1, "bytes": len(DATA)}
    assert origin.items() <= store.origins()[0].items() and store.get("o/a") == DATA
    assert store.remove_origin("o")["cached"] == len(DATA)
    assert store.origins() == [] == list(store.ls("o")) and (tmp_path / "far/a").read_bytes() == DATA
    for prefix, place, wrong in [("o", tmp_path / "none", "none"), ("p", "s3://bucket", "compiled in|bucket")]:
        with pytest.raises(terrace.TerraceError, match=wrong):
            store.add_origin(prefix, place)
    with pytest.raises(terrace.ConfigError, match="no origin has the prefix"):
        store.remove_origin("o")


def test_files_are_listed_and_read(files: AbstractFileSystem, far: Path, tmp_path: Path) -> None:
    assert sorted(files.ls("data/far", detail=False)) == ["data/far/long", "data/far/sub"]
    assert files.info("data/far/long")["size"] == len(DATA) and files.isdir("data/far/sub")
    assert files.glob("data/far/**/num*") == ["data/far/sub/numbers"]
    with files.open("data/far/long") as file:
        file.seek(2_000_000)
        assert file.read(100) == DATA[2_000_000:2_000_100]
    assert files.cat_file("data/far/long", 10, 20) == DATA[10:20]
    files.get("data/far", str(tmp_path / "copy"), recursive=True)
    assert (tmp_path / "copy/long").read_bytes() == DATA


def test_changes_are_refused(store: terrace.Store, files: AbstractFileSystem, far: Path) -> None:
    store.put("own", b"own")
    for change in [
        lambda: store.put("data/far/long", b"x"),
        lambda: store.put("data/far/new", b"x"),
        lambda: store.write_at("data/far/long", 0, b"x"),
        lambda: store.set_length("data/far/long", 1),
        lambda: store.delete("data/far/long"),
        lambda: files.pipe_file("data/far/long", b"x"),
        lambda: files.open("data/far/long", "wb").close(),
        lambda: files.open("data/far/long", "r+b").write(b"x"),
        lambda: files.rm_file("data/far/long"),
        lambda: files.mv("own", "data/far/long"),
        lambda: files.mkdir("data/far/folder"),
    ]:
        with pytest.raises(terrace.ReadOnlyError, match="read-only") as refused:
            change()
        assert isinstance(refused.value, PermissionError) and refused.value.errno == errno.EROFS
    assert (far / "long").read_bytes() == DATA and store.get("own") == b"own"


def test_datasets_are_opened(place: Path, far: Path) -> None:
    grid = xarray.DataArray(numpy.random.default_rng(2).random((50, 40, 30)), dims=("time", "y", "x"))
    grid.to_dataset(name="t").to_netcdf(far / "t.nc", engine="h5netcdf", encoding={"t": {"chunksizes": (10, 40, 30)}})
    numpy.save(far / "a.npy", numpy.arange(10_000).reshape(100, 100))
    with (
        fsspec.open("terrace://data/far/t.nc", store=str(place)) as file,
        xarray.open_dataset(file, engine="h5netcdf") as opened,
    ):
        assert (opened["t"][12, 3] == grid[12, 3]).all() and float(opened["t"].mean()) == float(grid.mean())
    with fsspec.open("terrace://data/far/t.nc", store=str(place)) as file, h5py.File(file) as opened:
        assert (opened["t"][40:, 5] == grid.values[40:, 5]).all()
    with fsspec.open("terrace://data/far/a.npy", store=str(place)) as file:
        assert (numpy.load(file) == numpy.arange(10_000).reshape(100, 100)).all()
