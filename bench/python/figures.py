"""Puts and gets from Python, beside plain files and fsspec's local file system in the same run: rows as JSON.

Arguments: a folder in memory, and one for the catalog.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

from fsspec import filesystem

import terrace

SLICE, ROUNDS, KEYS = 0.25, 8, 64
Call = Callable[[int], object]


def store(ram: Path, catalog: Path) -> terrace.Store:
    """One replica, in memory, as the files are."""
    config = catalog / "terrace.toml"
    target = f"targets = ['{ram / 'tier'}']"
    config.write_text(f"[store]\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'ram'\nkind = 'directory'\n{target}\n")
    return terrace.Store.create(catalog / "store", config)


def timed(call: Call) -> list[float]:
    """How long each of many calls takes, in microseconds."""
    times, end, number = [], time.perf_counter() + SLICE, 0
    while (begin := time.perf_counter()) < end:
        call(number % KEYS)
        times.append((time.perf_counter() - begin) * 1e6)
        number += 1
    return times


def rows(what: str, ours: Call, others: dict[str, Call]) -> list[dict[str, object]]:
    """Each takes its turn, so that none has a quieter machine."""
    calls = {"": ours, **others}
    times: dict[str, list[list[float]]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(timed(call))
    middle = {name: median(median(turn) for turn in turns) for name, turns in times.items()}

    def spread(name: str) -> str:
        tenths = [quantiles(turn, n=10) for turn in times[name]]
        return f"p10 {median(tenth[0] for tenth in tenths):.0f} and p90 {median(tenth[8] for tenth in tenths):.0f} us"

    def row(name: str) -> dict[str, object]:
        details = f"{spread('')}, beside {spread(name)}; {ROUNDS} turns, {sum(map(len, times['']))} runs"
        return {"what": f"{what}, beside {name}", "ours": middle[""], "beside": middle[name], "details": details}

    return [row(name) for name in others]


def of_length(length: int, words: str, opened: terrace.Store, ram: Path) -> list[dict[str, object]]:
    data = os.urandom(length)
    ours, local = filesystem("terrace", store=str(opened.directory)), filesystem("file")
    places = [str(ram / f"{words}-{number}") for number in range(KEYS)]
    keys = [f"{words}/{number}" for number in range(KEYS)]

    def write(number: int) -> None:
        with open(places[number], "wb", buffering=0) as file:
            file.write(data)

    def read(number: int) -> bytes:
        with open(places[number], "rb", buffering=0) as file:
            return file.read()

    def opens(files: object, names: list[str]) -> Call:
        def reads(number: int) -> bytes:
            with files.open(names[number], "rb") as file:  # type: ignore[attr-defined]
                return file.read()

        return reads

    for number in range(KEYS):
        write(number)
        opened.put(keys[number], data)
    room = bytearray(length)
    local_name = "fsspec's local file system"
    return [
        *rows(f"Store.put {words}", lambda i: opened.put(keys[i], data), {"a plain file": write}),
        *rows(f"Store.get {words}", lambda i: opened.get(keys[i]), {"a plain file": read}),
        *rows(f"Store.read_into {words}", lambda i: opened.read_into(keys[i], room), {"a plain file": read}),
        *rows(
            f"fsspec pipe_file {words}",
            lambda i: ours.pipe_file(keys[i], data),
            {local_name: lambda i: local.pipe_file(places[i], data)},
        ),
        *rows(
            f"fsspec cat_file {words}",
            lambda i: ours.cat_file(keys[i]),
            {local_name: lambda i: local.cat_file(places[i])},
        ),
        *rows(f"fsspec open and read {words}", opens(ours, keys), {local_name: opens(local, places)}),
    ]


def main(ram: Path, catalog: Path) -> None:
    with store(ram, catalog) as opened:
        found = [*of_length(4 << 10, "4 KiB", opened, ram), *of_length(1 << 20, "1 MiB", opened, ram)]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
