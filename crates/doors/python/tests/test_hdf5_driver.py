"""Programs that use HDF5 see a store's files by Terrace's driver: h5py (HDF5 2.0), netCDF4 (2.2), PyTables (1.14)."""

import hashlib
import io
import os
import signal
from pathlib import Path

import h5py
import numpy as np
import pytest

import terrace
from hdf5_programs import PRELOAD, Programs

# A file with all that h5py has: contiguous, chunked, compressed and resized data, attributes, references, texts, links.
WRITE_ALL = """
def write_all(path, mode="w"):
    with h5py.File(path, mode) as f:
        f["plain"] = np.arange(300_000.0)
        f.create_dataset("packed", data=np.arange(1_000_000).reshape(1000, 1000), chunks=(100, 100), compression="gzip")
        grown = f.create_dataset("grown", (0, 8), "f8", maxshape=(None, 8), chunks=(64, 8))
        for number in range(1, 20):
            grown.resize(number * 10, axis=0)
            grown[-10:] = number
        for number in range(300):
            f.create_group(f"groups/{number}/below").attrs["number"] = number
        f["texts"] = ["one", "two"]
        f.attrs["title"], f.attrs["numbers"] = "all", np.arange(1000)
        f["link"] = h5py.SoftLink("/plain")
        f.create_dataset("refers", data=f["packed"].ref, dtype=h5py.ref_dtype)
"""


def check_all(f: h5py.File) -> None:
    assert f["plain"][299_999] == 299_999 and f["link"][5] == 5
    assert (f["packed"][:] == np.arange(1_000_000).reshape(1000, 1000)).all()
    assert f["grown"].shape == (190, 8) and f["grown"][185, 7] == 19
    assert all(f[f"groups/{number}/below"].attrs["number"] == number for number in range(300))
    assert f["texts"].asstr()[1] == "two" and f.attrs["title"] == "all" and f[f["refers"][()]] == f["packed"]


@pytest.fixture
def programs(place: Path) -> Programs:
    return Programs(place)


def stored(programs: Programs, key: str) -> bytes:
    """The bytes of a file, as the store has them."""
    with terrace.Store(programs.place) as store:
        return store.get(key)


def opened(programs: Programs, key: str) -> h5py.File:
    """The file, read without the driver."""
    return h5py.File(io.BytesIO(stored(programs, key)))


def test_a_file_has_the_bytes_that_it_has_without_the_driver(programs: Programs, tmp_path: Path) -> None:
    programs.run(WRITE_ALL + "write_all('/terrace/a.h5'); write_all(sys.argv[1])", tmp_path / "outside.h5")
    programs.run(WRITE_ALL + "write_all(sys.argv[1])", tmp_path / "plain.h5", HDF5_DRIVER="")
    check_all(opened(programs, "a.h5"))
    plain = (tmp_path / "plain.h5").read_bytes()
    assert stored(programs, "a.h5") == plain == (tmp_path / "outside.h5").read_bytes()


def test_files_are_read_changed_and_appended_to(programs: Programs) -> None:
    with terrace.Store(programs.place) as store:
        kept = io.BytesIO()
        with h5py.File(kept, "w") as f:
            f["x"] = np.arange(1000)
        store.put("runs/x.h5", kept.getvalue())
    script = """
path = "/terrace/runs/x.h5"
with h5py.File(path, "r+") as f:
    f["x"][10:20] = -1
    f["y"] = np.ones(100_000)
with h5py.File(path, "a") as f:
    f["z"] = "more"
    del f["y"]
with h5py.File("/terrace/new/and/deep/n.h5", "a") as f:
    f["n"] = 1
os.chdir("/")
with h5py.File("terrace/runs/../runs//x.h5") as f:
    print(sorted(f), f["x"][8:12], f["z"][()], f.filename)
"""
    assert programs.run(script) == "['x', 'z'] [ 8  9 -1 -1] b'more' terrace/runs/../runs//x.h5\n"
    assert opened(programs, "runs/x.h5")["x"][11] == -1
    assert opened(programs, "new/and/deep/n.h5")["n"][()] == 1


def test_a_file_that_is_written_again_or_shrinks_keeps_nothing_behind_its_end(programs: Programs) -> None:
    script = """
with h5py.File("/terrace/a.h5", "w") as f:
    f["x"] = np.arange(1_000_000)
with h5py.File("/terrace/b.h5", "w") as f:
    f["x"] = np.arange(1_000_000)
    del f["x"]
with h5py.File("/terrace/a.h5", "w") as f:
    f["x"] = 1
"""
    programs.run(script)
    assert len(stored(programs, "a.h5")) < 10_000 and len(stored(programs, "b.h5")) < 10_000
    assert opened(programs, "a.h5")["x"][()] == 1


