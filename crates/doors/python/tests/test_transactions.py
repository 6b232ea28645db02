"""Copies, transactions and appends, beside what fsspec's own file systems do.

`cp a a` emptied a file, `ab` in a transaction dropped the old bytes, `xb` replaced a file, and `pipe_file` did not wait
for the end: fsspec's own tests do none of this.
"""

import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fsspec import AbstractFileSystem, filesystem

from conftest import created

BIG = bytes(range(256)) * 20_000
LINES = int(os.environ.get("TERRACE_LINES", "50"))
"""The number of lines that each of four processes appends."""


@pytest.fixture(params=["terrace", "file", "memory"])
def any_files(request: pytest.FixtureRequest, place: Path, tmp_path: Path) -> tuple[AbstractFileSystem, str]:
    """Returns each of the file systems with a folder."""
    if request.param == "terrace":
        return filesystem("terrace", store=str(place)), "folder/"
    if request.param == "file":
        (tmp_path / "folder").mkdir()
        return filesystem("file"), f"{tmp_path}/folder/"
    return filesystem("memory", skip_instance_cache=True), f"/{tmp_path.name}/"


def mine(files: AbstractFileSystem) -> bool:
    return files.protocol == "terrace"


def test_a_copy_onto_itself_changes_nothing(any_files: tuple[AbstractFileSystem, str]) -> None:
    files, folder = any_files
    files.pipe(folder + "a", BIG)
    # Plain files say that both are the same.
    with contextlib.suppress(OSError):
        files.cp(folder + "a", folder + "a")
    files.mv(folder + "a", folder + "a")
    if mine(files):
        files.cp(f"terrace://{folder}a", f"/{folder}a")
        files.cp_file(folder + "a", folder + "a")
    assert files.cat(folder + "a") == BIG
    files.pipe(folder + "b", b"before")
    files.cp(folder + "a", folder + "b")
    assert files.cat(folder + "b") == BIG
    with pytest.raises(FileNotFoundError):
        files.cp(folder + "none", folder + "none")


def test_a_failed_copy_leaves_the_old_file(files: AbstractFileSystem) -> None:
    files.pipe({"a": BIG, "b": b"before"})
    replica = files.store.locate("a")["extents"][-1]["replicas"]
    for one in replica:
        if one["state"] == "present":
            with open(one["file"], "r+b") as file:
                file.seek(one["position"])
                file.write(bytes(one["stored"]))
    files.store.wait(files.store.put("c", b""), "replicated")
    with contextlib.suppress(OSError):
        files.cp("a", "b")
        assert files.cat("b") == BIG
        return
    assert files.cat("b") == b"before"


@pytest.mark.parametrize("commits", [True, False])
def test_transactions_append_create_and_change(any_files: tuple[AbstractFileSystem, str], commits: bool) -> None:
    files, folder = any_files
    # Plain files fail at the end of a transaction that appends or creates.
    plain = "file" in files.protocol
    files.pipe({folder + name: b"old " for name in ["appended", "replaced", "there", "changed", "read"]})
    done = contextlib.nullcontext() if commits else pytest.raises(ZeroDivisionError)
    with done, files.transaction:
        if not plain:
            with files.open(folder + "appended", "ab") as file:
                file.write(b"new")
        with files.open(folder + "replaced", "wb") as file:
            file.write(b"new")
        files.pipe_file(folder + "piped", b"new")
        with pytest.raises(FileExistsError):
            files.open(folder + "there", "xb")
        if not plain:
            with files.open(folder + "created", "xb") as file:
                file.write(b"new")
        if mine(files):
            with files.open(folder + "changed", "r+b") as file:
                file.write(b"n")
            with files.open(folder + "read", "a+b") as file:
                file.write(b"new")
                file.seek(0)
                assert file.read() == b"old new"
            files.cp_file(folder + "there", folder + "copied")
            # Nobody sees anything yet, and nothing else is listed.
            names = [name.removeprefix(folder) for name in files.ls(folder, detail=False)]
            assert names == ["appended", "changed", "read", "replaced", "there"]
            assert all(files.cat(folder + name) == b"old " for name in names)
            assert [one.key for one in files.store.ls()] == [folder + name for name in names]
        if not commits:
            raise ZeroDivisionError
    found = {name.rpartition("/")[2]: files.cat(name) for name in files.ls(folder, detail=False)}
    assert found["there"] == b"old "
    if commits:
        assert plain or (found["appended"], found["created"]) == (b"old new", b"new")
        assert found["replaced"] == found["piped"] == b"new"
    elif mine(files):
        # The others append at once, transaction or not.
        assert found == dict.fromkeys(["appended", "changed", "read", "replaced", "there"], b"old ")
    if commits and mine(files):
        assert (found["changed"], found["read"], found["copied"]) == (b"nld ", b"old new", b"old ")


def test_appends_in_a_transaction_keep_appends_of_others(files: AbstractFileSystem) -> None:
    files.pipe("log", b"first\n")
    with files.transaction:
        with files.open("log", "ab") as file:
            file.write(b"third\n")
        with files.open("new/log", "ab") as file:
            file.write(b"only\n")
        files.store.append("log", b"second\n")
        assert not files.exists("new")
    assert files.cat("log") == b"first\nsecond\nthird\n" and files.cat("new/log") == b"only\n"


