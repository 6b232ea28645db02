"""What can go wrong. The words of each exception say what, where, and what to do next."""


class TerraceError(Exception):
    """Any failure of a store."""


class NotFoundError(TerraceError, FileNotFoundError):
    """No object has this key."""

    key: str


class BadKeyError(TerraceError, ValueError):
    """No object may have this key."""

    key: str


class ConflictError(TerraceError):
    """The object is not in the state that the call needs."""

    key: str


class ReplacedError(ConflictError):
    """The object was replaced while it was read; read it again."""


class UnreadableError(TerraceError, OSError):
    """No good replica is left of bytes that were asked for."""

    key: str
    start: int
    length: int
    tried: str


class TooLargeError(TerraceError, OSError):
    """An offset or a length is beyond what an object can have: 2^63 - 1 bytes."""

    key: str


class NoSpaceError(TerraceError, OSError):
    """No tier can take the bytes."""

    tiers: str


class StillOwedError(TerraceError, TimeoutError):
    """Replicas are still owed when the time was up."""

    owed: int
    seconds: int


class ConfigError(TerraceError, ValueError):
    """The configuration cannot be used."""


class StoreError(TerraceError):
    """The directory holds no store, or one that cannot be opened."""


class CatalogError(TerraceError):
    """The catalog or the log failed, or is damaged."""


class FailedError(TerraceError, OSError):
    """The system refused something."""
