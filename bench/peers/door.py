"""One way to put and get for both sides, so that the same bytes go through the same calls.

`door.py PEER ROLE MEMORY DISK ...`: PEER is `iowarp` or `ours`; MEMORY and DISK are the folders of its two tiers.

- speeds: reads lines "put|get COUNT SIZE", answers each with the seconds that every call took, as JSON.
- lost COUNT SIZE: kills -9 right after the last put returned, starts again, reads all.
- flipped TIER COUNT SIZE EACH: flips bytes in the copies of EACH objects in one tier, at rest, and reads all.
"""

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol


class Peer(Protocol):
    """What a side can do."""

    def start(self, *, fresh: bool) -> None: ...
    def connect(self) -> None: ...
    def put(self, name: str, data: bytes) -> None: ...
    def get(self, name: str, length: int) -> bytes: ...
    def settle(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


def name(number: int, size: int) -> str:
    return f"o{size}-{number}"


def data(number: int, size: int) -> bytes:
    return random.Random(number * 31 + size).randbytes(size)


def speeds(peer: Peer) -> None:
    peer.start(fresh=True)
    peer.connect()
    print("ready", flush=True)
    for line in sys.stdin:
        act, count, size = line.split()[0], *map(int, line.split()[1:])
        times = []
        for number in range(count):
            given = data(number, size)
            begin = time.perf_counter()
            if act == "put":
                peer.put(name(number, size), given)
            else:
                given = peer.get(name(number, size), size)
            times.append(time.perf_counter() - begin)
            if act == "get" and given != data(number, size):
                sys.exit(f"{name(number, size)} is not what was put")
        print(json.dumps(times), flush=True)
    peer.stop()


def child(role: str, *more: object) -> subprocess.Popen[str]:
    """This script again, in another role."""
    command = [sys.executable, __file__, sys.argv[1], role, *sys.argv[3:5], *map(str, more)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def written(count: int, size: int) -> subprocess.Popen[str]:
    """A process that has just had its last put acknowledged, and waits."""
    writer = child("put", count, size)
    assert writer.stdout
    said = writer.stdout.readline().strip()
    while said and said != "acknowledged":
        said = writer.stdout.readline().strip()
    if not said:
        sys.exit("the writer ended early")
    return writer


def found(count: int, size: int) -> dict[str, int]:
    """What another process reads."""
    reader = child("read", count, size)
    said = reader.communicate(timeout=120)[0].strip().splitlines()
    return json.loads(said[-1])


def put(peer: Peer, count: int, size: int) -> None:
    peer.connect()
    for number in range(count):
        peer.put(name(number, size), data(number, size))
    print("acknowledged", flush=True)
    sys.stdin.readline()
    peer.settle()


def read(peer: Peer, count: int, size: int) -> None:
    peer.connect()
    came = {"right": 0, "wrong": 0, "unreadable": 0}
    for number in range(count):
        try:
            got = peer.get(name(number, size), size)
        except Exception:
            got = b""
        kind = "right" if got == data(number, size) else "wrong" if len(got) == size and any(got) else "unreadable"
        came[kind] += 1
    print(json.dumps(came), flush=True)
    os._exit(0)


def lost(peer: Peer, count: int, size: int) -> None:
    peer.start(fresh=True)
    writer = written(count, size)
    peer.kill()
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    peer.start(fresh=False)
    print(json.dumps(found(count, size)), flush=True)
    peer.stop()


def flipped(peer: Peer, tier: Path, count: int, size: int, each: int) -> None:
    peer.start(fresh=True)
    writer = written(count, size)
    time.sleep(2)
    writer.communicate("end\n", timeout=60)
    peer.stop()
    damaged = sum(flip(tier, data(number, size)) for number in range(each))
    peer.start(fresh=False)
    print(json.dumps(found(count, size) | {"damaged": damaged}), flush=True)
    peer.stop()


def flip(tier: Path, given: bytes) -> bool:
    """Changes sixteen bytes in the middle of a copy; false where none is there."""
    for path in sorted(path for path in tier.rglob("*") if path.is_file()):
        with path.open("r+b") as file:
            at = file.read().find(given[: 1 << 10])
            if at >= 0:
                middle = len(given) // 2
                file.seek(at + middle)
                file.write(bytes(byte ^ 0xFF for byte in given[middle : middle + 16]))
                return True
    return False


def main() -> None:
    kind, role, memory, disk, *more = sys.argv[1:]
    peer: Peer = importlib.import_module(kind).Peer(Path(memory), Path(disk))
    if role == "flipped":
        flipped(peer, Path(more[0]), *map(int, more[1:]))
    else:
        roles = {"speeds": speeds, "lost": lost, "put": put, "read": read}
        roles[role](peer, *map(int, more))


if __name__ == "__main__":
    main()
