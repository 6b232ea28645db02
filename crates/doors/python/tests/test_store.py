"""`terrace.Store`."""

import ctypes
import multiprocessing
import os
import pickle
import signal
import threading
import time
from array import array as Array
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy
import pytest
from fsspec import filesystem

import terrace
from conftest import CONFIG

RECORD = [("a", "<i4"), ("b", "<f8")]
DTYPES = ["<f8", "<f4", ">f8", "<f2", "<i2", "<u8", "|b1", "i1", "<c16", "<M8[s]", "<U5", "S3", RECORD]


def test_bytes_of_any_buffer_round_trip(store: terrace.Store) -> None:
    raw = bytes(range(256)) * 5000
    for data in [raw, bytearray(raw), memoryview(raw), memoryview(numpy.frombuffer(raw, "<u8"))]:
        receipt = store.put("data/a", data)
        assert (receipt.key, receipt.bytes, receipt.want) == ("data/a", len(raw), 2)
        assert store.get("data/a") == raw
    assert store.read("data/a", 1000, 3000) == raw[1000:3000] and store.read("data/a", 1 << 30) == b""
    out = bytearray(100)
    assert store.read_into("data/a", out, len(raw) - 60) == 60 and out[:60] == raw[-60:]
    with pytest.raises(ValueError, match="cannot be written to"):
        store.read_into("data/a", bytes(3))
    with pytest.raises(BufferError, match="not contiguous"):
        store.put("data/a", memoryview(raw)[::2])


def test_ranges_are_written_in_place(store: terrace.Store) -> None:
    store.put("a", b"-" * 10)
    store.write_at("a", 4, b"xy")
    store.write_at("a", 12, b"z")
    assert store.get("a") == b"----xy----\0\0z"
    store.set_length("a", 5)
    assert store.get("a") == b"----x"


