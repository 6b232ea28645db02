"""Blosc2's BTune on streams of files, for `terrace-bench regret`: a process of its own, with one thread.

    btune.py TYPESIZE TRADEOFF LEAST FILE...

For each file, repeated whole until there are LEAST bytes: what came of it, as [bytes, stored, seconds to encode,
seconds to decode]. BTune learns while it encodes: what it tries is in the time.
"""

import json
import os
import sys
import time
from pathlib import Path

import blosc2

CHUNK = 1 << 20


def stream(raw: bytes, typesize: int) -> list[float]:
    cparams = blosc2.CParams(tuner=blosc2.Tuner.BTUNE, typesize=typesize, nthreads=1)
    chunks = blosc2.SChunk(chunksize=CHUNK, cparams=cparams, dparams=blosc2.DParams(nthreads=1))
    length = len(raw)
    # What ends within an element it cannot decode.
    raw += bytes(-length % typesize)
    encode = decode = 0.0
    for at in range(0, len(raw), CHUNK):
        start = time.thread_time()
        chunks.append_data(raw[at : at + CHUNK])
        encode += time.thread_time() - start
    out = bytearray(CHUNK)
    for number, at in enumerate(range(0, len(raw), CHUNK)):
        start = time.thread_time()
        chunks.decompress_chunk(number, dst=out)
        decode += time.thread_time() - start
        part = raw[at : at + CHUNK]
        if out[: len(part)] != part:
            raise SystemExit("Blosc2 gives back other bytes")
    return [length, chunks.cbytes, encode, decode]


def main() -> None:
    typesize, tradeoff, least, *files = sys.argv[1:]
    os.environ["BTUNE_TRADEOFF"] = tradeoff
    outcomes = []
    for name in files:
        raw = Path(name).read_bytes()
        times = max(1, -(-int(least) // max(1, len(raw))))
        outcomes.append(stream(raw * times, int(typesize)))
    json.dump(outcomes, sys.stdout)


main()
