"""Behaviour of the file system that fsspec's own tests do not cover."""

import io
import os
import pickle
from pathlib import Path

import fsspec
import numpy
import pytest
from fsspec import AbstractFileSystem
from fsspec.callbacks import Callback

import terrace


def test_urls_find_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERRACE_STORE", str(place))
    with fsspec.open("terrace://data/a.txt", "w") as file:
        file.write("words\n")
    with fsspec.open("terrace://data/a.txt") as file:
        assert file.read() == b"words\n"
    with terrace.Store() as store:
        assert store.get("data/a.txt") == b"words\n"


def test_files_are_written_anywhere(files: AbstractFileSystem) -> None:
    with files.open("deep/down/a", "w+b") as file:
        file.write(b"0123456789")
        file.seek(3)
        file.write(b"x" * 4)
        file.seek(-5, io.SEEK_END)
        assert file.read(3) == b"xx7" and file.tell() == 8
        file.seek(2_000_000)
        file.write(b"end")
        file.truncate(2_000_001)
    assert files.size("deep/down/a") == 2_000_001
    assert files.cat_file("deep/down/a", -2) == b"\0e" and files.cat_file("deep/down/a", 0, 8) == b"012xxxx7"
    with files.open("deep/down/a", "r+b") as file:
        file.truncate(4)
    with files.open("deep/down/a", "ab") as file:
        file.write(b"!")
    assert files.cat("deep/down/a") == b"012x!"
    with pytest.raises(FileExistsError):
        files.open("deep/down/a", "xb")
    with pytest.raises(IsADirectoryError):
        files.open("deep/down")
    with files.open("deep/down/a") as file, pytest.raises(io.UnsupportedOperation):
        file.write(b"")


def test_long_files_are_read_and_written_in_pieces(files: AbstractFileSystem) -> None:
    piece = bytes(range(251)) * 1000
    with files.open("big", "wb") as file:
        for _ in range(40):
            file.write(piece)
    with files.open("big", "rb") as file:
        assert all(file.read(len(piece)) == piece for _ in range(40)) and file.read() == b""
        file.seek(len(piece))
        assert file.read() == piece * 39


def test_a_transaction_is_visible_as_a_whole_at_its_end(files: AbstractFileSystem) -> None:
    files.pipe("kept", b"before")
    with files.transaction:
        for name in ["kept", "new"]:
            with files.open(name, "wb") as file:
                file.write(b"after")
        assert files.cat("kept") == b"before" and not files.exists("new")
    assert files.cat("kept") == files.cat("new") == b"after"
    with pytest.raises(RuntimeError), files.transaction:
        with files.open("kept", "wb") as file:
            file.write(b"never")
        raise RuntimeError
    assert files.ls("", detail=False) == ["kept", "new"] and files.cat("kept") == b"after"


def test_directories_move_whole(files: AbstractFileSystem) -> None:
    files.pipe({f"from/{name}": name.encode() for name in ["a", "b/c"]})
    files.mv("from", "to", recursive=True)
    assert not files.exists("from") and files.find("to") == ["to/a", "to/b/c"]
    files.mkdir("there")
    files.mv("to/a", "there")
    assert files.cat("there/a") == b"a"
    files.rm("to", recursive=True)
    assert files.ls("", detail=False) == ["there"]


def test_paths_that_are_no_files_are_refused(files: AbstractFileSystem) -> None:
    files.mkdir("empty")
    for refused in [files.cat_file, lambda path: files.pipe_file(path, b"")]:
        with pytest.raises(IsADirectoryError):
            refused("empty")
    files.pipe_file("a", b"first", mode="create")
    with pytest.raises(FileExistsError):
        files.pipe_file("a", b"second", mode="create")
    with pytest.raises(NotADirectoryError):
        files.info("a/b/c")
    assert not files.exists("a/b/c")
    with pytest.raises(FileNotFoundError):
        files.get_file("nothing", "nowhere")
    with pytest.raises(OSError, match="not empty"):
        files.pipe_file("full/a", b"")
        files.rmdir("full")


