"""The mean of an array in a bucket, by one way to it; prints the seconds and the mean as JSON.

Arguments: the URL's front (`terrace::`, ...; empty for s3fs alone, `CacheStore` for Zarr's own), the folder of its
cache, and the options of s3fs as JSON. Importing is not measured.
"""

import json
import sys
import time
from typing import Any

import dask.array  # noqa: F401
import fsspec
import xarray
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from zarr.storage import FsspecStore, LocalStore

URL = "s3://bucket/field.zarr"
MOST_SECONDS = 24 * 3600
"""How long Terrace does not ask the server again; the other caches never do."""


def caches(folder: str) -> dict[str, dict[str, Any]]:
    """Returns the options of each cache, by the front of its URL."""
    plain = {"cache_storage": folder}
    return {
        "": {},
        "terrace::": {"terrace": {"store": folder, "check_after": MOST_SECONDS}},
        "simplecache::": {"simplecache": plain},
        "blockcache::": {"blockcache": plain},
    }


def opened(front: str, folder: str, s3: dict[str, Any]) -> xarray.Dataset:
    """Opens the array by a way."""
    if front == "CacheStore":
        from zarr.experimental.cache_store import CacheStore

        bucket = FsspecStore.from_url(URL, storage_options=s3, read_only=True)
        return xarray.open_zarr(CacheStore(bucket, cache_store=LocalStore(folder)), zarr_format=3)
    options = {"s3": s3, **caches(folder)[front]} if front else s3
    if front == "blockcache::":
        # Zarr takes it for an asynchronous file system, and would read past the cache.
        files, path = fsspec.url_to_fs(front + URL, **options)
        wrapped = AsyncFileSystemWrapper(files, asynchronous=True)
        return xarray.open_zarr(FsspecStore(wrapped, path=path, read_only=True), zarr_format=3)
    return xarray.open_zarr(front + URL, storage_options=options, zarr_format=3)


def main(front: str, folder: str, s3: dict[str, Any]) -> None:
    """Measures one mean."""
    for protocol in [*front.removesuffix("CacheStore").split("::"), "s3"]:
        if protocol:
            fsspec.get_filesystem_class(protocol)
    xarray.backends.list_engines()
    begin = time.perf_counter()
    mean = float(opened(front, folder, s3)["field"].mean(dtype="f8"))
    json.dump({"seconds": time.perf_counter() - begin, "mean": mean}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
