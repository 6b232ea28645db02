"""The mean of a Zarr array in a bucket of moto, by Terrace's cache, by other caches and without one: rows as JSON.

Arguments: a folder on the disk for the caches, and the array's length in MiB.
"""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from math import isclose
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bucket import Bucket

HERE = Path(__file__).parent
SERVER_PYTHON = HERE.parents[1] / "target/servers/bin/python"
ROUNDS = 5
OURS, PLAIN = "terrace::", ""
NAMES = {OURS: "terrace", PLAIN: "s3fs", "simplecache::": "simplecache", "blockcache::": "blockcache"}
WARM_FACTOR, SHARE = 3, 0.9
"""The goals: how many times as quick as without a cache the second mean is, and the share of another way's speed."""
SHARDS, SAMPLES, VALUES = 4, 5000, 784
Figure = dict[str, Any]


def create_store(folder: Path) -> None:
    """Makes a store with one replica below a folder, as the other caches have."""
    import terrace

    folder.mkdir()
    config = folder / "terrace.toml"
    target = f"targets = ['{folder / 'tier'}']"
    config.write_text(f"[store]\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'disk'\nkind = 'directory'\n{target}\n")
    terrace.Store.create(folder / "store", config).close()


def run(program: str, *arguments: str) -> dict[str, float]:
    """Runs one of the measured programs in a new process. What others wrote is on the disk before."""
    os.sync()
    command = [sys.executable, "-W", "ignore", str(HERE / program), *arguments]
    printed: dict[str, float] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return printed


class Means:
    """The times of means, and the bytes for which they asked the server, by the turn and the way."""

    def __init__(self, bucket: "Bucket", folder: Path, ways: list[str]) -> None:
        self.bucket, self.folder, self.ways = bucket, folder, ways
        self.seconds: dict[tuple[str, str], list[float]] = {}
        self.bytes: dict[tuple[str, str], list[int]] = {}
        self.mean: float | None = None

    def measure(self, number: int) -> None:
        """Takes each way once with an empty cache, then each with what it left there. The first one changes."""
        ways = self.ways[number % len(self.ways) :] + self.ways[: number % len(self.ways)]
        caches = self.folder / "caches"
        caches.mkdir()
        create_store(caches / "terrace")
        for turn in ["cold", "warm"]:
            for way in ways:
                place = caches / ("terrace/store" if way == OURS else name(way))
                self.take(turn, way, place)
        shutil.rmtree(caches)

    def take(self, turn: str, way: str, place: Path) -> None:
        """Measures one mean."""
        before = self.bucket.bytes()
        taken = run("one_mean.py", way, str(place), json.dumps(self.bucket.s3))
        self.mean = self.mean or taken["mean"]
        if not isclose(taken["mean"], self.mean, rel_tol=1e-6):
            sys.exit(f"by {name(way)}, {turn}, the mean is {taken['mean']} instead of {self.mean}")
        self.seconds.setdefault((turn, way), []).append(taken["seconds"])
        self.bytes.setdefault((turn, way), []).append(self.bucket.bytes() - before)

    def middle(self, turn: str, way: str) -> float:
        """Returns the seconds of the middle run."""
        return median(self.seconds[turn, way])

    def compare(self, what: str, turn: str, way: str, factor: float, conditions: str) -> Figure:
        """Makes a figure of Terrace's time beside another way's; the goal is to be `factor` times as quick."""
        beside = self.middle(turn, way)
        ratios = [other / own for own, other in zip(self.seconds[turn, OURS], self.seconds[turn, way], strict=True)]
        times = "; ".join(f"{name(one)} {self.middle(turn, one):.2f} s" for one in self.ways)
        ratio = f"times as quick as {name(way)}: {', '.join(f'{one:.2f}' for one in ratios)}"
        figure = {"what": what, "unit": "s", "ours": self.middle(turn, OURS), "beside": beside, "goal": beside / factor}
        return figure | {"details": f"{times}; {ratio}; {conditions}"}

    def figures(self, conditions: str) -> list[Figure]:
        """Makes the figures of all means."""
        caches = [way for way in self.ways if way not in (OURS, PLAIN)]
        quickest = min(caches, key=lambda way: self.middle("warm", way))
        fetched = "; ".join(f"{name(way)} {max(self.bytes['warm', way])}" for way in self.ways)
        return [
            self.compare("mean again, beside s3fs without a cache", "warm", PLAIN, WARM_FACTOR, conditions),
            self.compare("mean again, beside the quickest other cache", "warm", quickest, SHARE, conditions),
            {
                "what": "bytes that the mean fetches again",
                "unit": "bytes",
                "ours": max(self.bytes["warm", OURS]),
                "goal": 0,
                "details": f"the most of {ROUNDS} runs: {fetched}; {conditions}",
            },
            self.compare("first mean, beside s3fs without a cache", "cold", PLAIN, SHARE, conditions),
        ]


