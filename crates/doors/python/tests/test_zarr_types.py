"""Chunks of Zarr arrays carry the type of their elements."""

from pathlib import Path
from typing import Any

import numpy
import pytest
import xarray
import zarr
from fsspec import AbstractFileSystem, filesystem

import terrace
from terrace.zarr import element, uncompressed

ARRAYS: list[tuple[dict[str, Any], str | None]] = [
    ({"dtype": "<f4", "compressors": None}, "f32"),
    ({"dtype": "<i2", "compressors": None}, "i16"),
    ({"dtype": "<M8[s]", "compressors": None}, "i64"),
    ({"dtype": "<f8", "compressors": None, "shards": (8, 8)}, "f64"),
    ({"dtype": "<f8", "compressors": None, "zarr_format": 2}, "f64"),
    ({"dtype": ">f8", "compressors": None, "zarr_format": 2}, None),
    ({"dtype": "<f8", "compressors": None, "chunk_key_encoding": {"name": "v2", "separator": "/"}}, "f64"),
    ({"dtype": "<f8"}, None),
    ({"dtype": "<f8", "zarr_format": 2}, None),
]


@pytest.mark.parametrize(("array", "expected"), ARRAYS, ids=str)
def test_an_arrays_metadata_tells_the_type(
    files: AbstractFileSystem, store: terrace.Store, place: Path, array: dict[str, Any], expected: str | None
) -> None:
    options = {"store": str(place)}
    made = zarr.create_array("terrace://group/0", shape=(8, 8), chunks=(4, 4), storage_options=options, **array)
    made[:] = numpy.ones((8, 8)).astype(made.dtype)
    chunks = [path for path in files.find("group") if not path.rpartition("/")[2].startswith((".z", "zarr.json"))]
    assert chunks and {element(store, chunk) for chunk in chunks} == {expected}
    assert element(store, "group/0/zarr.json") is element(store, "group/0/.zarray") is None
    assert element(store, "elsewhere/c/0") is element(store, "0") is None


def test_changed_and_invalid_metadata_is_noticed(store: terrace.Store) -> None:
    store.put("a/zarr.json", b"no JSON")
    assert element(store, "a/c/0") is None
    store.put("a/.zarray", b'{"zarr_format": 2, "dtype": "<f4", "compressor": null, "filters": null}')
    store.delete("a/zarr.json")
    assert element(store, "a/0.0") == "f32"
    store.put("a/.zarray", b'{"zarr_format": 2, "dtype": "<f8", "compressor": null, "filters": null}')
    assert element(store, "a/0.0") == "f64"


def stored(store: terrace.Store, prefix: str) -> int:
    """Returns the stored size of the first replicas of an array's chunks."""
    chunks = [found.key for found in store.ls(prefix) if not found.key.endswith("zarr.json")]
    extents = [extent for chunk in chunks for extent in store.locate(chunk)["extents"]]
    return sum(extent["replicas"][0]["stored"] for extent in extents)


def test_typed_chunks_take_less_than_zarrs_default_codec(place: Path, data: Path) -> None:
    options: dict[str, Any] = {"store": str(place), "options": {"min_storage": True, "replicas": 1}}
    store = filesystem("terrace", **options).store
    kwargs: dict[str, Any] = {"storage_options": options, "consolidated": False}
    typed = usual = 0
    # One chunk at a time: what is learned of one serves the next.
    with zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1}):
        for path in sorted((data / "nc").glob("*.nc")):
            with xarray.open_dataset(path, engine="h5netcdf", decode_cf=False) as dataset:
                dataset.to_zarr(f"terrace://typed/{path.stem}", encoding=uncompressed(dataset), **kwargs)
                with xarray.open_zarr(f"terrace://typed/{path.stem}", decode_cf=False, **kwargs) as again:
                    xarray.testing.assert_equal(again, dataset)
                dataset.to_zarr(place.parent / path.stem, consolidated=False)
            chunks = [file for file in (place.parent / path.stem).rglob("c/**/*") if file.is_file()]
            scalars = [file for file in (place.parent / path.stem).glob("*/c") if file.is_file()]
            of_file = stored(store, f"typed/{path.stem}")
            of_zarr = sum(file.stat().st_size for file in chunks + scalars)
            print(f"{path.name}: {of_zarr} bytes by Zarr's default, {of_file} typed, {1 - of_file / of_zarr:.0%} saved")
            typed, usual = typed + of_file, usual + of_zarr
    print(f"all: {usual} bytes by Zarr's default, {typed} typed, {1 - typed / usual:.1%} saved")
    assert typed < 0.9 * usual
