"""Epochs of PyTorch's DataLoader over files of samples; prints the samples per second as JSON.

Arguments: the URL of their folder, the options of fsspec as JSON, and the number of float32 in a sample.
"""

import json
import sys
import time
from statistics import median
from typing import Any

import fsspec
import torch
from torch.utils.data import DataLoader, Dataset

EPOCHS, BATCH, WORKERS = 4, 64, 2


class Samples(Dataset[torch.Tensor]):
    """Samples of one length in several files."""

    def __init__(self, url: str, options: dict[str, Any], values: int) -> None:
        self.files, folder = fsspec.url_to_fs(url, **options)
        found = sorted(self.files.ls(folder, detail=True), key=lambda one: one["name"])
        self.length = 4 * values
        self.places = [(one["name"], at) for one in found for at in range(0, one["size"], self.length)]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> torch.Tensor:
        path, start = self.places[index]
        data = self.files.cat_file(path, start, start + self.length)
        return torch.frombuffer(bytearray(data), dtype=torch.float32)


def main(url: str, options: dict[str, Any], values: int) -> None:
    """Measures the epochs after the first one, which fetches what is not cached."""
    samples = Samples(url, options, values)
    loader = DataLoader(samples, batch_size=BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True)
    speeds = []
    for _ in range(EPOCHS):
        begin = time.perf_counter()
        count = sum(len(batch) for batch in loader)
        speeds.append(count / (time.perf_counter() - begin))
    json.dump({"samples": median(speeds[1:])}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]))
