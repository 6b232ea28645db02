"""The answers of an origin, a file system of fsspec, about its files: kept in a store, and asked for again by age."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from fsspec.asyn import AsyncFileSystem

from terrace import _s3
from terrace._errors import FailedError, NoSpaceError, NotFoundError, UnreadableError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

    from terrace._blocks import Blocks
    from terrace._terrace import Moment

logger = logging.getLogger("terrace.cache")

DIGESTS = ("ETag", "etag", "VersionId", "Content-MD5", "content_md5", "md5Hash", "sha256", "checksum")
"""The facts that tell the versions of a file apart, in the file systems of fsspec; the first one counts."""
TIMES = ("mtime", "LastModified", "last_modified", "modified", "updated", "created")
"""The facts that tell them apart together with the length."""
PLACES = {
    "account_name",
    "base_url",
    "client_kwargs",
    "endpoint_url",
    "fo",
    "host",
    "port",
    "target_options",
    "target_protocol",
}
"""The options of a file system that say where its files are. The others, such as secrets, say who asks."""
INFO, LISTING = "info", "listing"
MOST_DECODED_ANSWERS = 10_000


@dataclass(frozen=True)
class Answer:
    """An answer of the origin about a path."""

    path: str
    asked: float
    """When the origin was asked, in seconds since 1970."""
    said: Any
    """The information about a file, or the list of a directory's; `None` if there is none."""

    @cached_property
    def identity(self) -> str | None:
        """Words that are the same for as long as the file's content is the same; `None` if there is no file."""
        return identify(self.said) if isinstance(self.said, dict) else None


class Decoded(NamedTuple):
    """An answer about a file, as it was found in the store."""

    moment: Moment | None
    """The moment at which it was there."""
    version: tuple[int, int]
    """The number and the generation of its object."""
    answer: Answer | None


class Origin:
    """What a file system says, by these rules.

    An answer younger than `check_after` seconds is used without asking again. If the origin does not answer, an answer
    younger than `keep_seconds` is used, and the origin is not asked again for `check_after` seconds, or for as long as
    its failure took, if that is longer.
    """

    def __init__(
        self, fs: AbstractFileSystem, place: str, blocks: Blocks, check_after: float, keep_seconds: float | None
    ) -> None:
        self._fs, self._process, self.place, self.blocks = fs, os.getpid(), place, blocks
        self.check_after, self.keep_seconds = check_after, keep_seconds
        self._is_away = False
        self._away_until = 0.0
        self._written: set[str] = set()
        self._decoded: dict[str, Decoded] = {}

    @property
    def fs(self) -> AbstractFileSystem:
        """The file system. A child of `fork` gets one of its own, because asynchronous ones refuse to work there."""
        if isinstance(self._fs, AsyncFileSystem) and self._process != os.getpid():
            self._fs, self._process = type(self._fs)(*self._fs.storage_args, **self._fs.storage_options), os.getpid()
        return self._fs

    def file(self, path: str) -> str:
        """Returns the hash of a file's place and path."""
        return digest(f"{self.place}\0{path}")[:32]

    def info(self, path: str) -> Answer:
        """Returns what the origin says about a file."""
        return self._answer(INFO, path, lambda: plain(self.fs.info(path)))

    def recent(self, path: str) -> Answer | None:
        """Returns the last answer about a file, if that is used without asking."""
        return self._recent(self.known(INFO, path), path)

    def listing(self, path: str, refresh: bool = False) -> Answer:
        """Returns what the origin says about the files in a directory; what it says now, if `refresh`."""
        ask = self._ask if refresh else self._answer
        return ask(LISTING, path, lambda: [plain(one) for one in self.fs.ls(path, detail=True)])

    def is_folder(self, path: str) -> bool:
        """Returns whether a kept answer tells that a path is a directory, because it lists files below it."""
        known = self.known(LISTING, path)
        if known is None or not self._is_kept(known):
            return False
        return any(one["name"].rstrip("/") != path for one in known.said or ())

    def look(self, path: str) -> Answer:
        """Asks the origin about a file now."""
        return self._ask(INFO, path, lambda: plain(self.fs.info(path)))

    def note_writing(self, *paths: str) -> None:
        """Notes that this process writes files: from now on, it asks about them each time."""
        for path in paths:
            while path not in self._written:
                self._written.add(path)
                path = self.fs._parent(path)

    def read(self, version: Answer, start: int, end: int) -> tuple[bytes, bool]:
        """Fetches a range of a file. Returns also whether the bytes are known to be of this version."""
        etag = version.said.get("ETag")
        if etag and _s3.is_known(self.fs):
            read = _s3.read(self.fs, version.path, start, end, etag)
            if read is not None and read.said is not None and identify(read.said) == version.identity:
                return read.data, True
        return self.fs.cat_file(version.path, start=start, end=end), False

    def can_read_first(self, path: str) -> bool:
        """Returns whether nothing of a file is known or cached, and one request may give its bytes and its version."""
        return _s3.is_known(self.fs) and not self.blocks.has_any(self.file(path))

    def read_first(self, path: str, start: int, end: int) -> tuple[Answer, bytes] | None:
        """Fetches a range of a file, or less at its end, and learns its version from the same answer. `None` if that
        does not tell it."""

        def ask() -> _s3.Read | None:
            try:
                return _s3.read(self.fs, path, start, end)
            except FileNotFoundError:
                return None if _s3.is_folder(self.fs, path) else _s3.Read(None, b"")

        now = time.time()
        read: _s3.Read | None = self._call(path, ask)
        if read is None:
            return None
        answer = Answer(path, now, read.said)
        self._keep(INFO, answer)
        return answer, read.data

    def known(self, kind: str, path: str) -> Answer | None:
        """Returns the last answer, if it is still kept."""
        key = f"{self.blocks.folder}/{self.file(path)}/{kind}"
        if kind != INFO:
            return self._stored(key)
        # Before the look-up: what another process changes after it is looked up next time.
        now, before = self.blocks.store.moment(), self._decoded.get(key)
        if before is not None and now is not None and before.moment == now:
            return before.answer
        found = self.blocks.store.find(key)
        if found is None:
            return None
        version = found.id, found.generation
        answer = before.answer if before is not None and before.version == version else self._stored(key)
        if len(self._decoded) >= MOST_DECODED_ANSWERS:
            self._decoded.clear()
        self._decoded[key] = Decoded(now, version, answer)
        return answer

    def _stored(self, key: str) -> Answer | None:
        try:
            text = self.blocks.store.get(key)
        except (NotFoundError, UnreadableError):
            return None
        return decoded(text)

    def _recent(self, known: Answer | None, path: str) -> Answer | None:
        # A clock that was set back makes an answer old, too.
        is_used = known is not None and path not in self._written and 0 <= time.time() - known.asked < self.check_after
        return known if is_used else None

    def _is_kept(self, known: Answer) -> bool:
        return self.keep_seconds is None or time.time() - known.asked < self.keep_seconds

    def _answer(self, kind: str, path: str, ask: Callable[[], Any]) -> Answer:
        known = self.known(kind, path)
        if (recent := self._recent(known, path)) is not None:
            return recent
        if known is None or path in self._written:
            return self._ask(kind, path, ask)
        is_kept = self._is_kept(known)
        if is_kept and time.monotonic() < self._away_until:
            return known
        began = time.monotonic()
        try:
            return self._ask(kind, path, ask)
        except FailedError as error:
            if not is_kept:
                raise
            # Said once, however many files are read until it answers again.
            logger.log(logging.DEBUG if self._is_away else logging.WARNING, "%s; what is cached is used", error)
            ended = time.monotonic()
            # Libraries of services retry for seconds before they give up: not for each of many files.
            self._is_away, self._away_until = True, ended + max(self.check_after, ended - began)
            return known

    def _ask(self, kind: str, path: str, ask: Callable[[], Any]) -> Answer:
        # Some file systems keep what they have listed, without a limit of time.
        self.fs.invalidate_cache(path)
        now = time.time()
        answer = Answer(path, now, self._call(path, ask))
        self._keep(kind, answer)
        return answer

    def _call(self, path: str, call: Callable[[], Any]) -> Any:
        """Returns what the origin says about a path; `None` if it has no such file."""
        said = None
        try:
            said = call()
        except (FileNotFoundError, NotADirectoryError):
            pass
        except PermissionError:
            raise
        except Exception as error:  # Libraries of services raise exceptions of many classes.
            raise FailedError(f"{self.place} does not answer about {path!r}: {error}") from error
        self._is_away = False
        return said

    def _keep(self, kind: str, answer: Answer) -> None:
        file = self.file(answer.path)
        if kind == INFO:
            before = self.known(kind, answer.path)
            if before is not None and before.identity not in (None, answer.identity):
                logger.info("%s has changed at its origin: what is cached of it is removed", answer.path)
                self.blocks.forget(file)
        key = f"{self.blocks.folder}/{file}/{kind}"
        try:
            self.blocks.put_object(key, encoded(answer))
        except NoSpaceError as error:
            logger.warning("%s is not cached: %s", key, error)


