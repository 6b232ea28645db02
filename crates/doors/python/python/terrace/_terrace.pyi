"""The native half of the package, which calls the engine."""

import builtins
from collections.abc import Callable, Sequence
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, TypedDict, Unpack

from _typeshed import ReadableBuffer
from _typeshed import WriteableBuffer as WriteableBuffer
from numpy.typing import NDArray

# Type checkers know that arrays are buffers only from Python 3.12 on.
Buffer: TypeAlias = ReadableBuffer | NDArray[Any]
Key: TypeAlias = str | bytes | PathLike[str]
Progress: TypeAlias = Callable[[int, int], object]
Ack: TypeAlias = Literal["placed", "replicated", "durable"]
Requirement: TypeAlias = bool | int

__version__: str

class Options(TypedDict, total=False):
    """Requirements of a store or a call. The number of a requirement is a number of replicas."""

    require: str | list[str]
    replicas: int | None
    ack: Ack | None
    weights: str | tuple[float, float, float] | None
    budget: str | None
    max_latency: float | timedelta | None
    tiers: str | Sequence[str] | None
    element: str | None
    create_new: bool
    min_read_latency: Requirement
    max_read_bandwidth: Requirement
    max_read_availability: Requirement
    max_write_availability: Requirement
    max_durability: Requirement
    max_load_balance: Requirement
    min_energy: Requirement
    min_write_latency: Requirement
    max_write_bandwidth: Requirement
    min_storage: Requirement

class Receipt:
    """The state that a write has reached; `Store.wait` updates it."""

    @property
    def key(self) -> str: ...
    @property
    def object(self) -> int: ...
    @property
    def generation(self) -> int:
        """The commit that made the write visible."""
    @property
    def want(self) -> int:
        """The planned number of replicas of each extent."""
    @property
    def asked(self) -> int:
        """The requested number of replicas; more than `want` if there are too few failure domains."""
    @property
    def have(self) -> int:
        """The smallest number of replicas of an extent so far."""
    @property
    def durable(self) -> bool:
        """Whether the write survives a power failure."""
    @property
    def owed(self) -> int:
        """The number of pending replicas."""
    @property
    def owed_to(self) -> list[tuple[str, str, int]]:
        """For each target with pending replicas: its tier, its path, and their number."""
    @property
    def bytes(self) -> int:
        """The number of bytes written, before encoding and replication."""
    @property
    def stored(self) -> int:
        """The size of the replicas that the call itself has made."""

class Object:
    """The attributes of an object. `mtime` is in nanoseconds since 1970."""

    @property
    def key(self) -> str: ...
    @property
    def length(self) -> int: ...
    @property
    def kind(self) -> Literal["file", "directory", "link"]: ...
    @property
    def id(self) -> int: ...
    @property
    def generation(self) -> int: ...
    @property
    def replicas(self) -> int: ...
    @property
    def mode(self) -> int: ...
    @property
    def mtime(self) -> int: ...
    @property
    def attributes(self) -> dict[str, str]: ...

class Moment:
    """A moment in the history of a store: while it equals the present one, no object has changed."""

