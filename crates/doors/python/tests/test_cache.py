"""`terrace::` as a cache of local files and of fsspec's own in memory."""

import os
import pickle
import select
import signal
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import numpy
import pytest
import xarray
from fsspec import AbstractFileSystem, filesystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import terrace
from terrace._uses import BOOT

BLOCK = 100_000
DATA = numpy.random.default_rng(1).bytes(1_234_567)


class Counted(LocalFileSystem):  # type: ignore[misc]
    """Local files, with a count of the bytes that are read."""

    protocol = "counted"
    fetched = 0
    away = False

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        data: bytes = super().cat_file(path, start, end)
        type(self).fetched += len(data)
        return data

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        if self.away:
            raise ConnectionError("no route to the files")
        found: dict[str, Any] = super().info(path, **kwargs)
        return found


@pytest.fixture
def remote(tmp_path: Path) -> str:
    (tmp_path / "remote").mkdir()
    (tmp_path / "remote/a").write_bytes(DATA)
    return str(tmp_path / "remote/a")


@pytest.fixture
def origin() -> Counted:
    Counted.fetched, Counted.away = 0, False
    return Counted(skip_instance_cache=True)


def cache(place: Path, origin: AbstractFileSystem, **options: Any) -> Any:
    kept: dict[str, Any] = {"store": str(place), "fs": origin, "block_size": BLOCK, "skip_instance_cache": True}
    return filesystem("terrace", **(kept | options))


def test_urls_are_read_through_the_store(place: Path, remote: str) -> None:
    options: dict[str, Any] = {"terrace": {"store": str(place), "block_size": BLOCK}}
    with fsspec.open(f"terrace::file://{remote}", **options) as file:
        file.seek(250_000)
        assert file.read(10) == DATA[250_000:250_010]
        assert (file.size, file.path) == (len(DATA), remote)
    Path(remote).with_name("b.txt").write_text("one\ntwo\n")
    with fsspec.open_files(f"terrace::file://{Path(remote).parent}/*.txt", "r", **options)[0] as text:
        assert text.readlines() == ["one\n", "two\n"]
    files = fsspec.open_files(f"terrace::file://{Path(remote).parent}/*", **options)
    assert [Path(file.path).name for file in files] == ["a", "b.txt"]
    fs, path = fsspec.url_to_fs(f"terrace::file://{remote}", **options)
    assert path == remote and fs.unstrip_protocol(path) == f"terrace::file://{remote}"
    assert fs.cached()[0][:3] == (remote, len(DATA), BLOCK)


def test_an_archive_is_opened_through_the_cache(place: Path, remote: str) -> None:
    """The path of its file lost its first slash, and was then looked for below the current directory."""
    with zipfile.ZipFile(f"{remote}.zip", "w") as archive:
        archive.writestr("inner", b"words")
    with fsspec.open(f"zip://inner::terrace::file://{remote}.zip", terrace={"store": str(place)}) as file:
        assert file.read() == b"words"
    assert filesystem("terrace", store=str(place)).ls("/cache") and filesystem("terrace", store=str(place)).isdir("/")


def test_no_byte_is_fetched_twice(place: Path, remote: str, origin: Counted) -> None:
    random = numpy.random.default_rng(2)
    for _ in range(3):
        fs = cache(place, origin)
        with fs.open(remote) as file:
            for start, length in zip(random.integers(0, len(DATA), 50), random.integers(0, 300_000, 50)):
                file.seek(int(start))
                assert file.read(int(length)) == DATA[start : start + length]
        assert fs.cat_file(remote, -5) == DATA[-5:] and fs.cat_file(remote, 3, 3) == b""
        assert fs.cat(remote) == DATA and origin.fetched == len(DATA)


