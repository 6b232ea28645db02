"""Stores for `asyncio`: calls are awaited while they run in threads, and the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from terrace._store import PAGE, Store

if TYPE_CHECKING:
    import os
    from typing import Self, Unpack

    from numpy.typing import NDArray

    from terrace._explain import Explanation
    from terrace._terrace import Ack, Buffer, Key, Object, Options, Progress, Receipt, WriteableBuffer

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8
"""The default number of calls that run at once."""


class AsyncStore:
    """A store whose calls are awaited; `store` is the store of the plain calls.

    At most `threads` calls run at once, and others wait for them. A cancelled task does not end its call.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | Store | None = None,
        *,
        threads: int = THREADS,
        **application: Unpack[Options],
    ) -> None:
        self.store = directory if isinstance(directory, Store) else Store(directory, **application)
        self._pool = ThreadPoolExecutor(threads, "terrace-aio")

    async def _run(self, call: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        run = partial(call, *arguments, **keywords)
        return await asyncio.get_running_loop().run_in_executor(self._pool, run)

    async def put(
        self,
        key: Key,
        data: Buffer,
        *,
        attributes: dict[str, str] | None = None,
        **options: Unpack[Options],
    ) -> Receipt:
        """Writes a whole object. `data` must not be changed until the call is done."""
        return await self._run(self.store.put, key, data, attributes=attributes, **options)

    async def put_file(
        self, path: str | os.PathLike[str], key: Key, *, progress: Progress | None = None, **options: Unpack[Options]
    ) -> Receipt:
        """Writes a file as an object. `progress` is called in another thread."""
        return await self._run(self.store.put_file, path, key, progress=progress, **options)

    async def get_file(self, key: Key, path: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
        """Writes an object to a file. Returns its length."""
        return await self._run(self.store.get_file, key, path, progress=progress)

    async def get(self, key: Key) -> bytes:
        """Returns the whole object."""
        return await self._run(self.store.get, key)

    async def get_array(self, key: Key) -> NDArray[Any]:
        """Returns the NumPy array that was put under a key."""
        return await self._run(self.store.get_array, key)

    async def read(self, key: Key, start: int = 0, end: int | None = None) -> bytes:
        """Returns the bytes from `start` up to, not including, `end`; fewer only at the object's end."""
        return await self._run(self.store.read, key, start, end)

    async def read_into(self, key: Key, out: WriteableBuffer | NDArray[Any], offset: int = 0) -> int:
        """Fills a buffer from byte `offset` on. Returns the number of bytes read."""
        return await self._run(self.store.read_into, key, out, offset)

    async def write_at(self, key: Key, offset: int, data: Buffer, **options: Unpack[Options]) -> Receipt:
        """Writes a range of an object."""
        return await self._run(self.store.write_at, key, offset, data, **options)

    async def append(self, key: Key, data: Buffer, **options: Unpack[Options]) -> tuple[int, Receipt]:
        """Appends to an object. Returns the position of the bytes."""
        return await self._run(self.store.append, key, data, **options)

    async def set_length(self, key: Key, length: int) -> None:
        """Truncates an object, or extends it with zeros."""
        await self._run(self.store.set_length, key, length)

    async def stat(self, key: Key) -> Object:
        """Returns an object's attributes."""
        return await self._run(self.store.stat, key)

    async def find(self, key: Key) -> Object | None:
        """Returns an object's attributes, or `None` if no object has the key."""
        return await self._run(self.store.find, key)

    async def ls(self, prefix: Key = "") -> AsyncIterator[Object]:
        """Iterates over the objects at or below `prefix` in key order, as `Store.ls` does."""
        listed = self.store.ls(prefix)
        while page := await self._run(taken, listed, PAGE):
            for found in page:
                yield found

    async def delete(self, key: Key) -> None:
        """Removes an object."""
        await self._run(self.store.delete, key)

    async def rename(self, key: Key, to: Key) -> None:
        """Gives an object another key, and replaces an object of that key."""
        await self._run(self.store.rename, key, to)

    async def copy(self, key: Key, to: Key) -> None:
        """Copies an object. Both share the stored bytes until one of them changes."""
        await self._run(self.store.copy, key, to)

    async def wait(self, receipt: Receipt, level: Ack) -> None:
        """Waits until a write has reached a level, and updates the receipt."""
        await self._run(self.store.wait, receipt, level)

    async def sync(self) -> None:
        """Waits until no replica is pending and everything is durable."""
        await self._run(self.store.sync)

    async def explain(self, key: Key, data: Buffer | None = None, **options: Unpack[Options]) -> Explanation:
        """Explains how the store would place bytes, or the object of the key."""
        return await self._run(self.store.explain, key, data, **options)

    async def health(self) -> dict[str, Any]:
        """Returns how safe the data is."""
        return await self._run(self.store.health)

    async def close(self) -> None:
        """Waits for the calls that run, and closes the store."""
        await self._run(self.store.close)
        self._pool.shutdown()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def taken(listed: Any, count: int) -> list[Any]:
    """Returns the next items of an iterator."""
    return [found for _, found in zip(range(count), listed)]
