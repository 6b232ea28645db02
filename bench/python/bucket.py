"""A bucket of a moto server on loopback, with the array that is measured."""

import json
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import numpy
import zarr

HERE = Path(__file__).parent
START_SECONDS = 60
SIDE = 1024
CHUNK_MIB = SIDE * SIDE * 4 >> 20


class Bucket:
    """A bucket, and its server."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.s3 = {"key": "key", "secret": "secret", "endpoint_url": self.endpoint}
        self.files = fsspec.filesystem("s3", **self.s3)
        self.files.mkdir("bucket")

    def bytes(self) -> int:
        """Returns how many bytes the server has given so far."""
        with urllib.request.urlopen(f"{self.endpoint}/-counted") as answer:
            given: int = json.load(answer)["bytes"]
        return given

    def fill(self, mebibytes: int) -> float:
        """Makes the array: waves and noise, to two decimals, as measurements are. Returns its MiB in the bucket."""
        steps = mebibytes // CHUNK_MIB
        noise = numpy.random.default_rng(1)
        y, x = numpy.mgrid[0:SIDE, 0:SIDE] / 200
        group = zarr.open_group("s3://bucket/field.zarr", mode="w", storage_options=self.s3, zarr_format=3)
        shape, chunk = (steps, SIDE, SIDE), (1, SIDE, SIDE)
        field = group.create_array("field", shape=shape, chunks=chunk, dtype="f4", dimension_names=("time", "y", "x"))
        for step in range(steps):
            wave = 15 + 10 * numpy.sin(x + step / 7) * numpy.cos(y - step / 11)
            field[step] = numpy.round(wave + noise.normal(0, 0.1, wave.shape), 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(group.store)
        return float(self.files.du("bucket/field.zarr")) / (1 << 20)

    def read_plainly(self) -> float:
        """Reads all objects by one client that does nothing else. Returns MB/s."""
        urls = [self.files.sign(path) for path in self.files.find("bucket/field.zarr")]
        begin, length = time.perf_counter(), 0
        for url in urls:
            with urllib.request.urlopen(url) as answer:
                length += len(answer.read())
        return length / 1e6 / (time.perf_counter() - begin)


@contextmanager
def serve(folder: Path, python: Path) -> Iterator[Bucket]:
    """Starts a server in a process of its own, by the Python that has moto, and kills it at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    path = folder / "server.log"
    with path.open("wb") as log:
        command = [python, HERE / "counted_moto.py", str(port)]
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                if server.poll() is not None or time.monotonic() > end:
                    sys.exit(f"moto does not answer: {path.read_text()}")
                time.sleep(0.1)
        yield Bucket(port)
    finally:
        server.kill()
        server.wait()
