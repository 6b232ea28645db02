"""When cached blocks were last used, and how many bytes they have: known to all processes of a machine."""

from __future__ import annotations

import logging
import mmap
import os
from functools import cached_property
from pathlib import Path
from zlib import crc32

logger = logging.getLogger("terrace.cache")

SLOT_BITS = 18
TAG_BITS = 32 - SLOT_BITS
TAGS = (1 << TAG_BITS) - 1
COUNT = 1 << SLOT_BITS
"""The word behind those of the slots."""
BOOT = COUNT + 1
"""The word that tells in which boot the bytes were counted: after a power cut, the last counts may be lost."""
MAPPED_BYTES = 8 * (BOOT + 1)
BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")


class Uses:
    """A table in a mapped file, which all processes share.

    The times are only hints: two blocks may want one slot, and the later one then has it. The caller locks the count.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _words(self) -> memoryview:
        words = memoryview(mapped(self._path)).cast("Q")
        boot = crc32(BOOT_FILE.read_bytes()) if BOOT_FILE.exists() else 0
        if words[BOOT] != boot:
            words[COUNT], words[BOOT] = 0, boot
        return words

    def note(self, hashed: int, now: int) -> None:
        """Notes when the block with this hash is used, in nanoseconds since 1970."""
        # The low bits of the time, 16 microseconds, make room for those that tell two blocks of a slot apart.
        self._words[hashed >> TAG_BITS] = now & ~TAGS | hashed & TAGS

    def last(self, hashed: int) -> int:
        """Returns when the block with this hash was last used; 0 if that is not known."""
        word: int = self._words[hashed >> TAG_BITS]
        return word if word & TAGS == hashed & TAGS else 0

    @property
    def counted(self) -> int | None:
        """The number of cached bytes, or more if some were removed since they were counted; `None` if it is unknown."""
        word: int = self._words[COUNT]
        return word - 1 if word else None

    @counted.setter
    def counted(self, count: int) -> None:
        self._words[COUNT] = count + 1


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
