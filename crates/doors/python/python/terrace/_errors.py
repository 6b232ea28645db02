"""The exceptions. Each message says what failed, where, and what to do next."""


class TerraceError(Exception):
    """Any failure of a store."""


class NotFoundError(TerraceError, FileNotFoundError):
    """No object has this key, or no dataset or dump this name."""

    key: str


class BadKeyError(TerraceError, ValueError):
    """The key is not valid."""

    key: str


class ReadOnlyError(TerraceError, PermissionError):
    """The key is that of a file of an origin, which is read-only."""

    key: str


class ConflictError(TerraceError):
    """The object is not in the state that the call needs."""

    key: str


class ReplacedError(ConflictError):
    """The object was replaced while it was read; read it again."""


class UnreadableError(TerraceError, OSError):
    """All replicas of requested bytes are damaged or unreachable."""

    key: str
    start: int
    length: int
    tried: str


class TooLargeError(TerraceError, OSError):
    """An offset or a length exceeds the maximum size of an object: 2^63 - 1 bytes."""

    key: str


class NoSpaceError(TerraceError, OSError):
    """No tier has room for the bytes."""

    tiers: str


class StillOwedError(TerraceError, TimeoutError):
    """Replicas are still pending when the time limit is reached."""

    owed: int
    seconds: int


class ConfigError(TerraceError, ValueError):
    """The configuration is not valid."""


class StoreError(TerraceError):
    """The directory contains no store, or a store that cannot be opened."""


class CatalogError(TerraceError):
    """The catalog or the log failed, or is damaged."""


class RefusedError(TerraceError, ValueError):
    """A dataset, a stream or a dump does not allow this."""


class DatasetError(TerraceError):
    """A dataset has lost bytes, or cannot be stored or opened."""


class StreamError(TerraceError):
    """A stream cannot be read, written or delivered."""


class DumpError(TerraceError):
    """A dump cannot be made or restored."""


class FailedError(TerraceError, OSError):
    """The operating system refused an operation."""


class NotPermittedError(FailedError, PermissionError):
    """This user may not do it: at a target, at an origin, or in the store's directory."""
