"""Blocks of remote files, each an object of a store."""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from terrace._errors import NoSpaceError, NotFoundError, UnreadableError
from terrace._uses import Uses, slot_of

if TYPE_CHECKING:
    from terrace._store import Store
    from terrace._terrace import Object

logger = logging.getLogger("terrace.cache")

EXPIRY = "terrace.expires"
"""The attribute with the time at which the store removes an object, in nanoseconds since 1970."""
USED = "cache.used"
"""The attribute with the time at which a process last noted that an object is used, in nanoseconds since 1970."""
USE_NANOSECONDS = 60_000_000_000
"""A process notes at most this often in an attribute that a block is used, which puts its expiry off."""
MOST_NOTED_USES = 100_000
LOCK_FILE = "cache.lock"
ADDING, COUNTING = 1 << 62, (1 << 62) + 1
"""Bytes of the lock file behind those of blocks: held by those who add bytes, and, alone, by who makes room; and by who
counts the bytes to add."""


class Place(NamedTuple):
    """A version of a remote file: where its blocks are."""

    file: str
    """The hash of the file's place and path."""
    version: str
    """The hash of the version and the size of blocks."""
    block_size: int


class Blocks:
    """The cached blocks below a folder of a store. Many threads and processes may use them at once.

    A block expires `keep_seconds` after its last use, and never if this is `None`. There are at most `limit` bytes:
    those not used for longest make room for others.
    """

    def __init__(self, store: Store, folder: str, keep_seconds: float | None, limit: int | None) -> None:
        self.store, self.folder, self.keep_seconds, self.limit = store, folder, keep_seconds, limit
        self._noted: dict[str, tuple[int, int]] = {}
        """When this process last noted a use of a block in its attribute, and the slot of the block."""
        self._uses = Uses(store.directory / f"cache-uses-{crc32(folder.encode())}")

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

    def put_object(self, key: str, data: bytes | memoryview) -> None:
        """Writes an object that expires, after others have made room for it."""
        if self.limit is None:
            self.store.put(key, data, attributes=self._used_now())
            return
        if len(data) > self.limit:
            logger.warning("%s is not cached: it has %d bytes, and the limit is %d", key, len(data), self.limit)
            return
        while True:
            with self._lock(fcntl.F_RDLCK, ADDING):
                if self._count(len(data), self.limit):
                    self.store.put(key, data, attributes=self._used_now())
                    return
            self._make_room(len(data), self.limit)

    def _count(self, length: int, limit: int) -> bool:
        """Counts bytes before they are written: if this process is killed, they count as written until the next count
        of all. Returns false if there are too many."""
        with self._lock(fcntl.F_WRLCK, COUNTING):
            counted = self._uses.counted
            if counted is None or counted + length > limit:
                return False
            self._uses.counted = counted + length
            return True

    def _make_room(self, length: int, limit: int) -> None:
        """Removes a 16th of the limit, or more if `length` bytes need it, unless there is room after all."""
        # No process writes now, so that the listing has all bytes that were counted.
        with self._lock(fcntl.F_WRLCK, ADDING):
            counted = self._uses.counted
            if counted is not None and counted + length <= limit:
                return
            size = self.size()
            if size + length > limit:
                size = self._remove_oldest(limit - max(limit // 16, length))
            self._uses.counted = size

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
        with self._lock(fcntl.F_WRLCK, (int(file[:8], 16) >> 1 << 31) + first, count):
            yield

    @contextmanager
    def _lock(self, kind: int, start: int, count: int = 1) -> Iterator[None]:
        """Holds a lock of bytes of the lock file."""

        def lock(kind: int) -> bytes:
            return struct.pack("hhqqi0q", kind, os.SEEK_SET, start, count, 0)

        # The lock belongs to this open file, which no other thread uses. The end of the process frees it, too.
        with open(self.store.directory / LOCK_FILE, "a+b") as held:
            fcntl.fcntl(held, fcntl.F_OFD_SETLKW, lock(kind))
            try:
                yield
            finally:
                # Closing would not free it while a forked process has the file open.
                fcntl.fcntl(held, fcntl.F_OFD_SETLK, lock(fcntl.F_UNLCK))

    def _key(self, place: Place, number: int) -> str:
        return f"{self.folder}/{place.file}/{place.version}/{number:08x}"

    def _note_use(self, key: str) -> None:
        now = time.time_ns()
        noted, slot = self._noted.get(key) or (0, slot_of(key))
        self._uses.words[slot] = now
        if now - noted < USE_NANOSECONDS:
            return
        if len(self._noted) >= MOST_NOTED_USES:
            self._noted.clear()
        self._noted[key] = now, slot
        # If it was removed after it was read, there is nothing to note.
        with suppress(NotFoundError):
            self.store.set_attributes(key, self._used_now())

    def _remove_oldest(self, most: int) -> int:
        """Removes the objects not used for longest, until `most` bytes are left. Returns how many are. Answers about a
        file stay as long as a block of it."""
        listed = list(self.store.ls(self.folder))
        size = sum(found.length for found in listed)
        uses: dict[str, int] = {}
        for found in listed:
            used = max(int(found.attributes.get(USED, "0")), self._uses.words[slot_of(found.key)])
            for key in (found.key, self._file_folder(found.key)):
                uses[key] = max(uses.get(key, 0), used)

        def last_use(found: Object) -> int:
            folder, _, _name = found.key.rpartition("/")
            return uses[folder if folder == self._file_folder(found.key) else found.key]

        for found in sorted(listed, key=last_use):
            if size <= most:
                break
            self.remove(found.key)
            size -= found.length
        return size

    def _file_folder(self, key: str) -> str:
        """Returns the folder of a file's answers, below which its blocks are."""
        return f"{self.folder}/{key[len(self.folder) + 1 :].partition('/')[0]}"


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
