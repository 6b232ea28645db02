"""Chunks of Zarr arrays: the array's metadata tells the type of their elements, so that Terrace encodes them well.

That needs chunks that Zarr itself has not compressed: `uncompressed` makes xarray write such.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from terrace import _arrays

if TYPE_CHECKING:
    import numpy
    import xarray

    from terrace._store import Store

CHUNK = re.compile(r"c|\d+(\.\d+)*")
"""A component of a chunk's key below its array."""
METADATA = ("zarr.json", ".zarray")
ORDERLY = {"bytes", "transpose", "crc32c"}
"""Codecs that leave a chunk's elements as they are."""
KNOWN: dict[tuple[str, str], tuple[int, str | None]] = {}
"""Of each array's metadata, by store and key: its generation, and what it says."""
MOST_KNOWN = 4096


def element(store: Store, key: str) -> str | None:
    """The type of a chunk's elements, by its name in Terrace; none for what is no chunk or is compressed."""
    array, _, last = key.rpartition("/")
    while array and CHUNK.fullmatch(last):
        for name in METADATA:
            if (type_ := said(store, f"{array}/{name}")) is not None:
                return type_ or None
        array, _, last = array.rpartition("/")
    return None


def said(store: Store, key: str) -> str | None:
    """What an array's metadata says: nothing where there is none, an empty word where the elements have no type."""
    if (found := store.find(key)) is None:
        return None
    place = str(store.directory), key
    if KNOWN.get(place, (0, None))[0] != found.generation:
        if len(KNOWN) >= MOST_KNOWN:
            KNOWN.clear()
        try:
            name = declared(json.loads(store.get(key)))
        except (OSError, ValueError, TypeError, KeyError):
            name = None
        KNOWN[place] = found.generation, name or ""
    return KNOWN[place][1]


def declared(metadata: dict[str, Any]) -> str | None:
    """The type that an array's metadata declares of bytes that are stored as they are."""
    if metadata.get("zarr_format") == 2:
        plain = not metadata.get("compressor") and not metadata.get("filters")
        return _arrays.element(dtype_of(metadata["dtype"])) if plain else None
    return _arrays.element(dtype_of(metadata["data_type"])) if plain_codecs(metadata["codecs"]) else None


def plain_codecs(codecs: list[dict[str, Any]]) -> bool:
    """Whether a chunk holds its elements as they are, little-endian; a shard holds such chunks and an index."""
    for codec in codecs:
        said = codec.get("configuration", {})
        if codec["name"] == "sharding_indexed":
            return len(codecs) == 1 and plain_codecs(said["codecs"])
        if codec["name"] not in ORDERLY or said.get("endian", "little") != "little":
            return False
    return True


def dtype_of(name: Any) -> numpy.dtype[Any]:
    """The dtype of a name in Zarr's metadata."""
    import numpy

    if isinstance(name, dict):
        name = {"numpy.datetime64": "<M8", "numpy.timedelta64": "<m8"}[name["name"]]
    dtype: numpy.dtype[Any] = numpy.dtype(name)
    return dtype


def uncompressed(dataset: xarray.Dataset, zarr_format: int = 3) -> dict[str, dict[str, Any]]:
    """The `encoding` by which `Dataset.to_zarr` leaves compressing to Terrace."""
    name = "compressors" if zarr_format == 3 else "compressor"
    return {str(variable): {name: None} for variable in dataset.variables}