def test_puts_go_on_in_other_threads(store: terrace.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    data, go_on, put = bytes(range(256)) * 20_000, threading.Event(), terrace.Store.put
    monkeypatch.setattr(terrace.Store, "put", lambda *given, **asked: go_on.wait() and put(*given, **asked))
    puts = [store.put_async(f"a/{number}", data, ack="durable", attributes={"b": "c"}) for number in range(20)]
    assert not any(future.done() for future in puts) and "a/0" not in store
    go_on.set()
    assert all(future.result().durable and future.result().have == 2 for future in puts)
    assert store.get("a/19") == data and store.stat("a/19").attributes == {"b": "c"}
    assert store.put_async("array", numpy.arange(5)).result().bytes == 40 and store.get_array("array")[4] == 4
    with pytest.raises(terrace.BadKeyError):
        store.put_async("a//b", b"").result()
    child = multiprocessing.get_context("fork").Process(target=put_late, args=(store,))
    child.start()
    child.join()
    assert child.exitcode == 0 and store.get("child") == b"late"
    late = [store.put_async(f"late/{number}", data) for number in range(20)]
    store.close()
    assert all(future.done() and future.result().bytes == len(data) for future in late)
    with pytest.raises(ValueError, match="closed"):
        store.put_async("b", b"").result()


def put_late(store: terrace.Store) -> None:
    assert store.put_async("child", b"late").result().bytes == 4
    store.close()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays_round_trip(store: terrace.Store, dtype: str) -> None:
    bytes_ = numpy.random.default_rng(1).integers(1, 100, 24 * numpy.dtype(dtype).itemsize, "u1")
    flat = numpy.arange(24).astype(dtype) if isinstance(dtype, str) and dtype[1] != "M" else bytes_.view(dtype)
    columns = numpy.asfortranarray(flat.reshape(4, 6))
    for array in [flat, flat.reshape(2, 3, 4), columns, flat[::3], flat[:0], flat[0:1]]:
        store.put("array", array)
        again = store.get_array("array")
        assert again.dtype == array.dtype and again.shape == array.shape and again.flags.writeable
        assert again.tobytes() == array.tobytes()
    store.put("scalar", numpy.array(flat[3]))
    assert store.get_array("scalar") == flat[3]


def test_arrays_are_encoded_by_their_type(store: terrace.Store) -> None:
    smooth = numpy.cumsum(numpy.ones(200_000, "<i4"), dtype="<i4")
    store.put("smooth", smooth, min_storage=True, ack="replicated")
    encodings = {replica["encoding"] for extent in store.locate("smooth")["extents"] for replica in extent["replicas"]}
    assert any("4" in encoding and encoding.startswith(("delta", "shuffle")) for encoding in encodings), encodings
    with pytest.raises(TypeError, match="Python objects"):
        store.put("objects", numpy.array([object()]))
    store.put("plain", b"bytes")
    with pytest.raises(ValueError, match="not put as an array"):
        store.get_array("plain")


def test_a_requirement_of_a_call_overrides_one_setting_of_the_stores(place: Path) -> None:
    with terrace.Store(place, max_durability=True) as careful:
        receipt = careful.put("z", b"1", min_storage=True)
        assert (receipt.durable, receipt.asked) == (True, 1)


def test_requirements_are_keywords(place: Path) -> None:
    with terrace.Store(place, replicas=1) as store:
        assert store.put("a", b"a").want == 1
        assert store.put("a", b"a", replicas=2).want == 2
        receipt = store.put("a", b"a" * 3000, max_durability=True)
        assert receipt.durable and receipt.want == 2 and receipt.asked == 3
        assert store.put("a", b"a", require="min_storage,max_durability=2", weights=(0, 0, 1), budget="3x").bytes == 1
        for wrong, words in [({"max_speed": True}, "is no keyword; there are"), ({"replicas": "two"}, "integer")]:
            with pytest.raises(TypeError, match=words):
                store.put("a", b"a", **wrong)
        for name, value, words in [
            ("ack", "soon", "placed, replicated or durable"),
            ("budget", "3", '"3x"'),
            ("element", "f9", "f64"),
            ("max_latency", -1, "max_latency"),
        ]:
            with pytest.raises(ValueError, match=words):
                store.put("a", b"a", **{name: value})


def tiers_of(store: terrace.Store, key: str) -> set[str]:
    return {replica["tier"] for extent in store.locate(key)["extents"] for replica in extent["replicas"]}


def test_tiers_and_latency_are_keywords(tmp_path: Path) -> None:
    config = tmp_path / "terrace.toml"
    throttle = '[tier.throttle]\nlatency = "50ms"\n'
    config.write_text(CONFIG.format(tmp_path) + throttle)
    with terrace.Store.create(tmp_path / "store", config) as store:
        only: list[str | list[str]] = ["slow", ["slow"]]
        for tiers in only:
            store.put("a", b"a" * 3000, replicas=1, tiers=tiers)
            assert tiers_of(store, "a") == {"slow"}
        receipt = store.put("a", b"a" * 3000, replicas=2, tiers=("fast", "slow"), ack="replicated")
        assert receipt.have == 2 and tiers_of(store, "a") == {"fast", "slow"}
        for latency in [0.04, timedelta(milliseconds=40)]:
            store.put("a", b"a" * 3000, replicas=1, max_latency=latency)
            assert tiers_of(store, "a") == {"fast"}
        with pytest.raises(terrace.TerraceError, match="none"):
            store.put("a", b"a", tiers=["none"])
        with pytest.raises(TypeError):
            store.put("a", b"a", max_latency="soon")  # type: ignore[arg-type]


def test_pending_replicas_can_be_waited_for(store: terrace.Store) -> None:
    receipt = store.put("a", os.urandom(3 << 20))
    store.wait(receipt, "durable")
    assert receipt.durable and receipt.have == receipt.want == 2 and receipt.owed == 0 and receipt.owed_to == []
    assert "2 of 2 replicas, 0 pending, durable" in repr(receipt)
    store.sync()
    assert store.status()["owed"] == 0


def test_objects_are_listed_renamed_and_deleted(store: terrace.Store) -> None:
    for number in range(2500):
        store.put(f"many/{number:04}", b"x")
    store.put("other", b"yy")
    assert [found.key for found in store.ls("many")] == [f"many/{number:04}" for number in range(2500)]
    assert "other" in store and "many" not in store
    store.copy("other", "copied")
    assert store.get("copied") == store.get("other")
    store.delete("copied")
    store.rename("other", "renamed")
    stat = store.stat("renamed")
    assert (stat.length, stat.kind, stat.replicas, stat.attributes) == (2, "file", 2, {}) and "other" not in store
    store.delete("renamed")
    with pytest.raises(FileNotFoundError):
        store.stat("renamed")
    store.put(b"\xff/\xfe", b"not UTF-8")
    assert store.get(next(store.ls(b"\xff")).key) == b"not UTF-8"


def test_errors_of_files_name_them(store: terrace.Store, tmp_path: Path) -> None:
    store.put("a", b"x")
    absent, file = tmp_path / "absent/a", tmp_path / "file"
    file.write_bytes(b"")
    calls: list[tuple[Callable[[], Any], type[OSError], Path]] = [
        (lambda: store.put_file(absent, "b"), FileNotFoundError, absent),
        (lambda: store.put_file(tmp_path, "b"), IsADirectoryError, tmp_path),
        (lambda: store.get_file("a", absent), FileNotFoundError, absent),
        (lambda: store.get_file("a", tmp_path), IsADirectoryError, tmp_path),
        (lambda: store.get_file("a", file / "a"), NotADirectoryError, file / "a"),
        (lambda: store.import_dataset("b", absent), FileNotFoundError, absent),
        (lambda: terrace.Store.create(tmp_path / "new", config=absent), FileNotFoundError, absent),
    ]
    for call, kind, path in calls:
        with pytest.raises(kind) as found:
            call()
        assert (found.value.filename, "os error" in str(found.value)) == (str(path), False)
    assert "b" not in store and "new" not in os.listdir(tmp_path) and not list(tmp_path.glob(".terrace-*"))


def test_files_are_copied_with_progress(store: terrace.Store, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(os.urandom(5 << 20))
    told: list[tuple[int, int]] = []
    store.put_file(tmp_path / "in", "file", progress=lambda done, total: told.append((done, total)))
    store.get_file("file", tmp_path / "out", progress=lambda done, total: told.append((done, total)))
    assert (tmp_path / "out").read_bytes() == (tmp_path / "in").read_bytes()
    assert told.count((5 << 20, 5 << 20)) == 2 and len(told) > 3
    assert store.stat("file").mtime == (tmp_path / "in").stat().st_mtime_ns

    def stop(done: int, total: int) -> None:
        raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        store.put("stopped", bytes(3 << 20), progress=stop)
    assert "stopped" not in store


def test_errors_have_a_class_and_advice(store: terrace.Store, tmp_path: Path) -> None:
    with pytest.raises(terrace.NotFoundError, match="`terrace ls` lists those that exist") as found:
        store.get("nothing")
    assert isinstance(found.value, FileNotFoundError) and found.value.key == "nothing"
    with pytest.raises(terrace.BadKeyError, match="write keys as paths"):
        store.put("../a", b"")
    with pytest.raises(terrace.StoreError, match="terrace init"):
        terrace.Store(tmp_path / "no store")
    store.put("a", b"once")
    with pytest.raises(terrace.ConflictError):
        store.put("a", b"twice", create_new=True)
    with pytest.raises(terrace.TerraceError):
        store.put("a/b", b"below a file")
    (tmp_path / "wrong.toml").write_text("[[tier]]\nname = 3")
    with pytest.raises(terrace.ConfigError, match="wrong.toml"):
        terrace.Store.create(tmp_path / "wrong", tmp_path / "wrong.toml")
    store.close()
    with pytest.raises(ValueError, match="closed"):
        store.get("a")


def test_damage_is_found_and_reported(store: terrace.Store) -> None:
    store.put("a", b"precious" * 1000, replicas=1)
    replica = store.locate("a")["extents"][0]["replicas"][0]
    with open(replica["file"], "r+b") as file:
        file.seek(replica["position"])
        file.write(bytes(5000))
    with pytest.raises(terrace.UnreadableError, match="no good replica") as found:
        store.get("a")
    assert found.value.key == "a" and found.value.length == 8000


def test_explanations_print_well(store: terrace.Store) -> None:
    store.put("a", numpy.linspace(0, 1, 100_000))
    explained = store.explain("a")
    text = str(explained)
    assert "f64" in explained.summary and "2 of 2 replicas" in text and "chosen" in text
    assert [row.tier for row in explained.rows if row.chosen] == ["fast", "slow"]
    assert explained._repr_html_().count("<tr>") == text.count("\n")
    dense = store.explain("new", bytes(100_000), what_if=["tier.fast.write=1MB/s"], min_storage=True)
    assert dense.data["explanation"]["stored"] < 10_000
    with pytest.raises(ValueError, match="tier.NAME.capacity=2TiB"):
        store.explain("a", what_if=["nonsense"])


def test_other_threads_run_meanwhile(store: terrace.Store) -> None:
    data, turns, done = os.urandom(32 << 20), [0], threading.Event()

    def turn() -> None:
        while not done.is_set():
            turns[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=turn)
    thread.start()
    before = turns[0]
    store.put("a", data)
    during = turns[0] - before
    done.set()
    thread.join()
    assert during > 10 and store.get("a") == data


def test_a_store_goes_to_other_processes(store: terrace.Store) -> None:
    store.put("a", b"of the parent")
    again = pickle.loads(pickle.dumps(store))
    assert again.get("a") == b"of the parent"
    if (child := os.fork()) == 0:
        status = 1
        try:
            store.put("b", store.get("a") + b" and the child")
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert store.get("b") == b"of the parent and the child"


def test_waiting_is_interrupted_and_goes_on(tmp_path: Path) -> None:
    config = tmp_path / "terrace.toml"
    config.write_text(CONFIG.format(tmp_path) + 'throttle = { write = "1MB/s" }')
    store = terrace.Store.create(tmp_path / "store", config)
    receipt = store.put("a", numpy.random.default_rng(1).bytes(4 << 20))
    for wait in [lambda: store.wait(receipt, "replicated"), store.sync]:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            wait()
        timer.join()
        assert store.status()["owed"] > 0
    store.sync()
    assert store.status()["owed"] == 0
    store.close()


def test_results_can_be_pickled(store: terrace.Store) -> None:
    """Receipts could not be pickled, so process pools and dask could not return them."""
    receipt = store.put(b"\xff", os.urandom(3 << 20))
    again = pickle.loads(pickle.dumps(receipt))
    names = [name for name in dir(receipt) if not name.startswith("_")]
    assert all(getattr(again, name) == getattr(receipt, name) for name in names) and len(names) == 11
    store.wait(again, "durable")
    assert again.durable and again.owed == 0
    stat = store.stat(b"\xff")
    same = pickle.loads(pickle.dumps(stat))
    names = [name for name in dir(stat) if not name.startswith("_")]
    assert all(getattr(same, name) == getattr(stat, name) for name in names) and len(names) == 9
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        receipts = pool.starmap(put_by, [(store, "p/a"), (store, "p/b")])
    assert [receipt.key for receipt in receipts] == ["p/a", "p/b"]


def put_by(store: terrace.Store, key: str) -> terrace.Receipt:
    return store.put(key, key.encode())


def test_masked_arrays_are_refused(store: terrace.Store) -> None:
    """Masked arrays were stored without their mask, and without an error."""
    masked = numpy.ma.masked_array(numpy.arange(5.0), mask=[0, 1, 0, 0, 1])
    for put in [
        lambda: store.put("a", masked),
        lambda: store.write_at("a", 0, masked),
        lambda: store.append("a", masked),
        lambda: store.explain("a", masked),
    ]:
        with pytest.raises(TypeError, match=r"array\.filled\(VALUE\)"):
            put()
    assert "a" not in store
    store.put("filled", masked.filled(-1))
    assert store.get_array("filled").tolist() == [0, -1, 2, 3, -1]
    # Nothing is lost where nothing is masked.
    store.put("whole", numpy.ma.masked_array(numpy.arange(5.0)))
    assert store.get_array("whole").tolist() == [0, 1, 2, 3, 4]


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int32), ("b", ctypes.c_double))