class Store:
    def __new__(cls, directory: str | PathLike[str], **application: Unpack[Options]) -> Self: ...
    @staticmethod
    def init(directory: str | PathLike[str], config: str | PathLike[str] | None = None) -> None: ...
    @property
    def directory(self) -> Path: ...
    @property
    def application(self) -> Options: ...
    @property
    def block(self) -> int:
        """The number of bytes that are planned at a time."""
    def close(self) -> None:
        """Waits at most a minute until no replica is pending and everything is durable, and closes the store."""
    def put(
        self,
        key: Key,
        data: Buffer,
        *,
        attributes: dict[str, str] | None = None,
        progress: Progress | None = None,
        **keywords: Unpack[Options],
    ) -> Receipt: ...
    def put_file(
        self,
        path: str | PathLike[str],
        key: Key,
        *,
        progress: Progress | None = None,
        **keywords: Unpack[Options],
    ) -> Receipt:
        """Writes a file as an object, with its modification time and mode, in bounded memory."""
    def get_file(self, key: Key, path: str | PathLike[str], *, progress: Progress | None = None) -> int:
        """Writes an object to a file. Returns its length."""
    def write_at(self, key: Key, offset: int, data: Buffer, **keywords: Unpack[Options]) -> Receipt:
        """Writes a range of an object, which is created if it does not exist. Other ranges stay unchanged, even while
        others write them."""
    def append(self, key: Key, data: Buffer, **keywords: Unpack[Options]) -> tuple[int, Receipt]:
        """Appends to an object, which is created if it does not exist. Returns the position of the bytes. Concurrent
        appends lose no bytes."""
    def set_length(self, key: Key, length: int) -> None:
        """Truncates an object, or extends it with zeros."""
    def get(self, key: Key) -> bytes:
        """Returns the whole object."""
    def read(self, key: Key, start: int = 0, end: int | None = None) -> bytes:
        """Returns the bytes from `start` up to, not including, `end`; fewer only at the object's end."""
    def read_into(self, key: Key, out: WriteableBuffer | NDArray[Any], offset: int = 0) -> int:
        """Fills a buffer from byte `offset` on. Returns the number of bytes read."""
    def read_joined(self, keys: Sequence[Key], whole: int, offset: int, length: int) -> bytes | None:
        """Returns a range of objects that follow each other, each of `whole` bytes except the last one, from byte
        `offset` of the first one on; `None` if an object is gone, cannot be read, or is too short."""
    def get_made(self, key: Key, make: Callable[[Object], WriteableBuffer]) -> Any:
        """Reads a whole object into the buffer that `make` returns for it. Returns the buffer."""
    def stat(self, key: Key) -> Object: ...
    def find(self, key: Key) -> Object | None:
        """Returns an object's attributes, or `None` if no object has the key."""
    def moment(self) -> Moment | None:
        """Returns the present moment; `None` where several nodes share the store."""
    def page(self, prefix: Key, after: Key | None, limit: int) -> list[Object]: ...
    def set_attributes(self, key: Key, attributes: dict[str, str]) -> None:
        """Replaces the attributes that `put` takes."""
    def delete(self, key: Key) -> None: ...
    def rename(self, key: Key, to: Key) -> None:
        """Gives an object another key, and replaces an object of that key. No bytes move."""
    def copy(self, key: Key, to: Key) -> None:
        """Copies an object. Both share the stored bytes until one of them changes."""
    def wait(self, receipt: Receipt, level: Ack) -> None:
        """Waits until a write has reached a level, and updates the receipt."""
    def sync(self) -> None:
        """Waits until no replica is pending and everything is durable."""
    def stage(self, prefix: Key, tier: str, limit: int | None = None) -> dict[str, Any]:
        """Fetches up to `limit` bytes of what origins have at or below a prefix, and copies all of it to a tier.
        Returns what was done, as `terrace stage --json` prints it."""
    def evict(self, prefix: Key, tier: str) -> dict[str, Any]:
        """Removes everything at or below a prefix from a tier; other tiers get what would have too few replicas.
        Returns what was done, as `terrace evict --json` prints it."""
    def locate(self, key: Key) -> dict[str, Any]:
        """Returns the position and the encoding of each extent, as `terrace locate --json` prints them."""
    def status(self) -> dict[str, Any]:
        """Returns the state of the store, as `terrace status --json` prints it."""
    def health(self) -> dict[str, Any]:
        """Returns how safe the data is, as `terrace health --json` prints it."""
    def plan(
        self, key: Key, data: Buffer, what_if: list[str] = ..., **keywords: Unpack[Options]
    ) -> tuple[dict[str, Any], str]: ...

class Stat:
    """The attributes of a file. Times are nanoseconds since 1970."""

    @property
    def id(self) -> int | None: ...
    @property
    def kind(self) -> Literal["file", "directory", "link"]: ...
    @property
    def length(self) -> int: ...
    @property
    def mode(self) -> int: ...
    @property
    def uid(self) -> int: ...
    @property
    def gid(self) -> int: ...
    @property
    def modified(self) -> int: ...
    @property
    def changed(self) -> int: ...

class Files:
    """A store's objects as a tree of files."""

    def __new__(cls, store: Store) -> Self: ...
    def stat(self, path: Key) -> Stat: ...
    def list(self, path: Key) -> list[tuple[str, Stat]]: ...
    def make_directory(self, path: Key) -> None: ...
    def remove(self, path: Key) -> None: ...
    def remove_directory(self, path: Key) -> None: ...
    def rename(self, path: Key, to: Key) -> None: ...
    def create_unnamed(self) -> File:
        """Creates a file that is invisible until `name` gives it a name. It is deleted if it is closed without one."""
    def name(self, file: File, path: Key, replace: bool) -> None: ...
    def open(self, path: Key, writes: bool = False) -> File: ...
    def create(self, path: Key, exclusive: bool = False) -> File: ...
    def sync(self) -> None: ...

class File:
    """An open file."""

    def stat(self) -> Stat: ...
    def read_into(self, offset: int, out: WriteableBuffer) -> int: ...
    def read_rest(self, offset: int) -> bytes: ...
    def write_at(self, offset: int, data: Buffer) -> int: ...
    def append(self, data: Buffer) -> int:
        """Appends bytes. Returns their position as far as it is known, because other writers may append before the
        bytes reach the store."""
    def set_length(self, length: int) -> None: ...
    def flush(self) -> None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...

