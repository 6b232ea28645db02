"""Terrace for fsspec, and thereby for pandas, xarray, dask, pyarrow, h5py and Zarr: `terrace://key`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.spec import AbstractBufferedFile

from terrace import _terrace, zarr
from terrace._errors import ConflictError
from terrace._file import Mode, RawFile, buffered
from terrace._store import Store
from terrace._transaction import COPIED, deferred
from terrace.cache import TerraceCache

BUFFER = 64 << 10


class TerraceFileSystem(ChainedFileSystem):  # type: ignore[misc]
    """A store's objects as files.

    `store` is the store's directory; the default is `TERRACE_STORE`. `options` are the keywords of `terrace.Store`:
    `fsspec.filesystem("terrace", store="/scratch/store", options={"min_storage": True})`.

    With `target_protocol` or `fs`, as in the URL `terrace::s3://bucket/key`, it is a `terrace.cache.TerraceCache` of
    another file system instead.
    """

    protocol = "terrace"
    root_marker = ""
    local_file = False
    _strip_tokenize_options = ("fo",)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # fsspec has one class for a protocol, whether or not it is the front of a chain.
        if kwargs.get("target_protocol") or kwargs.get("fs"):
            return TerraceCache(*args, **kwargs)
        return super().__new__(cls)

    def __init__(
        self, store: str | os.PathLike[str] | None = None, options: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.store = Store(store, **(options or {}))
        self.files = _terrace.Files(self.store)
        self._strip_protocol = self._strip  # type: ignore[method-assign]

    @property
    def fsid(self) -> str:
        return f"terrace:{self.store.directory}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        # The path of a URL without one is `None` for fsspec, if its class can be the front of a chain.
        name = os.fspath(path or "")
        # It may be a path of the file system that is cached, where the first slash counts.
        first = "/" if name.startswith("/") else ""
        return first + name.removeprefix("terrace://").removeprefix("terrace::").strip("/")

    def _strip(self, path: Any) -> Any:
        stripped = type(self)._strip_protocol(path)
        return [name.strip("/") for name in stripped] if isinstance(stripped, list) else stripped.strip("/")

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return described(path, self.files.stat(path))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        stat = self.files.stat(path)
        if stat.kind != "directory":
            found = [described(path, stat)]
        else:
            below = f"{path}/" if path else ""
            found = [described(below + name, stat) for name, stat in self.files.list(path)]
        return found if detail else [one["name"] for one in found]

    def created(self, path: str) -> datetime:
        return self.modified(path)

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def ukey(self, path: str) -> str:
        stat = self.store.stat(self._strip_protocol(path))
        return f"{stat.id}-{stat.generation}"

    checksum = ukey

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if create_parents and (parent := self._parent(path)):
            self.makedirs(parent, exist_ok=True)
        self.files.make_directory(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if self.isdir(path):
            if not exist_ok:
                raise FileExistsError(f"{path!r} is there already")
            return
        if parent := self._parent(path):
            self.makedirs(parent, exist_ok=True)
        try:
            self.files.make_directory(path)
        except FileExistsError:
            if not (exist_ok and self.isdir(path)):
                raise

    def rmdir(self, path: str) -> None:
        self.files.remove_directory(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        self.files.remove(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        for one in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
            if not self.isdir(one):
                self.rm_file(one)
            elif not recursive:
                raise IsADirectoryError(f"{one!r} is a directory; recursive=True removes it")
            elif self.exists(one):
                self.rmdir(one)

    def mv_file(self, path1: str, path2: str, **_: Any) -> None:
        self.files.rename(self._strip_protocol(path1), self._strip_protocol(path2))

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if maxdepth is not None or has_magic(source) or not self.exists(source):
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
            return
        if self.isdir(target):
            target = f"{target}/{source.rpartition('/')[2]}"
        self._make_parent(target)
        self.files.rename(source, target)

    def get(self, rpath: Any, lpath: Any, recursive: bool = False, **kwargs: Any) -> None:
        super().get(rpath, inside(rpath, lpath, os.path.isdir) if recursive else lpath, recursive, **kwargs)

    def copy(self, path1: Any, path2: Any, recursive: bool = False, **kwargs: Any) -> None:
        super().copy(path1, inside(path1, path2, self.isdir) if recursive else path2, recursive, **kwargs)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(source):
            return self.makedirs(target, exist_ok=True)
        with self._open(source, "rb") as reader:
            if source != target:
                self._replace(target, reader)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        if (start or 0) < 0 or (end or 0) < 0:
            start, end, _step = slice(start, end).indices(self.files.stat(path).length)
        return self.store.read(path, start or 0, end)

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(path)
        if self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb") as file:
                file.write(value)
            return
        if (found := self.store.find(path)) is not None and found.kind == "directory":
            raise IsADirectoryError(f"{path!r} is a directory")
        element = zarr.element(self.store, path)
        try:
            self.store.put(path, value, element=element, create_new=mode == "create")
        except ConflictError as error:
            if mode == "create" and self.exists(path):
                raise FileExistsError(f"{path!r} is there already") from error
            raise

    def put_file(
        self, lpath: str, rpath: str, callback: Callback = DEFAULT_CALLBACK, mode: str = "overwrite", **_: Any
    ) -> None:
        path = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            return self.makedirs(path, exist_ok=True)
        if self._intrans:
            with open(lpath, "rb") as source, self.open(path, "xb" if mode == "create" else "wb") as target:
                callback.set_size(os.fstat(source.fileno()).st_size)
                while piece := source.read(COPIED):
                    callback.relative_update(target.write(piece))
            return
        try:
            self.store.put_file(lpath, path, progress=teller(callback), create_new=mode == "create")
        except ConflictError as error:
            if mode == "create" and self.exists(path):
                raise FileExistsError(f"{path!r} is there already") from error
            raise

    def get_file(
        self, rpath: str, lpath: Any, callback: Callback = DEFAULT_CALLBACK, outfile: Any = None, **kwargs: Any
    ) -> None:
        path = self._strip_protocol(rpath)
        if outfile is not None or hasattr(lpath, "write"):
            super().get_file(rpath, lpath, callback=callback, outfile=outfile, **kwargs)
            return
        if self.isdir(path):
            return os.makedirs(lpath, exist_ok=True)
        self.files.stat(path)
        if parent := os.path.dirname(lpath):
            os.makedirs(parent, exist_ok=True)
        self.store.get_file(path, lpath, progress=teller(callback))

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_type: str | None = None,
        **kwargs: Any,
    ) -> Any:
        path, parsed = self._strip_protocol(path), Mode.parse(mode)
        buffer = block_size if isinstance(block_size, int) and block_size > 0 else BUFFER
        if not parsed.writes and cache_type is not None:
            # A caller that names a cache, like `blockcache::`, has a buffer of its own.
            self.files.open(path).close()
            return CachedFile(self, path, mode, buffer, cache_type=cache_type, **kwargs)
        if parsed.writes and not autocommit:
            file = deferred(self, path, mode, buffer)
            if parsed.kind == "r":
                # fsspec treats these as readers, and does not commit them itself.
                self.transaction.files.append(file)
            return file
        if parsed.kind == "r":
            native = self.files.open(path, parsed.writes)
        else:
            self._make_parent(path)
            native = self.files.create(path, exclusive=parsed.kind == "x")
            if parsed.kind == "w":
                native.set_length(0)
        return buffered(RawFile(native, path, mode, appends=parsed.kind == "a"), self, path, buffer)

    def _replace(self, path: str, source: Any) -> None:
        """Replaces a file with all bytes of another one, atomically."""
        if self._intrans:
            with self.open(path, "wb") as target:
                shutil.copyfileobj(source, target, COPIED)
            return
        target = deferred(self, path, "wb", BUFFER)
        try:
            shutil.copyfileobj(source, target, COPIED)
        except BaseException:
            target.discard()
            raise
        target.commit()

    def sync(self) -> None:
        """Makes all written bytes durable."""
        self.files.sync()

    def _make_parent(self, path: str) -> None:
        if (parent := self._parent(path)) and not self.exists(parent):
            self.makedirs(parent, exist_ok=True)


class CachedFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read through one of fsspec's caches."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        fetched: bytes = self.fs.cat_file(self.path, start, end)
        return fetched


def described(path: str, stat: _terrace.Stat) -> dict[str, Any]:
    """Describes a file for fsspec, with times in seconds since 1970."""
    facts = {"mode": stat.mode, "uid": stat.uid, "gid": stat.gid, "ino": stat.id}
    times = {"mtime": stat.modified / 1e9, "created": stat.changed / 1e9}
    return {"name": path, "size": stat.length, "type": stat.kind, **facts, **times}


def teller(callback: Callback) -> Any:
    """Returns a function that reports the progress of a copy to a callback of fsspec, or `None` for the default one."""
    if callback is DEFAULT_CALLBACK:
        return None

    def tell(done: int, total: int) -> None:
        callback.set_size(total)
        callback.absolute_update(done)

    return tell


def inside(source: Any, target: Any, is_directory: Callable[[str], bool]) -> Any:
    """Returns the destination of a directory in the root: below an existing directory. fsspec itself considers this
    only for directories in other directories."""
    if not (isinstance(source, str) and isinstance(target, str)) or source.endswith("/") or has_magic(source):
        return target
    name = TerraceFileSystem._strip_protocol(source)
    at_root = name and "/" not in name
    return f"{target.rstrip('/')}/{name}" if at_root and (target.endswith("/") or is_directory(target)) else target


def has_magic(path: str) -> bool:
    """Returns whether a path is a pattern."""
    return any(mark in path for mark in "*?[")