def test_an_exclusive_create_does_not_replace_a_file_created_meanwhile(files: AbstractFileSystem) -> None:
    with pytest.raises(FileExistsError), files.transaction:
        with files.open("a", "xb") as file:
            file.write(b"mine")
        files.store.put("a", b"another's")
    assert files.cat("a") == b"another's" and not files._intrans
    with files.transaction:
        files.put_file(__file__, "put")
        # It is not closed before the end.
        files.open("open", "wb").write(b"bytes")
        assert not files.exists("put")
    assert files.cat("put") == Path(__file__).read_bytes() and files.cat("open") == b"bytes"


def test_a_killed_transaction_leaves_nothing(place: Path) -> None:
    """A killed transaction left files `X.uncommitted-...` beside their destinations, which were listed forever."""
    program = f"""
import fsspec, sys, time
files = fsspec.filesystem("terrace", store={str(place)!r})
files.start_transaction()
with files.open("d/a", "wb") as file:
    file.write(bytes(3 << 20))
files.pipe_file("b", b"b")
print("written", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"written\n"
        files = filesystem("terrace", store=str(place), skip_instance_cache=True)
        assert files.find("") == []
        child.kill()
    again = filesystem("terrace", store=str(place), skip_instance_cache=True)
    assert again.find("") == [] and list(again.store.ls(".terrace/unlinked")) == []


def test_an_interrupted_get_leaves_no_partial_file(tmp_path: Path) -> None:
    """The bytes received before the interrupt stayed under the final name, and looked like the whole file."""
    files = filesystem("terrace", store=str(created(tmp_path)))
    files.pipe("a", BIG * 4)
    target = tmp_path / "target"

    class Stop(Exception):
        pass

    class Stopper:
        def set_size(self, size: int) -> None:
            pass

        def absolute_update(self, value: int) -> None:
            raise Stop

    with pytest.raises(Stop):
        files.get_file("a", str(target), callback=Stopper())
    assert list(tmp_path.glob("*target*")) == [] and list(tmp_path.glob(".terrace*")) == []
    target.write_bytes(b"before")
    target.chmod(0o640)
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(Stop):
        files.get_file("a", str(target), callback=Stopper())
    assert target.read_bytes() == b"before"
    files.get_file("a", str(tmp_path / "link"))
    assert target.read_bytes() == BIG * 4 and target.stat().st_mode & 0o777 == 0o640
    with pytest.raises(FileNotFoundError):
        files.get_file("none", str(target))
    assert target.read_bytes() == BIG * 4 and (tmp_path / "link").is_symlink()
    files.get_file("a", "/dev/null")
    assert Path("/dev/null").is_char_device()


def append_lines(place: str, who: int) -> None:
    files = filesystem("terrace", store=place, skip_instance_cache=True)
    for line in range(LINES):
        with files.open("log", "ab") as file:
            file.write(f"{who} {line}\n".encode())


@pytest.mark.parametrize("doors", ["threads", "processes"])
def test_appends_of_four_processes_are_all_there(place: Path, doors: str) -> None:
    """Only 597 and 683 of 800 lines were left: each file looked up the length and then wrote there."""
    if doors == "threads":
        files = filesystem("terrace", store=str(place))

        def run(who: int) -> None:
            for line in range(LINES):
                with files.open("log", "ab") as file:
                    file.write(f"{who} {line}\n".encode())

        workers = [threading.Thread(target=run, args=(who,)) for who in range(4)]
    else:
        context = multiprocessing.get_context("spawn")
        workers = [context.Process(target=append_lines, args=(str(place), who)) for who in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = filesystem("terrace", store=str(place)).cat("log").decode().splitlines()
    assert len(found) == 4 * LINES
    for who in range(4):
        assert [line for line in found if line.startswith(f"{who} ")] == [f"{who} {line}" for line in range(LINES)]


def test_append_returns_the_position(files: AbstractFileSystem) -> None:
    files.pipe("log", b"12345")
    with files.open("log", "ab") as file:
        assert file.tell() == 5
        file.write(b"678")
        assert file.tell() == 8
        file.flush()
        assert files.store.get("log") == b"12345678", "what is flushed is seen by others"
        files.store.append("log", b"9")
        file.write(b"0")
        file.flush()
        assert file.tell() == 10
    with files.open("log", "a+b") as file:
        file.seek(0)
        file.write(b"!")
        file.seek(0)
        assert file.read() == b"1234567890!"


@pytest.mark.parametrize("mode", ["rw", "rwb", "wa", "b", "", "rr", "r++", "rbt", "xw", "U", "rz"])
def test_invalid_modes_are_refused(files: AbstractFileSystem, mode: str) -> None:
    """`"rw"` opened a file for reading, so the error came only with the first write."""
    files.pipe("a", b"a")
    with pytest.raises(ValueError, match="mode"):
        files.open("a", mode) if "b" in mode or mode == "" else files._open("a", mode)
    assert files.cat("a") == b"a"