def test_callbacks_get_the_progress(files: AbstractFileSystem, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(bytes(3 << 20))
    for copy, source, target in [(files.put_file, tmp_path / "in", "a"), (files.get_file, "a", tmp_path / "out")]:
        callback = Callback()
        copy(str(source), str(target), callback=callback)
        assert callback.size == callback.value == 3 << 20


def test_facts(files: AbstractFileSystem) -> None:
    files.pipe("d/a", b"12345")
    info = files.info("terrace://d/a")
    assert (info["name"], info["size"], info["type"]) == ("d/a", 5, "file")
    assert files.modified("d/a").timestamp() == pytest.approx(info["mtime"])
    before = files.ukey("d/a")
    files.pipe("d/a", b"12345")
    assert files.ukey("d/a") != before
    again = pickle.loads(pickle.dumps(files))
    assert again == files and again.cat("d/a") == b"12345"


def test_requirements_apply_to_all_writes(place: Path) -> None:
    options = {"replicas": 1}
    files = fsspec.filesystem("terrace", store=str(place), options=options)
    files.pipe("piped", b"x")
    with files.open("opened", "wb") as file:
        file.write(b"x")
    assert files.store.stat("piped").replicas == files.store.stat("opened").replicas == 1


def test_opened_files_describe_themselves(files: AbstractFileSystem) -> None:
    """Files had no size, mode, path or file system, which `read_block` and `blockcache::` need."""
    files.pipe("d/a", b"one,two\nthree,four\nfive\n")
    with files.open("d/a") as file:
        assert (file.size, file.mode, file.path, file.fs) == (24, "rb", "d/a", files)
        assert file.info()["size"] == file.details["size"] == 24
        file.read(8)
        with pickle.loads(pickle.dumps(file)) as again:
            assert again.read() == b"three,four\nfive\n"
    assert file.size == 24
    with files.open("d/b", "wb") as file:
        file.write(b"12345")
        assert (file.size, file.mode, file.path) == (5, "wb", "d/b")
    with files.open("d/a", "r+b") as file:
        assert (file.mode, file.size) == ("r+b", 24)
    assert files.read_block("d/a", 3, 10, delimiter=b"\n") == b"three,four\n"
    assert files.read_block("d/a", 19, None) == b"five\n" and files.read_block("d/a", 0, 7) == b"one,two"
    assert files.head("d/a", 3) == b"one" and files.tail("d/a", 5) == b"five\n"


def test_masked_arrays_are_refused(files: AbstractFileSystem) -> None:
    """Python's buffer passed on the values, without the mask and without an error."""
    masked = numpy.ma.masked_array(numpy.arange(5.0), mask=[0, 1, 0, 0, 1])
    files.pipe("a", b"")
    for mode in ["wb", "ab", "r+b"]:
        with files.open("a", mode) as file:
            with pytest.raises(TypeError, match=r"array\.filled\(VALUE\)"):
                file.write(masked)
            with pytest.raises(TypeError, match=r"array\.filled\(VALUE\)"):
                file.writelines([masked])
    with files.transaction, pytest.raises(TypeError, match=r"array\.filled\(VALUE\)"):
        files.pipe("b", masked)
    assert files.cat("a") == b""
    with files.open("a", "wb") as file:
        file.write(masked.filled(-1))
        file.write(numpy.ma.masked_array(numpy.arange(2.0)))
    assert numpy.frombuffer(files.cat("a")).tolist() == [0, -1, 2, 3, -1, 0, 1]


def test_fsspecs_caches_work_over_it(place: Path, tmp_path: Path) -> None:
    files = fsspec.filesystem("terrace", store=str(place))
    data = bytes(range(256)) * 5000
    files.pipe({"a": data, "empty": b""})
    for protocol in ["blockcache", "filecache", "simplecache"]:
        own = {protocol: {"cache_storage": str(tmp_path / protocol)}, "terrace": {"store": str(place)}}
        for _ in range(2):
            with fsspec.open(f"{protocol}::terrace://a", block_size=100_000, **own) as file:
                file.seek(300_000)
                assert file.read(10) == data[300_000:300_010]
                assert file.seek(0) == 0 and file.read() == data
        with fsspec.open(f"{protocol}::terrace://empty", **own) as file:
            assert file.read() == b""
    for kind in ["readahead", "bytes", "all", "none", "blockcache", "mmap"]:
        with files.open("a", cache_type=kind) as file:
            file.seek(-6, 2)
            assert file.read() == data[-6:] and file.size == len(data)
    with pytest.raises(FileNotFoundError):
        files.open("none", cache_type="bytes")


def test_file_systems_live_on_in_forks(files: AbstractFileSystem) -> None:
    """A file system from before a fork failed in the child: `info`, `ls` and `open` raised errors."""
    files.pipe("d/a", b"of the parent")
    with files.open("d/kept", "wb") as file:
        file.write(b"kept back")
        if (child := os.fork()) == 0:
            status = 1
            try:
                assert files.info("d/a")["size"] == 13 and files.exists("d")
                assert "d/a" in files.ls("d", detail=False)
                with files.open("d/a") as read, files.open("d/b", "wb") as write:
                    write.write(read.read() + b" and the child")
                with files.transaction:
                    files.pipe_file("d/c", b"c")
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
    assert files.cat("d/b") == b"of the parent and the child"
    assert files.cat("d/kept") == b"kept back" and files.cat("d/c") == b"c"
