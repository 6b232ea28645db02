"""Streams: requests to write bytes, which are delivered to files exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from terrace import _terrace

if TYPE_CHECKING:
    from terrace._store import Store
    from terrace._terrace import Ack, Buffer, Key


class Backlog(NamedTuple):
    """The requests that are not delivered yet."""

    requests: int
    bytes: int
    age: float | None
    """The age of the oldest in seconds."""


class Stream(_terrace.Stream):
    """An open stream. `terrace flush - DIRECTORY --stream NAME` or `deliver` delivers its requests."""

    def __init__(self, store: Store, name: str, ack: Ack) -> None:
        self._made = store, name, ack

    def send(self, destination: Key, data: Buffer, offset: int | None = None) -> None:
        """Sends bytes for a destination, a path: to be appended, or for byte `offset`.

        Returns once they are accepted. A producer's requests can be sent again; these would be delivered twice.
        """
        self.append([(destination, offset, data)])

    def producer(self, name: Key) -> Producer:
        """Opens a producer, which numbers its requests. It continues behind those that have arrived."""
        return Producer(self, name)

    @property
    def backlog(self) -> Backlog:
        """The requests that are not delivered yet."""
        return Backlog(*self.count_backlog())

    def __reduce__(self) -> tuple[Any, ...]:
        return Stream, self._made

    def __repr__(self) -> str:
        return f"<Stream {self.name!r}>"


class Producer:
    """A producer that numbers its requests, so that each is delivered once, however often it is sent."""

    def __init__(self, stream: Stream, name: Key) -> None:
        self.stream, self.name = stream, name
        self.next = stream.next_of(name)
        """The number of the next request."""

    def send(self, destination: Key, data: Buffer, offset: int | None = None) -> int:
        """Sends the next request. Returns its number, by which `resend` sends it again."""
        number = self.next
        self.next += 1
        self.resend(number, destination, data, offset)
        return number

    def resend(self, number: int, destination: Key, data: Buffer, offset: int | None = None) -> bool:
        """Sends a request that may have been accepted before. Returns whether it is new."""
        return self.stream.append([(destination, offset, data)], self.name, number) == 1
