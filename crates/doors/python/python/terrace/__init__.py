"""Terrace keeps replicas of data on every tier of storage: RAM, NVMe, disks, a parallel file system."""

from terrace._dataset import Dataset, Variable, View
from terrace._errors import (
    BadKeyError,
    CatalogError,
    ConfigError,
    ConflictError,
    DatasetError,
    DumpError,
    FailedError,
    NoSpaceError,
    NotFoundError,
    NotPermittedError,
    ReadOnlyError,
    RefusedError,
    ReplacedError,
    StillOwedError,
    StoreError,
    StreamError,
    TerraceError,
    TooLargeError,
    UnreadableError,
)
from terrace._explain import Explanation
from terrace._store import Store
from terrace._stream import Producer, Stream
from terrace._terrace import Object, Receipt, __version__

__all__ = [
    "BadKeyError",
    "CatalogError",
    "ConfigError",
    "ConflictError",
    "Dataset",
    "DatasetError",
    "DumpError",
    "Explanation",
    "FailedError",
    "NoSpaceError",
    "NotFoundError",
    "NotPermittedError",
    "Object",
    "Producer",
    "ReadOnlyError",
    "Receipt",
    "RefusedError",
    "ReplacedError",
    "StillOwedError",
    "Store",
    "StoreError",
    "Stream",
    "StreamError",
    "TerraceError",
    "TooLargeError",
    "UnreadableError",
    "Variable",
    "View",
    "__version__",
]
