"""Files of a transaction, which get their names when it is committed."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING, Any

from terrace._file import Mode, RawFile, buffered

if TYPE_CHECKING:
    from terrace.fsspec import TerraceFileSystem

COPIED = 4 << 20
APPENDED = 64 << 20


def deferred(fs: TerraceFileSystem, path: str, mode: str, buffer: int) -> Any:
    """Opens a file that has no name until it is committed. If the process is killed before that, nothing of it stays.

    Appended bytes are appended at the commit, after bytes that others have appended by then. A file that is open for
    reading and writing is a copy.
    """
    parsed = Mode.parse(mode)
    if fs.isdir(path):
        raise IsADirectoryError(f"{path!r} is a directory")
    there = fs.exists(path)
    if parsed.kind == "x" and there:
        raise FileExistsError(f"{path!r} is there already")
    if parsed.kind == "r" and not there:
        raise FileNotFoundError(f"{path!r} is not there")
    file = fs.files.create_unnamed()
    raw = RawFile(file, path, mode, appends=parsed.kind == "a", kept=True)
    if there and parsed.both and parsed.kind in "ra":
        with fs._open(path, "rb") as source:
            shutil.copyfileobj(source, raw, COPIED)
        if parsed.kind == "r":
            raw.seek(0)
    made = buffered(raw, fs, path, buffer)

    def commit() -> None:
        with contextlib.closing(file):
            made.close()
            fs._make_parent(path)
            if parsed.kind == "a" and not parsed.both:
                append(fs, path, file)
            else:
                fs.files.name(file, path, parsed.kind != "x")

    def discard() -> None:
        with contextlib.closing(file):
            made.close()

    made.commit, made.discard = commit, discard
    return made


def append(fs: TerraceFileSystem, path: str, source: Any) -> None:
    """Appends a file's bytes to another file, in pieces that each stay together."""
    length, at = source.stat().length, 0
    with contextlib.closing(fs.files.create(path)) as target:
        while at < length:
            piece = bytearray(min(APPENDED, length - at))
            at += source.read_into(at, piece)
            target.append(piece)