class Dataset:
    def __new__(cls, store: Store, name: str) -> Self: ...
    @staticmethod
    def add(store: Store, name: str, declaration: str) -> None: ...
    @staticmethod
    def describe_file(
        path: str | PathLike[str],
    ) -> tuple[str, str, builtins.list[tuple[str, str]], builtins.list[str]]:
        """Describes a file in another format: the format, a declaration with a replica, the variables with their
        paths in the file, and what is left out."""
    @staticmethod
    def list(store: Store) -> builtins.list[str]: ...
    @staticmethod
    def remove(store: Store, name: str) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def declaration(self) -> str:
        """The declaration, in the language of datasets."""
    @property
    def views(self) -> builtins.list[str]:
        """The names of the views, in the order of the declaration."""
    @property
    def replicas(self) -> builtins.list[tuple[str, builtins.list[str], bool]]:
        """For each replica: its name, the keys of its files, and whether it lacks bytes."""
    @property
    def modified(self) -> int:
        """When a replica last changed, in nanoseconds since 1970."""
    def describe(self) -> builtins.list[tuple[str, tuple[str | None, builtins.list[int], Any]]]:
        """Returns the attributes of the dataset: the name, and the value's type in NumPy's terms, lengths, and bytes or
        texts."""
    def explain(self) -> dict[str, Any]:
        """Describes all views and replicas and the places of their bytes, as `terrace dataset explain --json` does."""
    def edit(self, declaration: str) -> None:
        """Replaces the attributes, views and replicas. The rest of the dataset section cannot change."""
    def settle(self) -> None:
        """Brings all replicas up to date, including asynchronous ones."""
    def repair(self, accept_loss: bool = False) -> dict[str, int]:
        """Rebuilds damaged, deleted and pending bytes of the replicas from other replicas."""

class View:
    def __new__(cls, store: Store, dataset: str, name: str) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def length(self) -> int:
        """The length in bytes."""
    @property
    def read_only(self) -> bool: ...
    def describe(self) -> list[dict[str, Any]] | None: ...
    def read_into(self, offset: int, out: WriteableBuffer | NDArray[Any]) -> int:
        """Fills a buffer from byte `offset` on, with the bytes of one moment. Returns the number of bytes read."""
    def write_at(self, offset: int, data: Buffer) -> None:
        """Writes bytes at an offset. All views show them at once."""
    def export(self, format: Literal["hdf5", "zarr", "references"], path: str | PathLike[str]) -> None:
        """Exports the view to a new file or, for Zarr, to a new folder."""
    def close(self) -> None:
        """Updates the replicas that wait until a view is closed."""

class Stream:
    def __new__(cls, store: Store, name: str, level: Ack) -> Self: ...
    @staticmethod
    def list(store: Store) -> builtins.list[str]: ...
    @property
    def name(self) -> str: ...
    @property
    def is_running(self) -> bool:
        """Whether a process delivers the stream now."""
    def append(
        self, requests: Sequence[tuple[Key, int | None, Buffer]], producer: Key | None = None, sequence: int = 1
    ) -> int:
        """Appends all or none of the requests: destination, offset (`None` appends), bytes. With a producer, they are
        its requests from number `sequence` on. Returns the number of those that are new."""
    def next_of(self, producer: Key) -> int: ...
    def count_backlog(self) -> tuple[int, int, float | None]: ...
    def done(self) -> dict[str, int]:
        """Returns the numbers of requests, files and bytes that were delivered in all runs."""
    def deliver(self, directory: str | PathLike[str]) -> int:
        """Delivers the requests to files in a directory, and returns their number once there are no more."""

class Origins:
    def __new__(cls, store: Store) -> Self: ...
    def add(
        self,
        prefix: str,
        place: str | PathLike[str],
        options: dict[str, str],
        max_age: float | timedelta | None,
    ) -> None: ...
    def list(self) -> builtins.list[dict[str, Any]]: ...
    def remove(self, prefix: str) -> dict[str, Any]: ...
    def fetch(
        self, prefix: Key, limit: int | None = None, progress: Callable[[int], object] | None = None
    ) -> dict[str, int]: ...

class Dumps:
    def __new__(cls, store: Store) -> Self: ...
    def list(self) -> dict[str, builtins.list[int]]:
        """Returns the complete versions of each dump, oldest first."""
    def make(self, name: str, buffers: Sequence[Buffer]) -> int:
        """Dumps buffers as the only rank. Returns the version."""
    def restore(self, name: str, version: int | None = None) -> tuple[int, dict[int, builtins.list[bytes]]]:
        """Restores the newest whole version of a dump, or this one: the buffers of each rank. Returns the version with
        them."""
    def keep(self, name: str, newest: int) -> builtins.list[int]:
        """Drops all but the newest versions of a dump. Returns those dropped."""