def test_threads_and_processes_fetch_a_block_once(place: Path, remote: str, origin: Counted) -> None:
    fs, ends, started = cache(place, origin), [], threading.Barrier(8)

    def read() -> None:
        started.wait()
        ends.append(fs.cat_file(remote) == DATA)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [True] * 8 and origin.fetched == len(DATA)
    fs.pop_from_cache(remote)

    def fetched() -> bytes:
        Counted.fetched = 0
        assert cache(place, origin).cat_file(remote) == DATA
        return str(Counted.fetched).encode()

    counts = [forked(fetched) for _ in range(8)]
    assert sum(int(os.read(reader, 100)) for _, reader in counts) == len(DATA)
    assert all(os.waitpid(child, 0)[1] == 0 for child, _ in counts)


def forked(run: Callable[[], bytes]) -> tuple[int, int]:
    """Runs a function in a process of its own. Returns the process, and where the answer can be read."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        status = 1
        try:
            os.write(writer, run())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    return child, reader


def test_a_sequential_reader_gets_more_and_more_ahead(
    place: Path, remote: str, origin: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    cat = origin.cat_file

    def noted(path: str, start: int, end: int) -> bytes:
        asked.append((start, end))
        return cat(path, start=start, end=end)

    monkeypatch.setattr(origin, "cat_file", noted)
    with cache(place, origin, block_size=10_000).open(remote) as file:
        while piece := file.read(10_000):
            assert piece == DATA[file.tell() - len(piece) : file.tell()]
    lengths = [end - start for start, end in asked]
    assert asked[0] == (0, 10_000) and len(lengths) < 10 and sum(lengths) == len(DATA)
    assert lengths[1] < lengths[2] < lengths[3]


def test_a_changed_file_is_noticed_by_age(place: Path, remote: str, origin: Counted) -> None:
    now, later = cache(place, origin, check_after=0), cache(place, origin, check_after=1000)
    file = now.open(remote)
    assert file.read(5) == DATA[:5] and later.cat_file(remote, 0, 5) == DATA[:5]
    before = now.ukey(remote)
    Path(remote).write_bytes(b"other" * 100_000)
    assert later.cat_file(remote, 0, 5) == DATA[:5] and file.seek(0) == 0 and file.read(5) == DATA[:5]
    assert file.seek(BLOCK) == BLOCK
    with pytest.raises(terrace.ReplacedError, match="has changed at its origin while it was read; open it again"):
        file.read(5)
    assert now.cat_file(remote) == b"other" * 100_000 and now.ukey(remote) != before
    os.unlink(remote)
    with pytest.raises(FileNotFoundError):
        now.cat_file(remote)
    assert now.cached(remote)[0].why.startswith("the origin has no such file")


def test_what_one_cache_learns_another_knows_at_once(place: Path, remote: str, origin: Counted) -> None:
    one, two = cache(place, origin, check_after=1000), cache(place, origin, check_after=1000)
    assert one.cat_file(remote, 0, 5) == two.cat_file(remote, 0, 5) == DATA[:5]
    Path(remote).write_bytes(b"other" * 100_000)
    assert one.cat_file(remote, 0, 5) == two.cat_file(remote, 0, 5) == DATA[:5]
    two.invalidate_cache(remote)
    assert one.cat_file(remote, 0, 5) == two.cat_file(remote, 0, 5) == b"other"
    one.pop_from_cache(remote)
    Path(remote).write_bytes(b"again" * 100_000)
    assert two.cat_file(remote, 0, 5) == b"again" and two.cached(remote)[0].cached == BLOCK
    # What a caller does with an answer is its own matter.
    one.info(remote).clear()
    assert one.info(remote)["size"] == two.info(remote)["size"] == 500_000


def test_what_is_cached_is_there_while_the_origin_is_away(
    place: Path, remote: str, origin: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    fs = cache(place, origin, check_after=0, expiry_time=1000)
    assert fs.cat_file(remote, 0, 5) == DATA[:5] and not fs.exists(f"{remote}-none")
    Counted.away = True
    assert fs.cat_file(remote, 5, 10) == DATA[5:10] and fs.info(remote)["size"] == len(DATA)
    said = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 1 and said[0].endswith("no route to the files; what is cached is used")
    with pytest.raises(FileNotFoundError):
        fs.info(f"{remote}-none")
    with pytest.raises(terrace.FailedError, match="does not answer about .*b.*: no route to the files"):
        fs.info(f"{remote}-b")
    with pytest.raises(terrace.FailedError, match="no route"):
        fs.cat_file(remote, BLOCK, BLOCK + 5)
    with pytest.raises(terrace.FailedError, match="no route"):
        cache(place, origin, check_after=0, expiry_time=0).cat_file(remote, 0, 5)
    Counted.away = False
    assert fs.cat_file(remote) == DATA
    Counted.away = True
    fs.info(remote)
    assert sum(record.levelname == "WARNING" for record in caplog.records) > 1


def test_an_origin_that_does_not_answer_has_not_said_that_there_is_no_file(
    place: Path, remote: str, origin: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = Path(remote).parent
    for folder in ("one", "two"):
        (top / folder).mkdir()
        (top / folder / "b").write_bytes(b"b")
    fs = cache(place, origin)
    assert fs.isdir(str(top)) and fs.isfile(remote) and not fs.isfile(str(top)) and not fs.exists(f"{remote}-none")
    fs.ls(str(top))
    fs.ls(f"{top}/one")

    def fails(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route to the files")

    monkeypatch.setattr(Counted, "ls", fails)
    Counted.away = True
    asked: list[Callable[[], Any]] = [
        lambda: fs.exists(f"{top}/two/b"),
        lambda: fs.isfile(f"{top}/two/b"),
        lambda: fs.isdir(f"{top}/two/b"),
        lambda: fs.lexists(f"{top}/two/b"),
        lambda: fs.glob(f"{top}/two/b"),
        lambda: fs.glob(f"{top}/*/b"),
        lambda: fs.find(str(top)),
        lambda: fs.du(str(top)),
        lambda: list(fs.walk(str(top))),
    ]
    for ask in asked:
        with pytest.raises(terrace.FailedError, match="no route"):
            ask()
    # What is known needs no answer: a folder that was listed is there.
    assert fs.find(f"{top}/one") == fs.glob(f"{top}/one/*") == [f"{top}/one/b"] and fs.isdir(f"{top}/one")
    assert fs.exists(remote) and not fs.exists(f"{remote}-none")


def test_an_origin_that_fails_slowly_is_not_waited_for_at_each_file(
    place: Path, remote: str, origin: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `check_after=0`, each chunk of a Zarr group waited for the retries of s3fs: two minutes for a small one."""
    now, asked = [0.0], []

    class Slow(Counted):
        def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
            asked.append(path)
            now[0] += 6 if self.away else 0
            return super().info(path, **kwargs)

    monkeypatch.setattr("terrace._origin.time", SimpleNamespace(time=time.time, monotonic=lambda: now[0]))
    fs = cache(place, Slow(skip_instance_cache=True), check_after=0)
    assert fs.cat_file(remote) == DATA
    Counted.away = True
    asked.clear()
    assert [fs.cat_file(remote, 0, 5) for _ in range(10)] == [DATA[:5]] * 10 and len(asked) == 1
    now[0] += 7
    Counted.away = False
    assert fs.cat_file(remote, 0, 5) == DATA[:5] and len(asked) == 2


