"""Chunks of Zarr arrays. The metadata of an array tells the type of its elements, which Terrace uses to encode them.

This works only for chunks that Zarr has not compressed; `uncompressed` makes xarray write such chunks.
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
"""Codecs that keep the bytes of a chunk's elements."""
KNOWN: dict[tuple[str, str], tuple[int, str | None]] = {}
"""The known metadata of arrays, by store and key: the generation, and the element type."""
MOST_KNOWN = 4096


def element(store: Store, key: str) -> str | None:
    """Returns Terrace's name for the type of a chunk's elements, or `None` if the key is not an uncompressed chunk."""
    array, _, last = key.rpartition("/")
    while array and CHUNK.fullmatch(last):
        for name in METADATA:
            if (type_ := said(store, f"{array}/{name}")) is not None:
                return type_ or None
        array, _, last = array.rpartition("/")
    return None


def said(store: Store, key: str) -> str | None:
    """Returns the type that an array's metadata declares: `None` without metadata, empty if the type has no name."""
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
    """Returns the declared type of the elements, or `None` if chunks are compressed."""
    if metadata.get("zarr_format") == 2:
        plain = not metadata.get("compressor") and not metadata.get("filters")
        return _arrays.element(dtype_of(metadata["dtype"])) if plain else None
    return _arrays.element(dtype_of(metadata["data_type"])) if plain_codecs(metadata["codecs"]) else None


def plain_codecs(codecs: list[dict[str, Any]]) -> bool:
    """Returns whether chunks contain plain little-endian elements; a shard contains such chunks and an index."""
    for codec in codecs:
        said = codec.get("configuration", {})
        if codec["name"] == "sharding_indexed":
            return len(codecs) == 1 and plain_codecs(said["codecs"])
        if codec["name"] not in ORDERLY or said.get("endian", "little") != "little":
            return False
    return True


def dtype_of(name: Any) -> numpy.dtype[Any]:
    """Returns the dtype for a name in Zarr's metadata."""
    import numpy

    if isinstance(name, dict):
        name = {"numpy.datetime64": "<M8", "numpy.timedelta64": "<m8"}[name["name"]]
    dtype: numpy.dtype[Any] = numpy.dtype(name)
    return dtype


def uncompressed(dataset: xarray.Dataset, zarr_format: int = 3) -> dict[str, dict[str, Any]]:
    """Returns the `encoding` with which `Dataset.to_zarr` leaves compression to Terrace."""
    name = "compressors" if zarr_format == 3 else "compressor"
    return {str(variable): {name: None} for variable in dataset.variables}
