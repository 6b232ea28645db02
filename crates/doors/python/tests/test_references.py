"""Virtual Zarr arrays: references of kerchunk's kind into files of a bucket, read through the cache."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy
import pytest
import xarray
from fsspec import filesystem
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

from moto_server import Server


def references(path: Path, name: str, url: str) -> dict[str, Any]:
    """Describes a chunked variable of an HDF5 file as an array of Zarr 2, as kerchunk does."""
    with h5py.File(path) as file:
        variable = file[name]
        chunks = [variable.id.get_chunk_info(number) for number in range(variable.id.get_num_chunks())]
        array = {
            "zarr_format": 2,
            "shape": variable.shape,
            "chunks": variable.chunks,
            "dtype": variable.dtype.str,
            "order": "C",
            "compressor": {"id": "zlib", "level": 4},
            "filters": None,
            "fill_value": None,
        }
        refs: dict[str, Any] = {
            ".zgroup": json.dumps({"zarr_format": 2}),
            f"{name}/.zarray": json.dumps(array),
            f"{name}/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["y", "x"]}),
        }
        for chunk in chunks:
            at = ".".join(str(start // length) for start, length in zip(chunk.chunk_offset, variable.chunks))
            refs[f"{name}/{at}"] = [url, chunk.byte_offset, chunk.size]
    return {"version": 1, "refs": refs}


@pytest.mark.parametrize("url", ["bucket/a.h5", "terrace://bucket/a.h5", "s3://bucket/a.h5"])
def test_virtual_arrays_of_a_bucket_are_read_once(server: Server, place: Path, tmp_path: Path, url: str) -> None:
    values = numpy.arange(400 * 500, dtype="<f8").reshape(400, 500)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("t", data=values, chunks=(100, 100), compression="gzip")
    server.fs.put_file(str(tmp_path / "a.h5"), "bucket/a.h5")
    cache = {"store": str(place), "target_protocol": "s3", "target_options": server.options["s3"]}
    remote: dict[str, Any] = {"remote_protocol": "terrace", "remote_options": cache}
    if url.startswith("s3:"):
        # References look up a file system by the protocol of their URLs, and want an asynchronous one.
        remote = {"fs": {"s3": AsyncFileSystemWrapper(filesystem("terrace", **cache))}}
    (tmp_path / "refs.json").write_text(json.dumps(references(tmp_path / "a.h5", "t", url)))

    def opened() -> xarray.Dataset:
        options = {"fo": str(tmp_path / "refs.json"), "skip_instance_cache": True} | remote
        return xarray.open_zarr("reference://", storage_options=options, consolidated=False, zarr_format=2)

    assert (opened()["t"].values == values).all()
    # The file is one block.
    assert server.gets() == 1
    server.stop()
    assert (opened()["t"].values == values).all() and server.gets() == 1
