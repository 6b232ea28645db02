"""Uses of the package that a type checker must accept; it must reject the marked ones."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any, assert_type

import numpy
from numpy.typing import NDArray

from terrace import Dataset, Explanation, NotFoundError, Object, Receipt, Store, Variable
from terrace.aio import AsyncStore


def right(store: Store) -> None:
    assert_type(store.put("a", b"bytes", min_storage=True, max_durability=2, ack="durable"), Receipt)
    assert_type(store.put(b"a", memoryview(b"a"), progress=lambda done, total: print(done / total)), Receipt)
    assert_type(store.put("a", numpy.zeros(3)).owed_to, list[tuple[str, str, int]])
    assert_type(store.put_async("a", b"bytes", min_storage=True, ack="durable"), Future[Receipt])
    assert_type(store.get("a"), bytes)
    assert_type(store.get_array("a"), NDArray[Any])
    assert_type(store.read_into("a", bytearray(3)), int)
    assert_type([found.key for found in store.ls()], list[str])
    assert_type(store.stat("a"), Object)
    assert_type(store.explain("a"), Explanation)
    assert_type(store.dataset("a")["view"].variables["x"], Variable)
    assert_type(store.import_dataset("a", "a.nc"), Dataset)
    store.add_origin("data", Path("/far"), max_age=60)
    assert_type(store.fetch_origins("data", limit=1000, progress=lambda done: print(done))["left"], int)
    assert_type(store.stream("a", ack="durable").producer("b").send("c", b"bytes", offset=3), int)
    assert_type(store.dumps.restore("a"), tuple[int, dict[int, list[bytes]]])
    with Store("directory", replicas=2) as opened:
        assert_type(opened, Store)
    try:
        store.delete("a")
    except NotFoundError as error:
        assert_type(error.key, str)


def wrong(store: Store) -> None:
    store.put("a", "words")  # type: ignore[arg-type]
    store.put("a", b"", ack="soon")  # type: ignore[arg-type]
    store.put_async("a", b"", max_speed=True)  # type: ignore[call-arg]
    store.add_origin("a", "/b", max_age="60s")  # type: ignore[arg-type]
    store.put("a", b"", max_speed=True)  # type: ignore[call-arg]
    store.read_into("a", b"read-only", "0")  # type: ignore[arg-type]
    store.stat("a").length = 3  # type: ignore[misc]
    store.stream("a", ack="soon")  # type: ignore[arg-type]


async def awaited(store: AsyncStore) -> None:
    assert_type(await store.put("a", b"bytes", min_storage=True), Receipt)
    assert_type([found.key async for found in store.ls()], list[str])
    await store.put("a", b"", max_speed=True)  # type: ignore[call-arg]