def test_the_blocks_not_used_for_longest_make_room(place: Path, remote: str, origin: Counted) -> None:
    fs = cache(place, origin, limit=5 * BLOCK)
    for number in range(12):
        fs.cat_file(remote, number * BLOCK, number * BLOCK + 5)
        fs.cat_file(remote, 0, 5)
    assert fs.blocks.size() <= 5 * BLOCK and fs.cached(remote)[0].cached >= 4 * BLOCK
    fetched = origin.fetched
    fs.cat_file(remote, 0, 5)
    fs.cat_file(remote, 11 * BLOCK, 11 * BLOCK + 5)
    assert origin.fetched == fetched
    fs.cat_file(remote, BLOCK, BLOCK + 5)
    assert origin.fetched == fetched + BLOCK
    fs.clear_cache()
    assert fs.blocks.size() == 0 and fs.cached() == []


def test_the_limit_is_that_of_eight_processes_together(place: Path, remote: str, origin: Counted) -> None:
    """Each process counted only what it had written itself. One of these is killed while it writes a block."""
    limit = 60_000

    def read(number: int) -> bytes:
        fs, random = cache(place, origin, block_size=1000, limit=limit), numpy.random.default_rng(number)
        if number == 0:
            fs.store.put = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
        for start in random.integers(0, len(DATA) - 100, 100):
            assert fs.cat_file(remote, int(start), int(start) + 100) == DATA[start : start + 100]
        return b"done"

    fs = cache(place, origin, block_size=1000, limit=limit)
    fs.info(remote)
    children, most = [forked(lambda number=number: read(number)) for number in range(8)], 0
    while not all(select.select([reader], [], [], 0)[0] for _, reader in children):
        most = max(most, fs.blocks.size())
    assert [os.read(reader, 10) for _, reader in children] == [b""] + 7 * [b"done"]
    assert [os.waitpid(child, 0)[1] for child, _ in children] == [signal.SIGKILL] + 7 * [0]
    assert limit * 3 // 4 < most <= limit and fs.blocks.size() <= limit
    # Answers about a file stay with its blocks, and an object beyond the limit is not kept.
    assert fs.cached(remote)[0].cached > limit // 2
    large = cache(place, origin, limit=limit)
    assert large.cat_file(remote, 0, 5) == DATA[:5] and large.blocks.size() <= limit


