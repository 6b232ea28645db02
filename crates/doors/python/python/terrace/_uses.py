"""When cached blocks were last used, and how many bytes they have: known to all processes of a machine."""

from __future__ import annotations

import logging
import mmap
import os
from functools import cached_property
from pathlib import Path
from zlib import crc32

logger = logging.getLogger("terrace.cache")

COUNT = 1 << 18
"""The word behind those of the slots."""
BOOT = COUNT + 1
"""The word that tells in which boot the bytes were counted: after a power cut, the last counts may be lost."""
MAPPED_BYTES = 8 * (BOOT + 1)
BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")


class Uses:
    """A table in a mapped file, which all processes share.

    The times are only hints: blocks that share a slot are as new as the one that was used last. The caller locks the
    count.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def words(self) -> memoryview:
        """For each slot the time of the last use of its blocks, in nanoseconds since 1970; behind them the count."""
        words = memoryview(mapped(self._path)).cast("Q")
        boot = crc32(BOOT_FILE.read_bytes()) if BOOT_FILE.exists() else 0
        if words[BOOT] != boot:
            words[COUNT], words[BOOT] = 0, boot
        return words

    @property
    def counted(self) -> int | None:
        """The number of cached bytes, or more if some were removed since they were counted; `None` if it is unknown."""
        word: int = self.words[COUNT]
        return word - 1 if word else None

    @counted.setter
    def counted(self, count: int) -> None:
        self.words[COUNT] = count + 1


def mapped(path: Path) -> mmap.mmap:
    """Maps a file of words, which is made of zeros; memory of this process alone if that fails."""
    try:
        with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
            if os.fstat(file.fileno()).st_size < MAPPED_BYTES:
                # Written, not only extended: a page without space on the disk could not be written to later.
                file.write(bytes(MAPPED_BYTES))
                file.flush()
            return mmap.mmap(file.fileno(), MAPPED_BYTES)
    except OSError as error:
        logger.debug("%s is not shared with other processes: %s", path, error)
        return mmap.mmap(-1, MAPPED_BYTES)


def slot_of(key: str) -> int:
    """Returns the slot of a block."""
    return crc32(key.encode()) % COUNT