def name(way: str) -> str:
    """Returns the name of a way."""
    return NAMES.get(way, way)


def load_samples(bucket: "Bucket", folder: Path) -> list[Figure]:
    """Compares the samples that PyTorch's DataLoader gets through the cache with those from local files."""
    import numpy

    if find_spec("torch") is None:
        print("skipped: the DataLoader: there is no torch", file=sys.stderr)
        return []
    local = folder / "samples"
    local.mkdir()
    for shard in range(SHARDS):
        samples = numpy.random.default_rng(shard).random((SAMPLES, VALUES), "f4")
        (local / f"{shard}.f32").write_bytes(samples.tobytes())
    bucket.files.put(f"{local}/", "bucket/samples/", recursive=True)
    create_store(folder / "loaded")
    options = {"s3": bucket.s3, "terrace": {"store": str(folder / "loaded/store"), "check_after": 24 * 3600}}
    ways = [("terrace::s3://bucket/samples", options), (f"file://{local}", {})]

    def measure(url: str, options: dict[str, Any]) -> float:
        return run("loader.py", url, json.dumps(options), str(VALUES))["samples"]

    rounds = [[measure(*way) for way in ways] for _ in range(ROUNDS)]
    ours, beside = (median(speeds) for speeds in zip(*rounds, strict=True))
    details = f"samples of {VALUES} float32, at random, 2 workers, a cache on the disk; middle of {ROUNDS}"
    what = "samples by a DataLoader, second epoch, beside local files"
    return [{"what": what, "unit": "samples/s", "ours": ours, "beside": beside, "details": details}]


def find_ways() -> list[str]:
    """Returns the ways that can be measured; none if something is missing that all need."""
    for module in ["dask", "s3fs", "xarray", "zarr"]:
        if find_spec(module) is None:
            print(f"skipped: there is no {module}; `make python-installed` installs it", file=sys.stderr)
            return []
    if not SERVER_PYTHON.exists():
        print("skipped: there is no moto; `make servers` installs it", file=sys.stderr)
        return []
    ways = list(NAMES)
    if find_spec("zarr.experimental") and find_spec("zarr.experimental.cache_store"):
        ways.append("CacheStore")
    else:
        print("skipped: this Zarr has no CacheStore", file=sys.stderr)
    return ways


def main(folder: Path, mebibytes: int) -> None:
    """Measures all ways in each round, so that none has a quieter machine."""
    found: list[Figure] = []
    if ways := find_ways():
        from bucket import CHUNK_MIB, serve

        with serve(folder, SERVER_PYTHON) as bucket:
            stored = bucket.fill(mebibytes)
            means, plainly = Means(bucket, folder, ways), []
            for number in range(ROUNDS):
                plainly.append(bucket.read_plainly())
                means.measure(number)
            conditions = (
                f"{mebibytes} MiB of made float32 in chunks of {CHUNK_MIB} MiB, {stored:.0f} MiB in moto's bucket; "
                f"caches on the disk, and in its page cache; each in a new process; middle of {ROUNDS}"
            )
            found = means.figures(conditions)
            limit = {"what": "what one plain client gets from the server", "unit": "MB/s", "ours": median(plainly)}
            found.append(limit | {"details": f"object after object, nothing decoded; {conditions}"})
            found += load_samples(bucket, folder)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
