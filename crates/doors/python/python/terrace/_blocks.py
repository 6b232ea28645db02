"""Blocks of remote files, each an object of a store."""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from terrace._errors import NoSpaceError, NotFoundError, UnreadableError

if TYPE_CHECKING:
    from terrace._store import Store
    from terrace._terrace import Object

logger = logging.getLogger("terrace.cache")

EXPIRY = "terrace.expires"
"""The attribute with the time at which the store removes an object, in nanoseconds since 1970."""
USED = "cache.used"
"""The attribute with the time at which a process last noted that an object is used, in nanoseconds since 1970."""
USE_SECONDS = 60
"""A process notes at most this often that a block is used."""
MOST_NOTED_USES = 100_000
LOCK_FILE = "cache.lock"


class Place(NamedTuple):
    """A version of a remote file: where its blocks are."""

    file: str
    """The hash of the file's place and path."""
    version: str
    """The hash of the version and the size of blocks."""
    block_size: int


class Blocks:
    """The cached blocks below a folder of a store. Many threads and processes may use them at once.

    A block expires `keep_seconds` after its last use, and never if this is `None`. If there are more than `limit`
    bytes, those not used for longest are removed.
    """

    def __init__(self, store: Store, folder: str, keep_seconds: float | None, limit: int | None) -> None:
        self.store, self.folder, self.keep_seconds, self.limit = store, folder, keep_seconds, limit
        self._used: dict[str, float] = {}
        self._added = 0

    def read(self, place: Place, number: int, out: memoryview, offset: int) -> bool:
        """Fills `out` from byte `offset` of a block on. Returns whether the block is there.

        A block without a good replica is as good as absent: its origin has it.
        """
        key = self._key(place, number)
        try:
            if self.store.read_into(key, out, offset) < len(out):
                return False
        except (NotFoundError, UnreadableError):
            return False
        self._note_use(key)
        return True

    def read_range(self, place: Place, start: int, end: int) -> bytes | None:
        """Returns a range of a file, if all its blocks are there."""
        whole = place.block_size
        keys = [self._key(place, number) for number in range(start // whole, -(-end // whole))]
        read = self.store.read_joined(keys, whole, start % whole, end - start)
        if read is not None:
            for key in keys:
                self._note_use(key)
        return read

    def has(self, place: Place, number: int) -> bool:
        """Returns whether a block is there."""
        return self.store.find(self._key(place, number)) is not None

    def has_any(self, file: str) -> bool:
        """Returns whether anything of a file is there."""
        return bool(self.store.page(f"{self.folder}/{file}", None, 1))

    def put(self, place: Place, number: int, data: memoryview) -> None:
        """Keeps a block, unless the store has no room for it even after half of the cached bytes were removed."""
        key = self._key(place, number)
        try:
            self.put_object(key, data)
        except NoSpaceError:
            self._remove_oldest(self.size() // 2)
            try:
                self.put_object(key, data)
            except NoSpaceError as error:
                logger.warning("%s is not cached: %s", key, error)
                return
        self._added += len(data)
        if self.limit is not None and self._added > self.limit // 16:
            self._added = 0
            if self.size() > self.limit:
                self._remove_oldest(self.limit - self.limit // 16)

    def put_object(self, key: str, data: bytes | memoryview) -> None:
        """Writes an object that expires."""
        self.store.put(key, data, attributes=self._used_now())

    def size(self) -> int:
        """Returns the number of cached bytes."""
        return sum(found.length for found in self.store.ls(self.folder))

    def forget(self, file: str) -> None:
        """Removes a file's blocks, and what is known of it."""
        for found in self.store.ls(f"{self.folder}/{file}"):
            self.remove(found.key)

    def _used_now(self) -> dict[str, str]:
        """Returns the attributes of an object that is used now."""
        now = time.time_ns()
        expiry = {} if self.keep_seconds is None else {EXPIRY: str(now + int(self.keep_seconds * 1e9))}
        return {USED: str(now), **expiry}

    def remove(self, key: str) -> None:
        """Removes an object, unless it is gone."""
        # If another process has removed it, nothing is left to do.
        with suppress(NotFoundError):
            self.store.delete(key)

    @contextmanager
    def claim(self, file: str, first: int, count: int) -> Iterator[None]:
        """Holds the right to fetch blocks, for which others wait, in this process and in all others."""
        start = (int(file[:8], 16) >> 1 << 31) + first

        def lock(kind: int) -> bytes:
            return struct.pack("hhqqi0q", kind, os.SEEK_SET, start, count, 0)

        # The lock belongs to this open file, which no other thread uses. The end of the process frees it, too.
        with open(self.store.directory / LOCK_FILE, "ab") as held:
            fcntl.fcntl(held, fcntl.F_OFD_SETLKW, lock(fcntl.F_WRLCK))
            try:
                yield
            finally:
                # Closing would not free it while a forked process has the file open.
                fcntl.fcntl(held, fcntl.F_OFD_SETLK, lock(fcntl.F_UNLCK))

    def _key(self, place: Place, number: int) -> str:
        return f"{self.folder}/{place.file}/{place.version}/{number:08x}"

    def _note_use(self, key: str) -> None:
        now = time.monotonic()
        if now - self._used.get(key, -inf) < USE_SECONDS:
            return
        if len(self._used) >= MOST_NOTED_USES:
            self._used.clear()
        self._used[key] = now
        # If it was removed after it was read, there is nothing to note.
        with suppress(NotFoundError):
            self.store.set_attributes(key, self._used_now())

    def _remove_oldest(self, most: int) -> None:
        """Removes the blocks not used for longest, until `most` bytes are left."""
        listed = sorted(self.store.ls(self.folder), key=last_use)
        size = sum(found.length for found in listed)
        for found in listed:
            if size <= most:
                break
            self.remove(found.key)
            size -= found.length


class Wanted(NamedTuple):
    """A range of a version that a caller wants: from byte `start` on, as long as `out`."""

    blocks: Blocks
    place: Place
    start: int
    out: memoryview

    def _part(self, number: int) -> tuple[memoryview, int]:
        """Returns the part of `out` that is in a block, and its offset in the block."""
        begin = number * self.place.block_size - self.start
        part = self.out[max(0, begin) : max(0, begin + self.place.block_size)]
        return part, max(0, -begin)

    def find(self, number: int) -> bool:
        """Fills the part that is in a block. Returns whether the block is cached."""
        part, offset = self._part(number)
        return self.blocks.read(self.place, number, part, offset)

    def fill(self, number: int, block: memoryview) -> None:
        """Fills the part that is in a block from the block's bytes."""
        part, offset = self._part(number)
        part[:] = block[offset : offset + len(part)]


def last_use(found: Object) -> int:
    """Returns when an object was last used, as far as that is noted."""
    return int(found.attributes.get(USED, "0"))