def test_a_user_block_is_kept(programs: Programs) -> None:
    script = """
with h5py.File("/terrace/u.h5", "w", userblock_size=1024) as f:
    f["x"] = np.arange(100)
with h5py.File("/terrace/u.h5") as f:
    print(f.userblock_size, f["x"][99])
"""
    assert programs.run(script) == "1024 99\n"
    assert stored(programs, "u.h5")[1024:1028] == b"\x89HDF"


def test_a_path_outside_the_prefix_is_an_ordinary_file(programs: Programs, tmp_path: Path) -> None:
    script = """
path, link = sys.argv[1:]
with h5py.File(path, "w", libver="latest") as f:
    f.create_dataset("x", (0,), maxshape=(None,), dtype="i8")
    f.swmr_mode = True
    f["x"].resize(100, axis=0)
    f.flush()
    with h5py.File(path, swmr=True) as again:
        print(len(again["x"]), os.fstat(again.id.get_vfd_handle()).st_ino == os.stat(path).st_ino)
os.symlink(path, link)
print(h5py.File(link)["x"].shape, h5py.is_hdf5(link))
try:
    h5py.File(path + ".none")
except FileNotFoundError as error:
    print("errno = 2" in str(error) and path in str(error))
os.chmod(path, 0o644)
"""
    assert programs.run(script, tmp_path / "o.h5", tmp_path / "l.h5") == "100 True\n(100,) True\nTrue\n"
    with terrace.Store(programs.place) as store:
        assert not list(store.ls())


def test_errors_name_path_and_cause(programs: Programs) -> None:
    missing = programs.refused("h5py.File('/terrace/none/a.h5')")
    assert missing.startswith("FileNotFoundError") and "'/terrace/none/a.h5'" in missing and "no such file" in missing
    with terrace.Store(programs.place) as store:
        store.put("folder/words", b"no HDF5 at all")
    assert "file signature not found" in programs.refused("h5py.File('/terrace/folder/words')")
    assert "is a directory" in programs.refused("h5py.File('/terrace/folder', 'r+')")
    exists = programs.refused("h5py.File('/terrace/folder/words', 'x')")
    assert exists.startswith("FileExistsError") and "'/terrace/folder/words'" in exists
    nowhere = programs.refused("h5py.File('/terrace/a.h5', 'w')", TERRACE_STORE="/nowhere")
    assert "/nowhere" in nowhere and "terrace init" in nowhere
    following = programs.refused("h5py.File('/terrace/a.h5', 'w').close(); h5py.File('/terrace/a.h5', swmr=True)")
    assert "SWMR" in following
    handle = programs.refused("h5py.File('/terrace/a.h5', 'w').id.get_vfd_handle()")
    assert "a file in a store has no descriptor" in handle


def test_settings_that_cannot_be_used_are_said_once(programs: Programs, tmp_path: Path) -> None:
    script = "h5py.File(sys.argv[1], 'w').close(); h5py.File(sys.argv[1]).close()"
    for prefix, words in ("", "TERRACE_PREFIX is not set"), ("here/and/there", "must be absolute paths"):
        _, complained = programs.ended(programs.begin(script, tmp_path / "o.h5", TERRACE_PREFIX=prefix))
        assert complained.count("terrace: ") == 1 and words in complained


def test_a_damaged_file_is_an_error_that_says_what_is_lost(programs: Programs, tmp_path: Path) -> None:
    programs.run("h5py.File('/terrace/d.h5', 'w')['x'] = np.random.default_rng(1).integers(0, 256, 4_000_000, 'u1')")
    with terrace.Store(programs.place) as store:
        store.put("half.h5", store.read("d.h5", 0, 2000))
    assert "truncated file" in programs.refused("h5py.File('/terrace/half.h5')")
    files = [path for tier in ("fast", "slow") for path in (tmp_path / tier).glob("segments/*")]
    for path in files:
        with path.open("r+b") as file:
            quarter = path.stat().st_size // 4
            file.seek(quarter)
            file.write(bytes(2 * quarter))
    assert sum(path.stat().st_size for path in files) > 8_000_000
    error = programs.refused("f = h5py.File('/terrace/d.h5'); f['x'][:]")
    assert error.startswith("OSError") and "'/terrace/d.h5'" in error and "errno = 5" in error