@lru_cache(2 * MOST_DECODED_ANSWERS)
def digest(words: str) -> str:
    """Returns the SHA-256 of some words, in hexadecimal digits."""
    # Names of local files may have bytes that are no UTF-8.
    return sha256(words.encode(errors="surrogateescape")).hexdigest()


def identify(info: dict[str, Any]) -> str:
    """Returns words that differ between the versions of a file, as far as its file system tells."""
    size = f"{info.get('size')} bytes"
    for name in DIGESTS:
        if info.get(name):
            return f"{name} {info[name]}, {size}"
    for name in TIMES:
        if info.get(name) is not None:
            inode = f", inode {info['ino']}" if "ino" in info else ""
            return f"{name} {info[name]}, {size}{inode}"
    return size


def describe_place(protocol: str, options: dict[str, Any]) -> str:
    """Describes where the files of a file system are: the same for all who ask."""
    own = {name: options[name] for name in PLACES if name in options}
    if isinstance(own.get("client_kwargs"), dict):
        own["client_kwargs"] = {name: own["client_kwargs"][name] for name in PLACES if name in own["client_kwargs"]}
    if isinstance(own.get("target_options"), dict):
        own["target_options"] = describe_place("", own["target_options"])
    shown = ", ".join(f"{name}={value}" for name, value in sorted(own.items()) if value)
    return f"{protocol} ({shown})" if shown else protocol


def plain(info: dict[str, Any]) -> dict[str, Any]:
    """Returns the facts that JSON can hold, and times; the others become words."""
    simple = (str, int, float, bool, datetime, type(None))
    return {name: value if isinstance(value, simple) else str(value) for name, value in info.items()}


def encoded(answer: Answer) -> bytes:
    """Encodes an answer."""
    said = {"path": answer.path, "asked": answer.asked, "said": answer.said}
    return json.dumps(said, default=lambda time: {"time": time.isoformat()}).encode()


def decoded(text: bytes) -> Answer | None:
    """Decodes an answer; `None` if it is damaged."""

    def timed(value: dict[str, Any]) -> Any:
        return datetime.fromisoformat(value["time"]) if value.keys() == {"time"} else value

    try:
        return Answer(**json.loads(text, object_hook=timed))
    except (ValueError, TypeError):
        return None
