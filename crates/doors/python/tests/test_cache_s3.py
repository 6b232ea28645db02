"""`terrace::s3://`, with a real server."""

import multiprocessing
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import numpy
import pytest
import xarray
from s3fs import S3FileSystem

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


class Simple(S3FileSystem):  # type: ignore[misc]
    """S3 as of a service that ignores conditions, and perhaps tells no ETags beside bytes, or ignores ranges."""

    protocol = "simple"
    tells_etags = True
    knows_ranges = True

    async def _call_s3(self, method: str, *options: Any, **asked: Any) -> Any:
        asked.pop("IfMatch", None)
        if not self.knows_ranges:
            asked.pop("Range", None)
        answer = await super()._call_s3(method, *options, **asked)
        if method == "get_object" and not self.tells_etags:
            answer.pop("ETag")
        return answer


def cache(server: Server, place: Path, kind: type[S3FileSystem] = S3FileSystem, **options: Any) -> Any:
    """A cache of its own, whose blocks are short."""
    fs = kind(**server.options["s3"], skip_instance_cache=True)
    kept: dict[str, Any] = {"store": str(place), "fs": fs, "block_size": 10_000, "skip_instance_cache": True}
    return fsspec.filesystem("terrace", **(kept | options))


def test_a_file_costs_few_requests(server: Server, place: Path) -> None:
    data = numpy.random.default_rng(2).bytes(25_000)
    server.fs.pipe({f"bucket/{name}": data for name in ["a", "b", "c/d"]} | {"bucket/empty": b""})
    always, seldom = cache(server, place, check_after=0), cache(server, place, check_after=1000)

    def asked(read: Any) -> list[str]:
        before = len(server.requests())
        read()
        return server.requests()[before:]

    def opened() -> None:
        with always.open("bucket/b") as file:
            assert file.read() == data

    def refused(path: str, error: type[OSError]) -> None:
        with pytest.raises(error):
            seldom.cat_file(path)

    assert asked(lambda: seldom.cat_file("bucket/a")) == ["GET"]
    assert asked(lambda: seldom.cat_file("bucket/a", 3, 5)) == [] == asked(lambda: seldom.info("bucket/a"))
    assert asked(lambda: always.cat_file("bucket/a")) == ["HEAD"]
    assert asked(opened) == ["HEAD", "GET"]
    # What the answer with the bytes tells is the same as what the server says about the file.
    assert seldom.info("bucket/a") == server.fs.info("bucket/a", refresh=True)
    # Blocks stay if only the answer is forgotten.
    seldom.invalidate_cache("bucket/a")
    assert asked(lambda: seldom.cat_file("bucket/a")) == ["HEAD"]
    assert asked(lambda: seldom.cat_file("bucket/empty"))[-1] == "HEAD" and seldom.cat_file("bucket/empty") == b""
    assert asked(lambda: refused("bucket/none", FileNotFoundError)) == ["GET", "LIST"]
    assert asked(lambda: refused("bucket/none", FileNotFoundError)) == []
    refused("bucket/c", IsADirectoryError)
    refused("bucket", IsADirectoryError)
    refused("none/a", FileNotFoundError)


def test_first_reads_of_any_range_give_its_bytes(server: Server, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of files that are longer than one request may be."""
    monkeypatch.setattr("terrace.cache.FETCHED_BYTES", 30_000)
    random = numpy.random.default_rng(3)
    for turn in range(40):
        data = random.bytes(int(random.integers(1, 100_000)))
        server.fs.pipe_file(f"bucket/{turn}", data)
        fs = cache(server, place)
        start, end = (None if random.integers(4) == 0 else int(random.integers(-10_000, 110_000)) for _ in range(2))
        assert fs.cat_file(f"bucket/{turn}", start, end) == data[start:end], (len(data), start, end)
        assert fs.cat_file(f"bucket/{turn}") == data


@pytest.mark.parametrize("kind", ["everywhere", "mostly in a quarter"])
def test_a_small_cache_fetches_little_more_than_an_exact_one_would(server: Server, place: Path, kind: str) -> None:
    """Random reads over twice as many blocks as the cache may have, beside an LRU cache. Then of half of them, which
    find room: nothing is fetched twice. Uses were noted once a minute, so that blocks in steady use made room, too."""
    count = int(os.environ.get("TERRACE_CACHE_BLOCKS", "128"))
    block = int(os.environ.get("TERRACE_CACHE_BLOCK_BYTES", "8192"))
    random, per_file = numpy.random.default_rng(6), 8
    files = {f"bucket/{number}": random.bytes(per_file * block) for number in range(count // per_file)}
    # One after the other: the server does not take hundreds at once.
    for path, data in files.items():
        server.fs.pipe_file(path, data)
    # In turn by two of them, which share what is cached.
    options: dict[str, Any] = {"block_size": block, "check_after": 1e6, "limit": count * block // 2}
    caches = [cache(server, place, **options) for _ in range(2)]

    def fetched(wanted: Any) -> int:
        before = server.gets()
        for turn, number in enumerate(int(one) for one in wanted):
            path, start = f"bucket/{number // per_file}", number % per_file * block + int(random.integers(block - 100))
            assert caches[turn % 2].cat_file(path, start, start + 100) == files[path][start : start + 100]
            assert turn % (count // 2) or caches[0].blocks.size() <= count * block // 2
        return server.gets() - before

    wanted = random.integers(0, count, 6 * count)
    if kind != "everywhere":
        order = random.permutation(count)
        wanted = order[numpy.where(random.random(6 * count) < 0.8, wanted % (count // 4), wanted)]
    lru: dict[int, None] = {}
    by_lru = 0
    for number in wanted:
        by_lru += number not in lru
        lru.pop(number, None)
        lru[number] = None
        if len(lru) > count // 2:
            del lru[next(iter(lru))]
    assert count // 2 < fetched(wanted) <= 1.1 * by_lru

    caches[0].clear_cache()
    few = wanted % (count // 2 - per_file)
    assert fetched(few) == len(set(few)) and fetched(few) == 0


def test_threads_fetch_a_new_file_once(server: Server, place: Path) -> None:
    data = numpy.random.default_rng(4).bytes(100_000)
    server.fs.pipe_file("bucket/a", data)
    caches, before = [cache(server, place) for _ in range(4)], len(server.requests())
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda turn: caches[turn % 4].cat_file("bucket/a"), range(8))) == [data] * 8
    assert server.requests()[before:] == ["GET"]


def test_services_that_know_less_are_asked_for_the_version_again(server: Server, place: Path) -> None:
    data = numpy.random.default_rng(5).bytes(50_000)
    for tells_etags, knows_ranges in [(True, True), (False, True), (True, False)]:
        Simple.tells_etags, Simple.knows_ranges = tells_etags, True
        server.fs.pipe_file("bucket/a", data)
        fs = cache(server, place, Simple, check_after=0)
        before = len(server.requests())
        with fs.open("bucket/a") as file:
            assert file.read(15_000) == data[:15_000]
            asked = server.requests()[before:]
            assert asked.count("HEAD") == (1 if tells_etags else 2) and fs.cat_file("bucket/a", 0, 5) == data[:5]
            # The other version is as long, and no condition keeps the service from sending it.
            server.fs.pipe_file("bucket/a", data[::-1])
            Simple.knows_ranges = knows_ranges
            with pytest.raises(terrace.ReplacedError):
                file.seek(40_000)
                file.read(5)
        Simple.knows_ranges = True
        assert fs.cat_file("bucket/a") == data[::-1]


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