def test_what_was_closed_or_flushed_survives_a_kill(programs: Programs) -> None:
    script = """
kept = h5py.File("/terrace/kept.h5", "w")
kept.create_dataset("x", (0,), maxshape=(None,), dtype="i8")
for number in range(10_000):
    with h5py.File(f"/terrace/runs/{number}.h5", "w") as f:
        f.create_dataset("x", data=np.full((200, 1000), number), chunks=(50, 1000), compression="gzip")
    kept["x"].resize(number + 1, axis=0)
    kept["x"][number] = number
    kept.flush()
    print(number, flush=True)
"""
    for kill in range(int(os.environ.get("TERRACE_KILLS", "3"))):
        program = programs.begin(script)
        assert program.stdout
        last = [program.stdout.readline() for _ in range(1 + 5 * kill % 23)][-1]
        program.send_signal(signal.SIGKILL)
        rest = program.stdout.read()
        program.communicate()
        done = int((rest.splitlines() or [last])[-1])
        for number in range(done + 1):
            with opened(programs, f"runs/{number}.h5") as f:
                assert (f["x"][:] == number).all()
        with opened(programs, "kept.h5") as f:
            assert list(f["x"][: done + 1]) == list(range(done + 1))


def test_a_file_left_open_is_complete_when_the_program_ends(programs: Programs) -> None:
    programs.run(WRITE_ALL + "f = h5py.File('/terrace/a.h5', 'w'); f['x'] = np.arange(100_000); keep = f['x']")
    assert opened(programs, "a.h5")["x"][99_999] == 99_999


def test_processes_read_together_and_a_writer_alone(programs: Programs) -> None:
    programs.run(WRITE_ALL + "write_all('/terrace/a.h5')")
    reader = """
f = h5py.File("/terrace/a.h5")
print("open", flush=True)
sys.stdin.readline()
print(f["packed"][:].sum())
"""
    readers = [programs.begin(reader), programs.begin(reader)]
    for process in readers:
        assert process.stdout and process.stdout.readline() == "open\n"
    locked = programs.refused("h5py.File('/terrace/a.h5', 'r+')")
    assert locked.startswith("BlockingIOError") and "has it locked" in locked
    assert programs.run("print(h5py.File('/terrace/a.h5', 'r+', locking=False).mode)") == "r+\n"
    assert [programs.ended(process)[0] for process in readers] == [f"{sum(range(1_000_000))}\n"] * 2
    programs.run("h5py.File('/terrace/a.h5', 'r+')['more'] = 1")


def test_a_forked_process_reads_on_and_opens_its_own_files(programs: Programs) -> None:
    script = """
with h5py.File("/terrace/a.h5", "w") as f:
    f["x"] = np.arange(200_000)
read, written = h5py.File("/terrace/a.h5"), h5py.File("/terrace/w.h5", "w")
written["x"] = np.arange(1000)
child = os.fork()
if child == 0:
    code = 1
    try:
        assert read["x"][150_000] == 150_000
        with h5py.File("/terrace/child.h5", "w") as f:
            f["x"] = read["x"][:]
        try:
            written["y"] = np.arange(100_000)
            written.flush()
        except (OSError, RuntimeError) as error:
            code = 0 if "forked" in str(error) else 2
    finally:
        os._exit(code)
print(os.waitpid(child, 0)[1], read["x"][3])
written["z"] = 1
written.close()
"""
    assert programs.run(script) == "0 3\n"
    assert opened(programs, "child.h5")["x"][199_999] == 199_999
    assert sorted(opened(programs, "w.h5")) == ["x", "z"]


def test_workers_of_a_pool_write_files(programs: Programs) -> None:
    script = """
import multiprocessing
def work(number):
    with h5py.File(f"/terrace/pool/{number}.h5", "w") as f:
        f["x"] = np.full(10_000, number)
    return number
h5py.File("/terrace/first.h5", "w").close()
with multiprocessing.get_context("fork").Pool(3) as pool:
    print(sum(pool.map(work, range(12))))
"""
    assert programs.run(script) == "66\n"
    assert all((opened(programs, f"pool/{number}.h5")["x"][:] == number).all() for number in range(12))


