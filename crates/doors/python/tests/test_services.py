"""A wheel that speaks to services: those that `make python` builds have some, those of the other tests have none."""

from pathlib import Path

import numpy

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


def test_a_bucket_is_a_tier(server: Server, tmp_path: Path) -> None:
    config, data = tmp_path / "terrace.toml", numpy.random.default_rng(1).bytes(3_000_000)
    config.write_text(CONFIG.format(place=tmp_path, endpoint=server.endpoint))
    try:
        store = terrace.Store.create(tmp_path / "store", config)
    except terrace.ConfigError as error:
        if "not compiled in" not in str(error):
            raise
        missing("services", str(error))
    with store:
        store.put("a", data, replicas=2)
        store.sync()
        replicas = [replica for extent in store.locate("a")["extents"] for replica in extent["replicas"]]
        assert {replica["tier"] for replica in replicas} == {"disk", "bucket"}
        assert server.fs.du("bucket/store") >= len(data) and store.get("a") == data
