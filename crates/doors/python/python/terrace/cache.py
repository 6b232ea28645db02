"""A cache of other file systems of fsspec, in a store: `terrace::s3://bucket/key`."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

from fsspec import AbstractFileSystem, filesystem
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.spec import AbstractBufferedFile

from terrace._blocks import Blocks, Place, Wanted
from terrace._errors import FailedError, ReplacedError
from terrace._origin import INFO, LISTING, Answer, Origin, decoded, describe_place, digest
from terrace._store import Store

logger = logging.getLogger("terrace.cache")

BLOCK_BYTES = 1 << 20
FETCHED_BYTES = 32 << 20
"""The most bytes of a request to the origin."""
AHEAD_BYTES = 16 << 20
"""The most bytes that are fetched ahead of a sequential reader."""
CHECK_SECONDS = 10.0
KEEP_SECONDS = 7 * 24 * 3600.0
CACHE_OPTIONS = {"replicas": 1}
"""The requirements of cached blocks, unless the caller states others: their origin can always give them again."""

FSSPEC_OPTIONS = {
    "asynchronous",
    "batch_size",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "skip_instance_cache",
    "use_listings_cache",
}
"""Options of every file system of fsspec, which change nothing here."""


class Cached(NamedTuple):
    """What is cached of a remote file, and why."""

    path: str
    size: int | None
    """The length of the file; `None` if the origin has no such file."""
    cached: int
    """The number of its bytes in the cache."""
    identity: str | None
    """How its version is told from others: by an ETag, or by time and length."""
    asked: datetime
    """When the origin was last asked about it."""
    why: str


def unanswered(error: Exception) -> None:
    """Raises the error of an origin that does not answer."""
    if isinstance(error, FailedError):
        raise error


class TerraceCache(ChainedFileSystem):  # type: ignore[misc]
    """A file system whose files are read through a cache in a store, in blocks. All else goes to the file system.

    `store` and `options` are those of `TerraceFileSystem`. The cached file system is `fs`, or is made of
    `target_protocol` and `target_options`. An answer of it about a file is used for `check_after` seconds before it is
    asked again. What is cached expires `expiry_time` seconds after its last use (never, if `None`), and there are at
    most `limit` bytes of it, in the folder `folder` of the store.
    """

    protocol = "terrace"
    # fsspec keeps the instances of `TerraceFileSystem`, which makes these.
    cachable = False
    _strip_tokenize_options = ("fo",)

    def __init__(
        self,
        store: str | os.PathLike[str] | None = None,
        options: dict[str, Any] | None = None,
        *,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        fs: AbstractFileSystem | None = None,
        check_after: float = CHECK_SECONDS,
        expiry_time: float | None = KEEP_SECONDS,
        limit: int | None = None,
        block_size: int = BLOCK_BYTES,
        folder: str = "cache",
        fo: str | None = None,
        **kwargs: Any,
    ) -> None:
        for name in sorted(kwargs.keys() - FSSPEC_OPTIONS):
            raise TypeError(
                f"terrace:: has no option {name!r}; there are store, options, check_after, expiry_time, limit,"
                " block_size and folder, and those of the cached file system go under its name, as in s3={...}"
            )
        for name, number in (("check_after", check_after), ("expiry_time", expiry_time or 0), ("limit", limit or 0)):
            if not isinstance(number, Real) or not number >= 0:
                raise ValueError(f"{name}: {number!r} is no number of {'bytes' if name == 'limit' else 'seconds'}")
        super().__init__(**kwargs)
        fs = filesystem(target_protocol, **(target_options or {})) if fs is None else fs
        self.store = Store(store, **(CACHE_OPTIONS | (options or {})))
        self.block_size, self.root_marker = block_size, fs.root_marker
        names = fs.protocol
        place = describe_place(names if isinstance(names, str) else names[0], fs.storage_options)
        self.blocks = Blocks(self.store, folder, expiry_time, limit)
        self.origin = Origin(fs, place, self.blocks, check_after, expiry_time)
        self._strip_protocol = self._strip

    @property
    def fs(self) -> AbstractFileSystem:
        """The file system that is cached."""
        return self.origin.fs

    @property
    def fsid(self) -> str:
        return f"terrace:{self.store.directory}:{self.origin.place}"

    def _strip(self, path: Any) -> Any:
        if isinstance(path, list):
            return [self._strip(one) for one in path]
        return self.fs._strip_protocol(os.fspath(path).removeprefix("terrace://").removeprefix("terrace::"))

    def _parent(self, path: str) -> str:
        parent: str = self.fs._parent(path)
        return parent

    def unstrip_protocol(self, name: str) -> str:
        return f"terrace::{self.fs.unstrip_protocol(name)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(filesystem, "terrace", **self.storage_options), ()

    def to_dict(self, *, include_password: bool = True) -> dict[str, Any]:
        # The class that keeps the instances.
        made: dict[str, Any] = super().to_dict(include_password=include_password)
        return made | {"cls": "terrace.fsspec:TerraceFileSystem"}

    # Reading.

    def info(self, path: str, refresh: bool = False, **_: Any) -> dict[str, Any]:
        path = self._strip(path)
        try:
            answer = self.origin.look(path) if refresh else self.origin.info(path)
        except FailedError:
            if self.origin.is_folder(path):
                return {"name": path, "size": 0, "type": "directory"}
            raise
        # A copy: the answer is used again.
        return dict(self._given(answer).said)

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **_: Any) -> list[Any]:
        found: list[dict[str, Any]] = self._given(self.origin.listing(self._strip(path), refresh)).said
        return list(found) if detail else [one["name"] for one in found]

    # fsspec's own calls take every failure for a file that is not there.

    def exists(self, path: str, **kwargs: Any) -> bool:
        return self._type(path, **kwargs) is not None

    def isfile(self, path: str) -> bool:
        return self._type(path) == "file"

    def isdir(self, path: str) -> bool:
        return self._type(path) == "directory"

    def _type(self, path: str, **kwargs: Any) -> str | None:
        """Returns the type of a file, or `None` if there is none. An origin that does not answer has not said that."""
        try:
            found: str = self.info(path, **kwargs)["type"]
        except FailedError:
            raise
        except Exception:  # As fsspec's own calls do.
            return None
        return found

    def walk(
        self, path: str, maxdepth: int | None = None, topdown: bool = True, on_error: Any = unanswered, **kwargs: Any
    ) -> Iterator[Any]:
        """Walks through directories, as `find`, `glob` and `du` do. One about which the origin does not answer is not
        left out, but an error."""
        return super().walk(path, maxdepth, topdown, on_error, **kwargs)  # type: ignore[no-any-return]

    def _version(self, path: str) -> Answer:
        """Returns the present version of a file."""
        return self._given(self.origin.info(path))

    def _given(self, answer: Answer) -> Answer:
        if answer.said is None:
            raise FileNotFoundError(f"there is no {answer.path!r} in {self.origin.place}")
        return answer

    def ukey(self, path: str) -> str:
        return digest(str(self._version(self._strip(path)).identity))

    checksum = ukey

    def created(self, path: str) -> datetime:
        return self._time(path, "created")

    def modified(self, path: str) -> datetime:
        return self._time(path, "modified")

    def _time(self, path: str, which: str) -> datetime:
        found: datetime = getattr(self.fs, which)(self._strip(path))
        return found

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip(path)
        version = self.origin.recent(path)
        if version is None:
            if self.origin.can_read_first(path) and (data := self._read_first(path, start, end)) is not None:
                return data
            version = self.origin.info(path)
        version = self._file_of(version)
        if version.said.get("size") is None:
            whole: bytes = self.fs.cat_file(version.path, start=start, end=end)
            return whole
        first, last, _step = slice(start, end).indices(version.said["size"])
        try:
            return self.read(version, first, max(first, last))
        except ReplacedError:
            # The known version was an old one. Now the new one is known, unless the file changes all the time.
            if self._file(path).identity == version.identity:
                raise
            return self.cat_file(path, start, end)

    def _file(self, path: str) -> Answer:
        return self._file_of(self.origin.info(self._strip(path)))

    def _file_of(self, answer: Answer) -> Answer:
        version = self._given(answer)
        if version.said["type"] == "directory":
            raise IsADirectoryError(f"{version.path!r} is a directory")
        return version

    def _read_first(self, path: str, start: int | None, end: int | None) -> bytes | None:
        """Reads a range of a file about which nothing is known. `None` if that takes more than one request."""
        begin = start or 0
        if begin < 0 or (end is not None and end <= begin):
            return None
        first, count = begin // self.block_size, max(1, FETCHED_BYTES // self.block_size)
        if end is not None:
            count = min(count, -(-end // self.block_size) - first)
        offset = first * self.block_size
        with self.blocks.claim(self.origin.file(path), first, count):
            # Another process may have read it while this one waited.
            if not self.origin.can_read_first(path):
                return None
            found = self.origin.read_first(path, offset, offset + count * self.block_size)
            if found is None:
                return None
            version, data = self._given(found[0]), found[1]
            self._keep(self._place(version), first, memoryview(data))
        logger.debug("fetched %s from byte %d on", path, offset)
        size: int = version.said["size"]
        stop = size if end is None else min(end, size)
        if stop > offset + len(data):
            return self.read(version, begin, stop)
        return data[begin - offset : stop - offset]

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **kwargs: Any) -> Any:
        if mode != "rb":
            return self.fs._open(*self._change(path), mode, block_size, **kwargs)
        version = self._file(path)
        if version.said.get("size") is None:
            return self.fs._open(version.path, mode, block_size, **kwargs)
        return RemoteFile(self, version)

    def read(self, version: Answer, start: int, end: int, ahead: int = 0) -> bytes:
        """Returns a range of a version of a file. What is not cached is fetched, and up to `ahead` bytes behind it."""
        place = self._place(version)
        if (cached := self.blocks.read_range(place, start, end)) is not None:
            return cached
        room = bytearray(end - start)
        with memoryview(room) as out:
            numbers = range(start // self.block_size, -(-end // self.block_size))
            wanted = Wanted(self.blocks, place, start, out)
            missing = [number for number in numbers if not wanted.find(number)]
            for run in runs(missing, max(1, FETCHED_BYTES // self.block_size)):
                follows = ahead // self.block_size if run.stop == numbers.stop else 0
                self._fetch(version, run, follows, wanted)
        return bytes(room)

    def _place(self, version: Answer) -> Place:
        words = f"{version.identity}, blocks of {self.block_size}"
        return Place(self.origin.file(version.path), digest(words)[:16], self.block_size)

    def _fetch(self, version: Answer, run: range, follows: int, wanted: Wanted) -> None:
        """Fetches blocks that follow each other, and up to `follows` behind them, and keeps them."""
        size, place = version.said["size"], wanted.place
        with self.blocks.claim(place.file, run.start, len(run) + follows):
            # Another process may have fetched them while this one waited.
            left = [number for number in run if not wanted.find(number)]
            end = -(-size // self.block_size)
            while left and follows and left[-1] + 1 < end and not self.blocks.has(place, left[-1] + 1):
                left.append(left[-1] + 1)
                follows -= 1
            for part in runs(left, max(1, len(left))):
                data = self._ask_bytes(version, part.start * self.block_size, min(part.stop * self.block_size, size))
                for number, block in self._keep(place, part.start, data):
                    wanted.fill(number, block)

    def _keep(self, place: Place, first: int, data: memoryview) -> list[tuple[int, memoryview]]:
        """Keeps the blocks of fetched bytes, from the block with this number on. Returns them with their numbers."""
        blocks = [data[at : at + self.block_size] for at in range(0, len(data), self.block_size)]
        numbered = list(enumerate(blocks, first))
        for number, block in numbered:
            self.blocks.put(place, number, block)
        return numbered

    def _ask_bytes(self, version: Answer, start: int, end: int) -> memoryview:
        """Fetches a range from the origin. The bytes are those of this version, or an exception is raised."""
        path = version.path
        try:
            data, is_of_version = self.origin.read(version, start, end)
        except (FileNotFoundError, PermissionError):
            raise
        except Exception as error:  # Libraries of services raise exceptions of many classes.
            what = f"bytes {start} to {end} of {path!r} are not cached"
            raise FailedError(f"{what}, and {self.origin.place} does not give them: {error}") from error
        is_of_version = is_of_version or self.origin.look(path).identity == version.identity
        if not is_of_version or len(data) != end - start:
            changed = ReplacedError(f"{path!r} has changed at its origin while it was read; open it again")
            changed.key = path
            raise changed
        logger.debug("fetched bytes %d to %d of %s", start, end, path)
        return memoryview(data)

    # What is cached.

    def cached(self, path: str = "") -> list[Cached]:
        """Describes what is cached of the files at or below a path, and why."""
        below, found = self._strip(path) if path else "", {}
        sizes: dict[str, int] = {}
        for one in self.store.ls(self.blocks.folder):
            file, _, rest = one.key.removeprefix(f"{self.blocks.folder}/").partition("/")
            if rest == INFO and (answer := decoded(self.store.get(one.key))) is not None:
                found[file] = answer
            elif "/" in rest:
                sizes[file] = sizes.get(file, 0) + one.length
        prefix = f"{below}/" if below else ""
        chosen = {
            file: answer
            for file, answer in found.items()
            if file == self.origin.file(answer.path)
            and f"{answer.path}/".startswith(prefix)
            and (answer.said or {}).get("type") != "directory"
        }
        return sorted(self._described(answer, sizes.get(file, 0)) for file, answer in chosen.items())

    def cache_size(self) -> int:
        """Returns the number of cached bytes, of all file systems with this folder."""
        return self.blocks.size()

    def _described(self, answer: Answer, cached: int) -> Cached:
        asked = datetime.fromtimestamp(answer.asked).astimezone()
        age = time.time() - answer.asked
        rule = f"used without asking for {self.origin.check_after:g} s"
        if age >= self.origin.check_after:
            rule = f"the origin, asked {age:.0f} s ago, is asked at the next use"
        if answer.said is None:
            return Cached(answer.path, None, 0, None, asked, f"the origin has no such file; {rule}")
        size = answer.said.get("size")
        why = f"{cached} of {size} bytes were read, of the version with {answer.identity}; {rule}"
        return Cached(answer.path, size, cached, answer.identity, asked, why)

    def pop_from_cache(self, path: str) -> None:
        """Removes what is cached of a file."""
        self.blocks.forget(self.origin.file(self._strip(path)))

    def clear_cache(self) -> None:
        """Removes all that is cached, of all file systems with this folder."""
        for found in self.store.ls(self.blocks.folder):
            self.blocks.remove(found.key)

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forgets what the origin said about a path, or about all; blocks stay, for a version that is still there."""
        chosen = None if path is None else self.origin.file(self._strip(path))
        for found in self.store.ls(self.blocks.folder if chosen is None else f"{self.blocks.folder}/{chosen}"):
            if found.key.rpartition("/")[2] in (INFO, LISTING):
                self.blocks.remove(found.key)
        self.fs.invalidate_cache(path)

    # Changing files.

    def _change(self, *paths: str) -> list[str]:
        stripped: list[str] = self._strip(list(paths))
        self.origin.note_writing(*stripped)
        return stripped

    def rm_file(self, path: str) -> None:
        self.fs.rm_file(*self._change(path))

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        paths = [path] if isinstance(path, str) else path
        below = [one for path in paths if recursive for one in self.find(path, withdirs=True)]
        self._change(*below)
        self.fs.rm(self._change(*paths), recursive=recursive, maxdepth=maxdepth)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        self.fs.cp_file(self._strip(path1), *self._change(path2), **kwargs)

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        self.fs.mkdir(*self._change(path), create_parents=create_parents, **kwargs)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.fs.makedirs(*self._change(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self.fs.rmdir(*self._change(path))


class RemoteFile(AbstractBufferedFile):  # type: ignore[misc]
    """A version of a remote file, open for reading. As much is fetched ahead as was read in sequence."""

    def __init__(self, fs: TerraceCache, version: Answer) -> None:
        super().__init__(fs, version.path, "rb", fs.block_size, cache_type="none", size=version.said["size"])
        self.version = version
        self._next = 0
        self._sequential = 0

    @property
    def details(self) -> dict[str, Any]:
        return dict(self.version.said)

    def _fetch_range(self, start: int, end: int) -> bytes:
        end = min(end, self.size)
        if start >= end:
            return b""
        self._sequential = self._sequential if start == self._next else 0
        read: bytes = self.fs.read(self.version, start, end, min(self._sequential, AHEAD_BYTES))
        self._next, self._sequential = end, self._sequential + end - start
        return read

    def __reduce__(self) -> tuple[Any, ...]:
        return reopened, (self.fs, self.version, self.tell())


def reopened(fs: TerraceCache, version: Answer, at: int) -> RemoteFile:
    """Restores a pickled file, of the version that was open."""
    file = RemoteFile(fs, version)
    file.seek(at)
    return file


def runs(numbers: list[int], most: int) -> Iterator[range]:
    """Yields the ranges of numbers that follow each other, each of at most `most` numbers."""
    run = range(0)
    for number in numbers:
        if run and number == run.stop and len(run) < most:
            run = range(run.start, number + 1)
            continue
        if run:
            yield run
        run = range(number, number + 1)
    if run:
        yield run
