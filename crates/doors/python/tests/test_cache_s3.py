"""`terrace::s3://`, with a real server."""

import multiprocessing
import sys
from pathlib import Path
from typing import Any

import fsspec
import numpy
import pytest
import xarray

import terrace
from moto_server import Server


def test_a_bucket_is_read_once(server: Server, place: Path) -> None:
    data = numpy.random.default_rng(1).bytes(5_000_000)
    server.fs.pipe_file("bucket/a", data)
    options = server.options | {"terrace": {"store": str(place), "check_after": 0}}
    for asked in [1, 1]:
        with fsspec.open("terrace::s3://bucket/a", **options) as file:
            assert file.read() == data
        assert server.gets() == asked
    fs, _ = fsspec.url_to_fs("terrace::s3://bucket/a", **options)
    cached = fs.cached()[0]
    assert cached[:3] == ("bucket/a", len(data), len(data)) and 'ETag "' in (cached.identity or "")
    assert "5000000 of 5000000 bytes were read, of the version with ETag" in cached.why

    file = fs.open("bucket/a")
    server.fs.pipe_file("bucket/a", data[::-1])
    assert fs.cat_file("bucket/a") == data[::-1]
    # Nothing of the version that is open is cached any more.
    with pytest.raises(terrace.ReplacedError):
        file.read(5)


def test_a_stopped_server_is_not_needed_for_what_is_cached(server: Server, place: Path, data: Path) -> None:
    """A NetCDF file and a Zarr group of a bucket: a mean, the server stops, the mean again, the server starts."""
    source = data / "nc/ostia_monthly.nc"
    options = server.options | {"terrace": {"store": str(place), "check_after": 0}}

    def upload() -> None:
        server.fs.put_file(str(source), "bucket/a.nc")
        with xarray.open_dataset(source, engine="h5netcdf", decode_cf=False) as real:
            real.to_zarr("s3://bucket/a.zarr", storage_options=server.options["s3"], mode="w", zarr_format=2)

    def means() -> list[dict[str, float]]:
        url = "terrace::s3://bucket/a.zarr"
        zarr = xarray.open_zarr(url, storage_options=options, decode_cf=False)
        with fsspec.open("terrace::s3://bucket/a.nc", **options) as file:
            netcdf = xarray.open_dataset(file, engine="h5netcdf", decode_cf=False)
            opened = [netcdf, zarr]
            return [{str(name): float(of[name].mean()) for name in of if of[name].dtype.kind in "iuf"} for of in opened]

    upload()
    first = means()
    assert len(first[0]) > 0 and first[1] == pytest.approx(first[0], nan_ok=True)
    asked = server.gets()
    again = [pytest.approx(of, nan_ok=True) for of in first]
    assert means() == again and server.gets() == asked
    server.stop()
    assert means() == again
    fs = fsspec.url_to_fs("terrace::s3://bucket/b", **options)[0]
    with pytest.raises(terrace.FailedError, match="s3 .* does not answer about 'bucket/b'"):
        fs.info("bucket/b")
    server.start()
    upload()
    server.fs.pipe_file("bucket/b", b"after")
    assert fs.cat("bucket/b") == b"after" and means() == again


def test_a_child_of_fork_fetches_by_itself(server: Server, place: Path) -> None:
    """s3fs refused to work there: "This class is not fork-safe"."""
    server.fs.pipe({"bucket/a": b"before", "bucket/b": b"bytes"})
    options = server.options | {"terrace": {"store": str(place), "check_after": 0}}
    fs, _ = fsspec.url_to_fs("terrace::s3://bucket", **options)
    assert fs.cat("bucket/a") == b"before"
    child = multiprocessing.get_context("fork").Process(target=exit_if_equal, args=(fs, "bucket/b", b"bytes"))
    child.start()
    child.join()
    assert child.exitcode == 7
    asked = server.gets()
    assert fs.cat("bucket/b") == b"bytes" and server.gets() == asked


def exit_if_equal(fs: Any, path: str, expected: bytes) -> None:
    sys.exit(7 if fs.cat(path) == expected else 1)