@pytest.mark.parametrize(
    "value",
    [
        numpy.float64(2.5),
        numpy.int16(-3),
        numpy.bool_(True),
        numpy.datetime64("2026-11-23"),
        numpy.complex64(1 + 2j),
        numpy.zeros(2, RECORD)[0],
        (ctypes.c_double * 3)(1, 2, 3),
        ((ctypes.c_int32 * 2) * 3)(),
        Pair(1, 2.0),
        Array("d", [1, 2]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_scalars_and_ctypes_are_accepted_as_bytes(store: terrace.Store, value: Any) -> None:
    """NumPy scalars and ctypes arrays were refused, because their buffers have no shape or no strides."""
    raw = value.tobytes() if isinstance(value, numpy.generic) else bytes(value)
    assert store.put("a", value).bytes == len(raw) and store.get("a") == raw
    if isinstance(value, numpy.generic):
        assert store.get_array("a") == value and store.get_array("a").dtype == value.dtype
    assert store.explain("new", value).data
    store.write_at("b", 2, value)
    assert store.get("b") == b"\0\0" + raw
    assert store.append("b", value)[0] == 2 + len(raw)
    files = filesystem("terrace", store=str(store.directory), skip_instance_cache=True)
    files.pipe_file("c", value)
    with files.open("d", "wb", block_size=4) as file:
        file.write(value)
    with files.transaction:
        files.pipe_file("e", value)
    assert files.cat("c") == files.cat("d") == files.cat("e") == raw


def test_ctypes_are_read_into(store: terrace.Store) -> None:
    store.put("a", numpy.arange(3.0))
    room = (ctypes.c_double * 3)()
    assert store.read_into("a", room) == 24 and list(room) == [0, 1, 2]
    scalar = numpy.zeros(())
    assert store.read_into("a", scalar, 16) == 8 and scalar == 2


@pytest.mark.parametrize("call", ["put", "put_file", "put_durable", "get", "get_array", "get_file", "close"])
def test_long_calls_are_interrupted(tmp_path: Path, call: str) -> None:
    """Ctrl-C had no effect until the call ended, because the interpreter handles signals only then."""
    config = tmp_path / "terrace.toml"
    kind = 'kind = "directory"'
    if call in ["close", "put_durable"]:
        # Only the second replica is late.
        config.write_text(CONFIG.format(tmp_path) + 'throttle = { write = "1MB/s" }')
    else:
        slow = f'throttle = {{ {"read" if call.startswith("get") else "write"} = "4MB/s" }}'
        config.write_text(CONFIG.format(tmp_path).replace(kind, f"{kind}\n{slow}"))
    store = terrace.Store.create(tmp_path / "store", config)
    data = numpy.random.default_rng(1).bytes(24 << 20)
    (tmp_path / "file").write_bytes(data)
    if call.startswith("get"):
        store.put("a", numpy.frombuffer(data, "u1"), replicas=1)
    if call == "close":
        store.put("a", data[: 8 << 20])
    run = {
        "put": lambda: store.put("b", data),
        "put_file": lambda: store.put_file(tmp_path / "file", "b"),
        "put_durable": lambda: store.put("c", data[: 8 << 20], ack="durable"),
        "get": lambda: store.get("a"),
        "get_array": lambda: store.get_array("a"),
        "get_file": lambda: store.get_file("a", tmp_path / "out"),
        "close": store.close,
    }[call]
    ended = False
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run()
        ended = True
    timer.join()
    assert not ended and not (tmp_path / "out").exists() and list(tmp_path.glob(".terrace-*")) == []
    if call in ["put", "put_file"]:
        assert "b" not in store
