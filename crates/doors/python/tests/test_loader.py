"""`terrace::` below PyTorch's DataLoader: several workers, several epochs."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import fsspec
import numpy
import pytest
from fsspec.implementations.local import LocalFileSystem

import terrace
from conftest import CONFIG, required

required("torch")

import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

BLOCK, SHARDS, SAMPLES, VALUES = 65_536, 4, 500, 257


class Counted(LocalFileSystem):  # type: ignore[misc]
    """Local files, which write down the bytes that any process reads."""

    protocol = "counted"
    cachable = False

    def __init__(self, log: str, **kwargs: Any) -> None:
        super().__init__(log=log, **kwargs)
        self.log = log

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        data: bytes = super().cat_file(path, start, end)
        with open(self.log, "a") as log:
            log.write(f"{path} {start or 0} {len(data)} {os.getpid()}\n")
        return data


fsspec.register_implementation("counted", Counted)


class Samples(Dataset[torch.Tensor]):
    """Samples of one length in several files."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.files, folder = fsspec.url_to_fs(url, **options)
        self.paths = sorted(self.files.ls(folder, detail=False))

    def __len__(self) -> int:
        return SHARDS * SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        shard, at = divmod(index, SAMPLES)
        size = VALUES * 4
        data = self.files.cat_file(self.paths[shard], at * size, (at + 1) * size)
        return torch.frombuffer(bytearray(data), dtype=torch.float32)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store with a tier in memory."""
    config = tmp_path / "terrace.toml"
    config.write_text(CONFIG.format(tmp_path).replace('name = "fast"', 'name = "fast"\npersistent = false'))
    terrace.Store.create(tmp_path / "store", config).close()
    return tmp_path / "store"


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_and_epochs_fetch_no_byte_twice(place: Path, tmp_path: Path, start: str) -> None:
    folder, log = tmp_path / "data", tmp_path / "log"
    folder.mkdir()
    data = numpy.random.default_rng(1).random((SHARDS, SAMPLES, VALUES), "f4")
    for number, shard in enumerate(data):
        (folder / f"{number}.f32").write_bytes(shard.tobytes())
    options = {
        "terrace": {"store": str(place), "block_size": BLOCK, "check_after": 1e6, "options": {"replicas": 2}},
        "counted": {"log": str(log)},
    }
    samples = Samples(f"terrace::counted://{folder}", options)
    loader = DataLoader(samples, batch_size=16, shuffle=True, num_workers=2, multiprocessing_context=start)
    expected = numpy.sort(data.reshape(-1, VALUES), axis=0)
    store = samples.files.store
    for epoch in range(2):
        seen = torch.cat(list(loader)).numpy()
        assert (numpy.sort(seen, axis=0) == expected).all()
        if epoch == 0:
            store.sync()
            # The second one has only what is in memory.
            (tmp_path / "slow").rename(tmp_path / "away")
    (tmp_path / "away").rename(tmp_path / "slow")
    fetched: Counter[tuple[str, int]] = Counter()
    readers = set()
    for path, at, length, reader in (line.split() for line in log.read_text().splitlines()):
        fetched.update((path, byte) for byte in range(int(at), int(at) + int(length)))
        readers.add(reader)
    assert fetched.total() == len(fetched) == data.nbytes
    assert len(readers) > 1 and str(os.getpid()) not in readers
    # A reboot leaves the other copy.
    store.sync()
    blocks = [found.key for found in store.ls("cache") if found.key.count("/") == 3]
    extents = [extent for key in blocks for extent in store.locate(key)["extents"]]
    assert {tuple(one["tier"] for one in extent["replicas"]) for extent in extents} == {("fast", "slow")}
    assert sum(extent["length"] for extent in extents) == data.nbytes
