"""Terrace keeps replicas of data on every tier of storage: RAM, NVMe, disks, a parallel file system."""

from terrace._errors import (
    BadKeyError,
    CatalogError,
    ConfigError,
    ConflictError,
    FailedError,
    NoSpaceError,
    NotFoundError,
    ReplacedError,
    StillOwedError,
    StoreError,
    TerraceError,
    TooLargeError,
    UnreadableError,
)
from terrace._explain import Explanation
from terrace._store import Store
from terrace._terrace import Object, Receipt, __version__

__all__ = [
    "BadKeyError",
    "CatalogError",
    "ConfigError",
    "ConflictError",
    "Explanation",
    "FailedError",
    "NoSpaceError",
    "NotFoundError",
    "Object",
    "Receipt",
    "ReplacedError",
    "StillOwedError",
    "Store",
    "StoreError",
    "TerraceError",
    "TooLargeError",
    "UnreadableError",
    "__version__",
]