def test_bytes_are_counted_again_after_a_power_cut(place: Path, remote: str, origin: Counted) -> None:
    before = cache(place, origin, limit=5 * BLOCK)
    before.cat_file(remote, 0, 4 * BLOCK)
    # The last counts did not reach the disk, and the machine has booted.
    before.blocks._uses.counted = 0
    before.blocks._uses.words[BOOT] += 1
    after = cache(place, origin, limit=5 * BLOCK)
    after.cat_file(remote, 5 * BLOCK, 9 * BLOCK)
    assert 3 * BLOCK < after.blocks.size() <= 5 * BLOCK


def test_refresh_asks_the_origin_at_once(place: Path, remote: str, origin: Counted) -> None:
    """The keyword was ignored, and so was the name of an option that there is not."""
    fs, folder = cache(place, origin, check_after=1000), str(Path(remote).parent)
    assert fs.ls(folder, detail=False) == [remote] and fs.info(remote)["size"] == len(DATA)
    Path(folder, "b").write_bytes(b"new")
    Path(remote).write_bytes(b"short")
    assert fs.ls(folder, detail=False) == [remote] and fs.info(remote)["size"] == len(DATA)
    assert sorted(fs.ls(folder, detail=False, refresh=True)) == [remote, f"{folder}/b"]
    assert len(fs.ls(folder)) == 2
    assert fs.info(remote, refresh=True)["size"] == 5 and fs.cat_file(remote) == b"short"
    for wrong in ["check_files", "cache_storage", "anon"]:
        with pytest.raises(TypeError, match=f"terrace:: has no option '{wrong}'"):
            cache(place, origin, **{wrong: True})


def test_names_need_not_be_utf_8(place: Path, remote: str, origin: Counted) -> None:
    name = os.fsdecode(os.fsencode(remote) + b"\xff")
    Path(name).write_bytes(b"odd")
    fs = cache(place, origin)
    assert name in fs.ls(str(Path(remote).parent), detail=False)
    assert fs.cat_file(name) == fs.open(name).read() == b"odd" and [one.path for one in fs.cached(name)] == [name]


