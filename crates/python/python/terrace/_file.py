"""An open file as Python's `io` has it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from terrace._terrace import Buffer, File, WriteableBuffer


class RawFile(io.RawIOBase):
    """A file without a buffer of its own: the engine keeps back what is written."""

    def __init__(self, file: File, name: str, *, reads: bool, writes: bool, appends: bool) -> None:
        self.file, self.name = file, name
        self._reads, self._writes, self._appends = reads, writes, appends
        self._at = file.stat().length if appends else 0

    def readable(self) -> bool:
        return self._reads

    def writable(self) -> bool:
        return self._writes

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence)
        at = offset + (self.file.stat().length if start is None else start)
        if at < 0:
            raise ValueError(f"{self.name}: byte {at} is before the beginning")
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def readinto(self, out: WriteableBuffer) -> int:
        self._allow(self._reads, "reading")
        count = self.file.read_into(self._at, out)
        self._at += count
        return count

    def readall(self) -> bytes:
        self._allow(self._reads, "reading")
        rest = self.file.read_rest(self._at)
        self._at += len(rest)
        return rest

    def write(self, data: Buffer) -> int:
        self._allow(self._writes, "writing")
        if self._appends:
            self._at = self.file.stat().length
        count = self.file.write_at(self._at, data)
        self._at += count
        return count

    def truncate(self, size: int | None = None) -> int:
        self._allow(self._writes, "writing")
        length = self._at if size is None else size
        self.file.set_length(length)
        return length

    def flush(self) -> None:
        super().flush()
        if self._writes:
            self.file.flush()

    def close(self) -> None:
        if not self.closed:
            try:
                # Flushes, which may fail.
                super().close()
            finally:
                self.file.close()

    def _allow(self, allowed: bool, what: str) -> None:
        if not allowed:
            raise io.UnsupportedOperation(f"{self.name} is not open for {what}")


def opened(
    raw: RawFile, buffer: int, commit: Callable[[], None], discard: Callable[[], None]
) -> io.BufferedReader | io.BufferedWriter | io.BufferedRandom:
    """The file with a buffer; a transaction ends it by one of the two calls."""
    made = {(True, False): Reader, (False, True): Writer, (True, True): Random}[raw.readable(), raw.writable()]
    file: Reader | Writer | Random = made(raw, buffer)
    file.commit, file.discard = commit, discard
    return file


class Reader(io.BufferedReader):
    """For reading."""

    commit: Callable[[], None]
    discard: Callable[[], None]


class Writer(io.BufferedWriter):
    """For writing."""

    commit: Callable[[], None]
    discard: Callable[[], None]


class Random(io.BufferedRandom):
    """For both."""

    commit: Callable[[], None]
    discard: Callable[[], None]
