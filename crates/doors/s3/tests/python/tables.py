"""What programs that analyse data do: s3fs, pyarrow and DuckDB. sys.argv[1] is the server."""

import os
import sys
from pathlib import Path
from urllib.parse import urlparse

import duckdb
import duckdb_extension_httpfs
import pyarrow as pa
import pyarrow.parquet as pq
import s3fs
from pyarrow import fs

ENDPOINT = sys.argv[1]
ADDRESS = urlparse(ENDPOINT).netloc


def files():
    store = s3fs.S3FileSystem(endpoint_url=ENDPOINT)
    store.mkdir("tables")
    with store.open("tables/a/b.txt", "wb") as file:
        file.write(b"some " * 4_000_000)
    assert store.size("tables/a/b.txt") == 20_000_000 and store.exists("tables/a") and not store.exists("tables/x")
    with store.open("tables/a/b.txt") as file:
        file.seek(10_000_001)
        assert file.read(4) == b"ome "
    store.pipe({f"tables/a/{n}": str(n).encode() for n in range(20)})
    assert len(store.ls("tables/a")) == 21 and len(store.find("tables")) == 21
    store.mv("tables/a/1", "tables/c/1")
    assert store.cat("tables/c/1") == b"1" and not store.exists("tables/a/1")
    store.rm("tables/a", recursive=True)
    assert store.find("tables") == ["tables/c/1"]


def parquet():
    table = pa.table({"step": list(range(100_000)), "name": [str(n % 7) for n in range(100_000)]})
    remote = fs.S3FileSystem(endpoint_override=ADDRESS, scheme="http", region="us-east-1")
    pq.write_to_dataset(table, "tables/set", partition_cols=["name"], filesystem=remote)
    read = pq.read_table("tables/set", filesystem=remote, filters=[("name", "=", 3)], columns=["step"])
    assert sorted(read["step"].to_pylist()) == list(range(3, 100_000, 7))
    assert len(remote.get_file_info(fs.FileSelector("tables/set", recursive=True))) == 14


def duckdb_reads():
    found = duckdb.connect()
    # The extension of exactly this DuckDB, as a package: DuckDB itself would fetch it from the network.
    folder = Path(duckdb_extension_httpfs.__file__).parent
    found.execute(f"load '{folder}/extensions/v{duckdb.__version__}/httpfs.duckdb_extension'")
    found.execute(f"set s3_endpoint='{ADDRESS}'; set s3_use_ssl=false; set s3_url_style='path'")
    found.execute(f"set s3_access_key_id='{os.environ['AWS_ACCESS_KEY_ID']}'")
    found.execute(f"set s3_secret_access_key='{os.environ['AWS_SECRET_ACCESS_KEY']}'")
    query = "select count(*), max(step) from read_parquet('s3://tables/set/**/*.parquet')"
    assert found.execute(query).fetchone() == (100_000, 99_999)


for part in [files, parquet, duckdb_reads]:
    part()
    print(part.__name__)
