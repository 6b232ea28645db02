"""Open files with the interface of Python's `io`."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from terrace import _arrays

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

    from terrace._terrace import Buffer, File, WriteableBuffer


class Mode(NamedTuple):
    """The mode of an open file."""

    kind: str
    """One of r, w, a, x."""
    both: bool
    """Whether the file is open for reading and writing."""

    @classmethod
    def parse(cls, mode: str) -> Mode:
        """Parses a mode such as `"r+b"`, like `open`."""
        kinds = [letter for letter in mode if letter in "rwax"]
        if len(kinds) != 1:
            raise ValueError(f"mode {mode!r} must have exactly one of r (read), w (write), a (append), x (create)")
        if set(mode) - set("rwax+bt") or len(set(mode)) < len(mode) or {"b", "t"} <= set(mode):
            raise ValueError(f"mode {mode!r} is none; write one such as 'rb', 'wb', 'ab', 'xb' or 'r+b'")
        return cls(kinds[0], "+" in mode)

    @property
    def reads(self) -> bool:
        return self.kind == "r" or self.both

    @property
    def writes(self) -> bool:
        return self.kind != "r" or self.both


class RawFile(io.RawIOBase):
    """A file without a buffer of its own; the engine buffers writes.

    With `kept`, the engine's file stays open when this one is closed, because a transaction will name it later.
    """

    def __init__(self, file: File, name: str, mode: str, *, appends: bool, kept: bool = False) -> None:
        self.file, self.name, self.mode = file, name, mode
        self._mode, self._appends, self._kept = Mode.parse(mode), appends, kept
        self._at = file.stat().length if appends else 0

    def readable(self) -> bool:
        return self._mode.reads

    def writable(self) -> bool:
        return self._mode.writes

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
        self._allow(self._mode.reads, "reading")
        count = self.file.read_into(self._at, out)
        self._at += count
        return count

    def readall(self) -> bytes:
        self._allow(self._mode.reads, "reading")
        rest = self.file.read_rest(self._at)
        self._at += len(rest)
        return rest

    def write(self, data: Buffer) -> int:
        self._allow(self._mode.writes, "writing")
        if self._appends:
            # The store determines the position, because other writers may have appended since a length was looked up.
            count = memoryview(data).nbytes  # type: ignore[arg-type]
            self._at = self.file.append(data) + count
            return count
        count = self.file.write_at(self._at, data)
        self._at += count
        return count

    def truncate(self, size: int | None = None) -> int:
        self._allow(self._mode.writes, "writing")
        length = self._at if size is None else size
        self.file.set_length(length)
        return length

    def flush(self) -> None:
        super().flush()
        if self._mode.writes:
            self.file.flush()

    def close(self) -> None:
        if not self.closed:
            try:
                # Flushes, which may fail.
                super().close()
            finally:
                if not self._kept:
                    self.file.close()

    def _allow(self, allowed: bool, what: str) -> None:
        if not allowed:
            raise io.UnsupportedOperation(f"{self.name} is not open for {what}")


class Opened:
    """The attributes that fsspec's files have in addition to Python's. `mode` and `name` are those of the raw file."""

    fs: AbstractFileSystem
    path: str
    blocksize: int
    raw: Any
    closed: bool
    commit: Callable[[], None]
    """Commits a file of a transaction; `discard` discards it."""
    discard: Callable[[], None]

    def flush(self) -> None:
        """Flushes all bytes to the store, where others see them. Python's own buffer flushes only to the raw file."""
        super().flush()  # type: ignore[misc]
        if self.raw.writable():
            self.raw.flush()

    @property
    def size(self) -> int:
        """The length of the file in bytes, including buffered bytes."""
        if not self.closed and self.raw.writable():
            self.flush()
        length: int = self.fs.size(self.path) if self.closed else self.raw.file.stat().length
        return length

    def info(self) -> dict[str, Any]:
        """Returns the file system's description of the file."""
        details: dict[str, Any] = self.fs.info(self.path)
        return details

    details = property(info)


class Reader(Opened, io.BufferedReader):
    """A file that is open for reading."""

    def __reduce__(self) -> tuple[Any, ...]:
        return reopened, (self.fs, self.path, self.mode, self.tell())

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        return self.__reduce__()


class Writer(Opened, io.BufferedWriter):
    """A file that is open for writing."""

    def write(self, data: Any) -> int:
        # Python's buffer passes on bytes only, so the raw file cannot see a mask.
        _arrays.refuse_masked(data)
        return super().write(data)


class Random(Opened, io.BufferedRandom):
    """A file that is open for reading and writing."""

    def write(self, data: Any) -> int:
        _arrays.refuse_masked(data)
        return super().write(data)


def buffered(raw: RawFile, fs: AbstractFileSystem, path: str, buffer: int) -> Reader | Writer | Random:
    """Returns a file with a buffer."""
    made = {(True, False): Reader, (False, True): Writer, (True, True): Random}[raw.readable(), raw.writable()]
    file: Reader | Writer | Random = made(raw, buffer)
    file.fs, file.path, file.blocksize = fs, path, buffer
    file.commit = file.discard = lambda: None
    return file


def reopened(fs: AbstractFileSystem, path: str, mode: str, at: int) -> Any:
    """Restores a pickled file that was open for reading."""
    file = fs._open(path, mode)
    file.seek(at)
    return file
