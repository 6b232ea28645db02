"""Reads of s3fs whose answers tell the version of their bytes, so that nobody has to ask for it before or after."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from fsspec.asyn import sync

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class Read(NamedTuple):
    """A range of a file of S3."""

    said: dict[str, Any] | None
    """What `info` says about the version of the file that was read; `None` if there is no file."""
    data: bytes


def is_known(fs: AbstractFileSystem) -> bool:
    """Returns whether this is s3fs, and no class that reads files in a way of its own."""
    own, s3fs = type(fs), getattr(sys.modules.get("s3fs"), "S3FileSystem", None)
    return s3fs is not None and issubclass(own, s3fs) and (own._cat_file, own._info) == (s3fs._cat_file, s3fs._info)


def read(fs: AbstractFileSystem, path: str, start: int, end: int, etag: str | None = None) -> Read | None:
    """Returns the bytes from `start` up to, not including, `end`, or fewer at the end of the file, by one request.

    With an ETag, they are of the version with that ETag. `None` if the service does not give such bytes, or does not
    tell their version.
    """
    found: Read | None = sync(fs.loop, _read, fs, path, start, end, etag)
    return found


def is_folder(fs: AbstractFileSystem, path: str) -> bool:
    """Returns whether any object is below a path."""
    bucket, key, _ = fs.split_path(path)
    found = fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=f"{key.rstrip('/')}/", MaxKeys=1)
    return bool(found.get("Contents"))


async def _read(fs: Any, path: str, start: int, end: int, etag: str | None) -> Read | None:
    bucket, key, version = fs.split_path(path)
    if not key:
        return None
    asked = {"Bucket": bucket, "Key": key, "Range": f"bytes={start}-{end - 1}", "VersionId": version, "IfMatch": etag}
    try:
        answer = await fs._call_s3("get_object", **{name: value for name, value in asked.items() if value})
    except (FileNotFoundError, PermissionError):
        raise
    except OSError as error:
        if getattr(error.__cause__, "response", None) is None:
            raise
        # The service has answered: the file has changed or is empty, or it does not know such requests.
        return None
    with closing(answer["Body"]) as body:
        told = answer.get("ETag", "")
        size = _size(answer, start, end)
        # Two versions may have the same weak ETag.
        if size is None or not told or told.startswith("W/") or etag not in (None, told):
            return None
        try:
            data = await body.read()
        except Exception:  # Whether to ask again is a matter of s3fs, which knows the exceptions of its libraries.
            return None
    if len(data) != min(end, size) - start:
        return None
    said = {
        "ETag": told,
        "LastModified": answer.get("LastModified", ""),
        "size": size,
        "name": f"{bucket}/{key}",
        "type": "file",
        "StorageClass": answer.get("StorageClass", "STANDARD"),
        "VersionId": answer.get("VersionId"),
        "ContentType": answer.get("ContentType"),
    }
    return Read(said, data)


def _size(answer: dict[str, Any], start: int, end: int) -> int | None:
    """Returns the length of the file whose range this is. `None` if the service has ignored the range."""
    given = answer.get("ContentRange")
    if given is None:
        length: int = answer["ContentLength"]
        return length if start == 0 and length <= end else None
    told = RANGE.fullmatch(given)
    first, last, size = map(int, told.groups()) if told else (-1, -1, 0)
    if (first, last + 1) != (start, min(end, size)):
        raise OSError(f"the service answers a request for bytes {start} to {end} with {given!r}")
    return size
