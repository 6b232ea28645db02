"""A wheel that speaks to services: those that `make python` builds do, and a development build may lack some."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy
import pytest

import terrace
from conftest import missing
from moto_server import Server

CONFIG = """
[[tier]]
name = "disk"
kind = "directory"
targets = ["{place}/disk"]

[[tier]]
name = "bucket"
kind = "object"
service = "s3"
targets = ["/store"]
capacity = "1GiB"

[tier.options]
bucket = "bucket"
region = "us-east-1"
endpoint = "{endpoint}"
access_key_id = "key"
secret_access_key = "secret"
"""


@contextmanager
def wheel_with_services() -> Iterator[None]:
    """Skips the test if the package lacks a service."""
    try:
        yield
    except terrace.TerraceError as error:
        if "not compiled in" not in str(error):
            raise
        missing("services", str(error))


@pytest.mark.parametrize("service", ["azblob", "gcs", "http", "s3", "sftp", "webdav"])
def test_the_wheel_speaks_to_the_services_of_the_guide(store: terrace.Store, service: str) -> None:
    with pytest.raises(terrace.TerraceError) as refused, wheel_with_services():
        # An answer to an address without a bucket or a server.
        store.add_origin("data", f"{service}://")
    assert "not compiled in" not in str(refused.value)


def test_a_bucket_is_an_origin(server: Server, store: terrace.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    data = numpy.random.default_rng(2).bytes(3_000_000)
    server.fs.pipe({"bucket/runs/a": data, "bucket/runs/b/c": b"c", "bucket/other": b"other"})
    options = {"region": "us-east-1", "endpoint": server.endpoint, "access_key_id": "key"}
    monkeypatch.setenv("SECRET", "secret")
    with wheel_with_services():
        store.add_origin("data", "s3://bucket/runs", options | {"secret_access_key": "${SECRET}"}, max_age=1000)
    assert [found.key for found in store.ls("data") if found.kind == "file"] == ["data/a", "data/b/c"]
    assert store.read("data/a", 2_000_000, 2_000_100) == data[2_000_000:2_000_100]
    assert store.origins()[0]["cached"] == 64 << 10
    assert store.fetch_origins("data")["left"] == 0 and store.origins()[0]["cached"] == len(data) + 1
    server.stop()
    assert store.get("data/a") == data and store.get("data/b/c") == b"c"
    assert store.remove_origin("data")["files"] == 2


def test_a_bucket_is_a_tier(server: Server, tmp_path: Path) -> None:
    config, data = tmp_path / "terrace.toml", numpy.random.default_rng(1).bytes(3_000_000)
    config.write_text(CONFIG.format(place=tmp_path, endpoint=server.endpoint))
    with wheel_with_services():
        store = terrace.Store.create(tmp_path / "store", config)
    with store:
        store.put("a", data, replicas=2)
        store.sync()
        replicas = [replica for extent in store.locate("a")["extents"] for replica in extent["replicas"]]
        assert {replica["tier"] for replica in replicas} == {"disk", "bucket"}
        assert server.fs.du("bucket/store") >= len(data) and store.get("a") == data