def test_three_versions_of_hdf5_share_a_process(programs: Programs, tmp_path: Path) -> None:
    script = """
import netCDF4, pandas, tables
print(h5py.version.hdf5_version, netCDF4.__hdf5libversion__, tables.hdf5_version)
prefix = os.environ["TERRACE_PREFIX"]
with netCDF4.Dataset(f"{prefix}/n.nc", "w") as n:
    n.createDimension("time", None)
    n.createVariable("t", "f8", ("time",), zlib=True)[:] = np.arange(5000)
with tables.open_file(f"{prefix}/t.h5", "w") as t:
    t.create_earray(t.root, "x", obj=np.arange(5000))
    t.root.x.append(np.arange(5000))
    t.flush()
    print(t.root.x[9999])
pandas.DataFrame({"a": np.arange(100)}).to_hdf(f"{prefix}/p.h5", key="k", format="table")
n, t, p = [h5py.File(f"{prefix}/{name}") for name in ("n.nc", "t.h5", "p.h5")]
print(n["t"][4999], t["x"][9998], len(p["k/table"]))
"""
    # PyTables looks whether the folder is there.
    prefix = tmp_path / "terrace"
    prefix.mkdir()
    versions, *rest = programs.run(script, TERRACE_PREFIX=str(prefix)).splitlines()
    print(versions)
    assert len({version.split(".")[0] for version in versions.split()}) == 2 and " 1.14" in versions
    assert rest == ["4999", "4999.0 4998 100"]
    assert not list(prefix.iterdir())


def test_xarray_uses_files_by_h5netcdf(programs: Programs) -> None:
    script = """
import xarray
data = xarray.Dataset({"t": (("time", "x"), np.arange(12_000.0).reshape(3000, 4))}, attrs={"title": "waves"})
data.to_netcdf("/terrace/x.nc", engine="h5netcdf", encoding={"t": {"zlib": True, "chunksizes": (100, 4)}})
with xarray.open_dataset("/terrace/x.nc", engine="h5netcdf") as read:
    print(read.attrs["title"], float(read.t.sum()))
"""
    assert programs.run(script) == f"waves {float(sum(range(12_000)))}\n"


def test_the_preload_library_serves_in_place_of_the_driver(programs: Programs) -> None:
    script = """
os.makedirs("/terrace/runs")
with h5py.File("/terrace/runs/a.h5", "w") as f:
    f["x"] = np.arange(1000)
print(os.listdir("/terrace/runs"), h5py.is_hdf5("/terrace/runs/a.h5"), h5py.File("/terrace/runs/a.h5")["x"][999])
"""
    assert programs.run(script, LD_PRELOAD=str(PRELOAD)) == "['a.h5'] True 999\n"
    assert opened(programs, "runs/a.h5")["x"][5] == 5


def test_a_second_copy_of_the_engine_in_the_process_is_refused(programs: Programs) -> None:
    script = """
import terrace
store = terrace.Store(os.environ["TERRACE_STORE"])
h5py.File("/terrace/a.h5", "w")
"""
    assert "another copy of this library" in programs.refused(script)


def test_large_files_are_the_same_when_they_are_read(programs: Programs) -> None:
    script = """
data = np.random.default_rng(7).integers(0, 256, (48, 1 << 20), dtype="u1")
with h5py.File("/terrace/large.h5", "w") as f:
    chunked = f.create_dataset("chunked", data.shape, "u1", chunks=(1, 1 << 20))
    plain = f.create_dataset("plain", data.shape, "u1")
    for number in np.random.default_rng(8).permutation(48):
        chunked[number], plain[number] = data[number], data[number]
    plain[:, 1000:1100] = 0
with h5py.File("/terrace/large.h5") as f:
    assert (f["chunked"][:] == data).all() and (f["plain"][:, 1100:] == data[:, 1100:]).all()
    assert not f["plain"][:, 1000:1100].any()
import hashlib
print(hashlib.sha256(data[5].tobytes()).hexdigest())
"""
    digest = programs.run(script).strip()
    with opened(programs, "large.h5") as f:
        assert hashlib.sha256(f["chunked"][5].tobytes()).hexdigest() == digest


def test_the_mask_holds_for_new_files(programs: Programs) -> None:
    programs.run("os.umask(0o027); h5py.File('/terrace/runs/a.h5', 'w').close()")
    with terrace.Store(programs.place) as store:
        assert (store.stat("runs/a.h5").mode & 0o777, store.stat("runs").mode & 0o777) == (0o640, 0o750)
