"""Stores for asyncio."""

import asyncio
from pathlib import Path

import numpy
import pytest

import terrace
from terrace.aio import AsyncStore


async def test_calls_are_awaited(place: Path, tmp_path: Path) -> None:
    async with AsyncStore(place, replicas=1) as store:
        receipts = await asyncio.gather(*(store.put(f"a/{number}", bytes([number])) for number in range(20)))
        assert [receipt.want for receipt in receipts] == [1] * 20
        assert await asyncio.gather(*(store.get(f"a/{number}") for number in range(20))) == [
            bytes([number]) for number in range(20)
        ]
        assert [found.key async for found in store.ls("a")] == sorted(f"a/{number}" for number in range(20))
        await store.put("array", numpy.arange(5), replicas=2)
        assert (await store.get_array("array") == numpy.arange(5)).all()
        assert (await store.stat("array")).replicas == 2 and await store.find("none") is None
        await store.write_at("a/0", 3, b"x")
        position, receipt = await store.append("a/0", b"yz")
        await store.wait(receipt, "durable")
        assert position == 4 and receipt.durable and await store.read("a/0", 3) == b"xyz"
        await store.copy("a/0", "b")
        await store.rename("b", "c")
        await store.set_length("c", 5)
        room = bytearray(2)
        assert await store.read_into("c", room, 3) == 2 and room == b"xy"
        await store.get_file("c", tmp_path / "c")
        await store.put_file(tmp_path / "c", "d")
        await store.delete("c")
        with pytest.raises(terrace.NotFoundError):
            await store.get("c")
        assert "5 bytes" in (await store.explain("d")).summary
        await store.sync()
        assert (await store.health())["health"] == "safe"
    with pytest.raises(ValueError, match="closed"):
        store.store.get("a/0")


async def test_the_loop_goes_on_while_calls_run(place: Path) -> None:
    async with AsyncStore(place, threads=2) as store:
        put = asyncio.create_task(store.put("big", bytes(64 << 20)))
        turns = 0
        while not put.done():
            await asyncio.sleep(0)
            turns += 1
        assert (await put).bytes == 64 << 20 and turns > 10
