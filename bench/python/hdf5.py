"""Writes and reads a dataset by h5py; prints the bytes per second of both as JSON.

Arguments: a file, `chunks` or `small`, and the dataset's length in MiB.
"""

import json
import sys
import time

import h5py
import numpy as np

CHUNK, SMALL = 1 << 20, 4 << 10


def main(path: str, how: str, mebibytes: int) -> None:
    length, step = mebibytes << 20, CHUNK if how == "chunks" else SMALL
    noise = np.random.default_rng(1).integers(0, 256, min(length, 64 << 20), "u1")
    # Small accesses go to any place of a dataset that lies in one piece; HDF5 would join those that follow each other.
    places = np.arange(0, length, step)
    if how == "small":
        np.random.default_rng(2).shuffle(places)
    begin = time.perf_counter()
    with h5py.File(path, "w") as file:
        chunks = (CHUNK,) if how == "chunks" else None
        data = file.create_dataset("data", (length,), "u1", chunks=chunks)
        for place in places:
            start = place % len(noise)
            data[place : place + step] = noise[start : start + step]
    wrote = time.perf_counter() - begin
    begin = time.perf_counter()
    room = np.empty(step, "u1")
    with h5py.File(path) as file:
        data = file["data"]
        for place in places:
            data.read_direct(room, np.s_[place : place + step])
    read = time.perf_counter() - begin
    json.dump({"write": length / wrote, "read": length / read}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