@pytest.mark.parametrize("name", ["check_after", "expiry_time", "limit"])
@pytest.mark.parametrize("value", ["8MB", -1, float("nan")])
def test_options_that_are_no_numbers_are_refused_at_once(place: Path, origin: Counted, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name}: .* is no number of"):
        cache(place, origin, **{name: value})


def test_unused_blocks_expire(place: Path, remote: str, origin: Counted) -> None:
    fs = cache(place, origin, expiry_time=50)
    fs.cat_file(remote)
    kept = [int(found.attributes["terrace.expires"]) - found.mtime for found in fs.store.ls("cache")]
    assert len(kept) > 12 and all(49e9 < one < 51e9 for one in kept)
    forever = cache(place, origin, expiry_time=None, folder="forever")
    forever.cat_file(remote)
    assert not any("terrace.expires" in found.attributes for found in forever.store.ls("forever"))


def test_writes_go_to_the_origin(place: Path, remote: str, origin: Counted) -> None:
    fs = cache(place, origin, check_after=1000)
    assert fs.cat(remote) == DATA and fs.ls(str(Path(remote).parent), detail=False) == [remote]
    with fs.open(remote, "wb") as file:
        file.write(b"new")
    assert fs.cat(remote) == b"new" == Path(remote).read_bytes()
    fs.makedirs(f"{remote}-d/e")
    fs.pipe_file(f"{remote}-d/e/f", b"made")
    fs.cp_file(f"{remote}-d/e/f", f"{remote}-d/g")
    assert fs.find(f"{remote}-d") == [f"{remote}-d/e/f", f"{remote}-d/g"] and fs.cat(f"{remote}-d/g") == b"made"
    fs.rm(f"{remote}-d", recursive=True)
    assert not fs.exists(f"{remote}-d/g") and not os.path.exists(f"{remote}-d")


def test_caches_are_pickled_with_open_files(place: Path, remote: str) -> None:
    options = {"store": str(place), "target_protocol": "file", "block_size": BLOCK}
    fs = filesystem("terrace", **options)
    with fs.open(remote) as file:
        file.read(7)
        with pickle.loads(pickle.dumps(file)) as again:
            assert again.read() == DATA[7:] and again.fs == fs
    assert filesystem("terrace", **options) is fs


def test_two_places_with_the_same_paths_are_apart(place: Path) -> None:
    for host in ["one", "two"]:
        fs = cache(place, MemoryFileSystem(skip_instance_cache=True, host=host))
        MemoryFileSystem.store.clear()
        fs.fs.pipe_file("/a", host.encode())
        assert fs.cat("/a") == host.encode()
        secret = cache(place, MemoryFileSystem(skip_instance_cache=True, host=host, secret="other"))
        assert secret.origin.place == fs.origin.place and secret.cached("/a")[0].cached == 3


def test_a_store_with_a_cache_is_destroyed_whole(place: Path, remote: str, origin: Counted) -> None:
    fs = cache(place, origin)
    assert fs.cat_file(remote) == fs.cat_file(remote)
    fs.store.close()
    assert (place / "cache.lock").exists() and len(list(place.glob("cache-uses-*"))) == 1
    program = Path(__file__).parents[4] / "target/debug/terrace"
    subprocess.run([program, "--store", place, "destroy", "--force", "--quiet"], check=True)
    assert not place.exists()


def test_real_files_are_the_same_through_the_cache(place: Path, data: Path) -> None:
    options: dict[str, Any] = {"terrace": {"store": str(place)}}
    for path in sorted((data / "nc").glob("*.nc")):
        for _ in range(2):
            with (
                fsspec.open(f"terrace::file://{path}", **options) as opened,
                xarray.open_dataset(opened, engine="h5netcdf", decode_cf=False) as read,
                xarray.open_dataset(path, engine="h5netcdf", decode_cf=False) as real,
            ):
                xarray.testing.assert_identical(read, real)
