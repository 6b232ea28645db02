"""`Store`: the native store, with NumPy arrays, iteration, and printable explanations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terrace import _arrays, _terrace
from terrace._dataset import Dataset
from terrace._explain import Explanation
from terrace._import import import_dataset
from terrace._stream import Stream

if TYPE_CHECKING:
    from typing import Self, Unpack

    from numpy.typing import NDArray

    from terrace._terrace import Ack, Buffer, Key, Object, Options, Progress, Receipt

PAGE = 1000
PUTS_AT_ONCE = 8
OWN = b".terrace"
"""The store's own objects are below this name."""


def default_directory() -> Path:
    """Returns the default store: `TERRACE_STORE`, or the one in the user's data directory."""
    if named := os.environ.get("TERRACE_STORE"):
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data.startswith("/") else Path.home() / ".local/share") / "terrace"


class Store(_terrace.Store):
    """An open store. Many threads may use it at once, and so may the child of a process that forks.

    Keywords are the application's requirements, and are the same as those of `put`: `min_storage=True`,
    `max_durability=4`, `replicas=2`, `ack="durable"`, `weights="archival"`, `budget="3x"`,
    `max_latency=0.005` (seconds, for the first replica), `tiers=["ram", "disk"]` (the only ones to use).
    """

    _threads: dict[int, ThreadPoolExecutor]
    """The threads that put objects, of each process."""

    def __new__(cls, directory: str | os.PathLike[str] | None = None, **application: Unpack[Options]) -> Self:
        made = super().__new__(cls, directory or default_directory(), **application)
        made._threads = {}
        return made

    @classmethod
    def create(
        cls,
        directory: str | os.PathLike[str],
        config: str | os.PathLike[str] | None = None,
        **application: Unpack[Options],
    ) -> Self:
        """Makes a store with the tiers of the configuration file `config`, or with the tiers found on this machine."""
        _terrace.Store.init(directory, config)
        return cls(directory, **application)

    def put(
        self,
        key: Key,
        data: Buffer,
        *,
        attributes: dict[str, str] | None = None,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> Receipt:
        """Writes a whole object, and replaces an earlier object of the key atomically.

        `data` is any object with a buffer, and must not be changed until the call returns. The dtype and shape of a
        NumPy array or scalar are stored with it, so that `get_array` can restore it. `progress` is called with the
        number of bytes done and the total number.
        """
        data = _arrays.as_array(data)
        if _arrays.is_array(data):
            options.setdefault("element", _arrays.element(data.dtype))
            data, described = _arrays.laid_out(data)
            attributes = described | (attributes or {})
        return super().put(key, data, attributes=attributes, progress=progress, **options)

    def put_async(
        self,
        key: Key,
        data: Buffer,
        *,
        attributes: dict[str, str] | None = None,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> Future[Receipt]:
        """Starts `put` in another thread. `data` must not be changed until the future is done.

        Eight of them run at once, and others wait. `close` waits for all.
        """
        # The threads do not exist in the child of a fork, which makes its own.
        threads = self._threads.setdefault(os.getpid(), ThreadPoolExecutor(PUTS_AT_ONCE, "terrace-put"))
        return threads.submit(self.put, key, data, attributes=attributes, progress=progress, **options)

    def close(self) -> None:
        if threads := self._threads.pop(os.getpid(), None):
            threads.shutdown()
        super().close()

    def get_array(self, key: Key) -> NDArray[Any]:
        """Returns the NumPy array that was put under a key."""
        made: list[NDArray[Any]] = []

        def make(stat: Object) -> memoryview:
            made.append(_arrays.empty(stat))
            return _arrays.room(made[-1])

        self.get_made(key, make)
        return made[-1]

    def ls(self, prefix: Key = "") -> Iterator[Object]:
        """Iterates over the objects at or below `prefix` in key order. The store's own objects are left out unless
        `prefix` names them."""
        after: Key | None = None
        asked = os.fsencode(prefix).split(b"/")[0] == OWN
        while page := self.page(prefix, after, PAGE):
            yield from (found for found in page if asked or os.fsencode(found.key).split(b"/")[0] != OWN)
            after = page[-1].key

    def explain(
        self,
        key: Key,
        data: Buffer | None = None,
        *,
        what_if: Sequence[str] = (),
        **options: Unpack[Options],
    ) -> Explanation:
        """Explains how the store would place bytes, or the object of the key, without writing anything.

        `what_if` assumes other properties of tiers: `["tier.nvme.capacity=2TiB"]`.
        """
        data = _arrays.as_array(data)
        if _arrays.is_array(data):
            options.setdefault("element", _arrays.element(data.dtype))
            data = _arrays.laid_out(data)[0]
        block = self.read(key, 0, self.block) if data is None else memoryview(data).cast("B")[: self.block]
        return Explanation(*self.plan(key, block, list(what_if), **options))

    def dataset(self, name: str) -> Dataset:
        """Opens a dataset, whose views are arrays: `store.dataset("particles")["fields"]["x"][10:20]`."""
        return Dataset(self, name)

    def add_dataset(self, name: str, declaration: str) -> Dataset:
        """Adds a dataset. `declaration` is a text in the language of datasets. Elements are fill values, or zero."""
        Dataset.add(self, name, declaration)
        return Dataset(self, name)

    def import_dataset(self, name: str, path: str | os.PathLike[str]) -> Dataset:
        """Adds a dataset with the variables, values, attributes, dimension names and fill values of an HDF5, NetCDF or
        NumPy file, or of the folder of a Zarr array or group.

        Values are copied as they are stored, without masks and scales, in pieces of about 8 MiB. What a dataset cannot
        express is left out with a warning. If the import fails, there is no such dataset.
        """
        return import_dataset(self, name, path)

    def remove_dataset(self, name: str) -> None:
        """Removes a dataset with all its replicas."""
        Dataset.remove(self, name)

    def datasets(self) -> list[str]:
        """Returns the names of all datasets."""
        return Dataset.list(self)

    def stream(self, name: str, ack: Ack = "placed") -> Stream:
        """Opens a stream; the first request makes it. `ack` says when a request counts as accepted."""
        return Stream(self, name, ack)

    def streams(self) -> list[str]:
        """Returns the names of all streams."""
        return Stream.list(self)

    @property
    def dumps(self) -> _terrace.Dumps:
        """The dumps in this store."""
        return _terrace.Dumps(self)

    def add_origin(
        self,
        prefix: str,
        place: str | os.PathLike[str],
        options: dict[str, str] | None = None,
        *,
        max_age: float | timedelta | None = None,
    ) -> None:
        """Shows the files of a directory or a URL (`s3://BUCKET/PATH`, `https://...`) below a prefix. Nothing is copied
        before it is read. `options` are those of the service; names are asked for again after `max_age` seconds (60).
        """
        self._origins.add(prefix, place, options or {}, max_age)

    def origins(self) -> list[dict[str, Any]]:
        """Returns the origins, and how much of each the store has, as `terrace origin ls --json` prints them."""
        return self._origins.list()

    def remove_origin(self, prefix: str) -> dict[str, Any]:
        """Removes the names of an origin, and the bytes that the store has of it. Returns what the store had. The
        origin itself stays as it is."""
        return self._origins.remove(prefix)

    def fetch_origins(
        self, prefix: Key, *, limit: int | None = None, progress: Callable[[int], object] | None = None
    ) -> dict[str, int]:
        """Fetches files of origins at or below `prefix` before they are read, up to `limit` bytes of them. `progress`
        is called with the number of bytes so far, in another thread.

        Returns the number of `files`, the bytes that were `fetched`, those `left` at the origin, and the number of
        files that it `refused` to show.
        """
        return self._origins.fetch(prefix, limit, progress)

    @property
    def _origins(self) -> _terrace.Origins:
        return _terrace.Origins(self)

    def __contains__(self, key: Key) -> bool:
        return self.find(key) is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return reopened, (type(self), self.directory, self.application)

    def __repr__(self) -> str:
        return f"Store({str(self.directory)!r})"


def reopened(cls: type[Store], directory: Path, application: Options) -> Store:
    """Restores a pickled store."""
    return cls(directory, **application)
