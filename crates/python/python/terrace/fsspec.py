"""Terrace for fsspec, and so for pandas, xarray, dask, pyarrow, h5py and Zarr: `terrace://key`."""

from __future__ import annotations

import io
import os
import shutil
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.spec import AbstractFileSystem

from terrace import _terrace, zarr
from terrace._errors import ConflictError
from terrace._file import RawFile, opened
from terrace._store import Store, default_directory

BUFFER = 64 << 10
COPIED = 4 << 20


class TerraceFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """A store's objects as files.

    `store` is the store's directory; without it, `TERRACE_STORE`. `options` are the keywords of `terrace.Store`:
    `fsspec.filesystem("terrace", store="/scratch/store", options={"min_storage": True})`.
    """

    protocol = "terrace"
    root_marker = ""
    local_file = False

    def __init__(
        self, store: str | os.PathLike[str] | None = None, options: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.store = Store(store, **(options or {}))
        self.files = _terrace.Files(self.store)

    @property
    def fsid(self) -> str:
        return f"terrace:{self.store.directory}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return os.fspath(path).removeprefix("terrace://").removeprefix("terrace::").strip("/")

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
        with self._open(source, "rb") as reader, self._open(target, "wb") as writer:
            shutil.copyfileobj(reader, writer, COPIED)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        if (start or 0) < 0 or (end or 0) < 0:
            start, end, _step = slice(start, end).indices(self.files.stat(path).length)
        return self.store.read(path, start or 0, end)

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(path)
        if self.isdir(path):
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
        if mode == "create" and self.exists(path):
            raise FileExistsError(f"{path!r} is there already")
        self.store.put_file(lpath, path, progress=teller(callback))

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
        self, path: str, mode: str = "rb", block_size: int | str | None = None, autocommit: bool = True, **_: Any
    ) -> Any:
        path = self._strip_protocol(path)
        kind, both = mode.replace("b", "").replace("t", "").replace("+", "") or "r", "+" in mode
        if kind == "r":
            file, name = self.files.open(path), path
        else:
            # What a transaction writes gets its name when it ends.
            name = path if autocommit else f"{path}.uncommitted-{uuid.uuid4().hex}"
            self._make_parent(path)
            file = self.files.create(name, exclusive=kind == "x")
            if kind == "w":
                file.set_length(0)
        raw = RawFile(file, path, reads=kind == "r" or both, writes=kind != "r" or both, appends=kind == "a")

        def commit() -> None:
            if name != path:
                self.files.rename(name, path)

        def discard() -> None:
            if name != path:
                self.files.remove(name)

        return opened(raw, block_size if isinstance(block_size, int) else BUFFER, commit, discard)

    def sync(self) -> None:
        """Makes durable all that was written."""
        self.files.sync()

    def _make_parent(self, path: str) -> None:
        if (parent := self._parent(path)) and not self.exists(parent):
            self.makedirs(parent, exist_ok=True)


def described(path: str, stat: _terrace.Stat) -> dict[str, Any]:
    """A file as fsspec tells of it; times in seconds since 1970."""
    facts = {"mode": stat.mode, "uid": stat.uid, "gid": stat.gid, "ino": stat.id}
    times = {"mtime": stat.modified / 1e9, "created": stat.changed / 1e9}
    return {"name": path, "size": stat.length, "type": stat.kind, **facts, **times}


def teller(callback: Callback) -> Any:
    """Tells a callback of fsspec's how far a copy is; none where it does not want to know."""
    if callback is DEFAULT_CALLBACK:
        return None

    def tell(done: int, total: int) -> None:
        callback.set_size(total)
        callback.absolute_update(done)

    return tell


def inside(source: Any, target: Any, is_directory: Callable[[str], bool]) -> Any:
    """Where a directory that lies in the root goes: below a directory that is there. fsspec by itself sees that only of
    directories in other directories."""
    if not (isinstance(source, str) and isinstance(target, str)) or source.endswith("/") or has_magic(source):
        return target
    name = TerraceFileSystem._strip_protocol(source)
    at_root = name and "/" not in name
    return f"{target.rstrip('/')}/{name}" if at_root and (target.endswith("/") or is_directory(target)) else target


def has_magic(path: str) -> bool:
    """Whether a path is a pattern."""
    return any(mark in path for mark in "*?[")
