"""Streams and dumps."""

import pickle
from pathlib import Path

import numpy
import pytest

import terrace


def test_requests_are_delivered_once(store: terrace.Store, tmp_path: Path) -> None:
    stream = store.stream("sensors")
    assert stream.backlog == (0, 0, None) and store.streams() == []
    stream.send("north/wind", b"12 m/s\n")
    producer = stream.producer("probe")
    first = producer.send("north/wind", b"9 m/s\n")
    assert (first, producer.next) == (1, 2) and not producer.resend(first, "north/wind", b"9 m/s\n")
    producer.send("grid", numpy.arange(3, dtype="<i4"), offset=8)
    assert stream.producer("probe").next == 3
    assert stream.append([("a", None, b"1"), ("b", 0, b"2")], "probe", 2) == 1
    assert stream.backlog.requests == 4 and (stream.backlog.age or 0) >= 0
    assert pickle.loads(pickle.dumps(stream)).deliver(tmp_path / "out") == 4
    assert (tmp_path / "out/north/wind").read_bytes() == b"12 m/s\n9 m/s\n"
    assert (tmp_path / "out/grid").read_bytes() == bytes(8) + numpy.arange(3, dtype="<i4").tobytes()
    assert stream.backlog.requests == 0 and stream.done()["requests"] == 4 and not stream.is_running
    assert store.streams() == ["sensors"] and stream.deliver(tmp_path / "out") == 0


def test_wrong_requests_are_refused(store: terrace.Store) -> None:
    stream = store.stream("sensors", ack="durable")
    for destination in ["../outside", "", "/etc/passwd"]:
        with pytest.raises(terrace.RefusedError, match="not allowed"):
            stream.append([("good", None, b"1"), (destination, None, b"2")])
    assert stream.backlog.requests == 0
    with pytest.raises(terrace.RefusedError, match="no name for a stream"):
        store.stream("a/b")
    with pytest.raises(ValueError, match="ack"):
        store.stream("a", ack="soon")  # type: ignore[arg-type]


def test_dumps_of_one_process(store: terrace.Store) -> None:
    field = numpy.random.default_rng(1).random(100_000)
    assert store.dumps.list() == {}
    assert store.dumps.make("run", [field, b"step 1"]) == 0
    field[0] = 7
    assert store.dumps.make("run", [field, b"step 2"]) == 1
    version, ranks = store.dumps.restore("run")
    assert version == 1 and ranks[0][1] == b"step 2"
    numpy.testing.assert_array_equal(numpy.frombuffer(ranks[0][0]), field)
    assert store.dumps.restore("run", 0)[1][0][1] == b"step 1"
    assert store.dumps.list() == {"run": [0, 1]} and store.dumps.keep("run", 1) == [0]
    with pytest.raises(terrace.NotFoundError, match="there is no dump"):
        store.dumps.restore("run", 0)


def test_health(store: terrace.Store) -> None:
    store.put("a", b"bytes")
    store.sync()
    assert store.health()["health"] == "safe"
