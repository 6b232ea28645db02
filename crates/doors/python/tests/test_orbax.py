"""Orbax keeps JAX's checkpoints in a store, as the guide says: on a mount, and by the library of `terrace run`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_guide import GUIDES

import terrace
from conftest import required

PROGRAM = Path(__file__).parents[4] / "target/debug/terrace"
LIMIT = 300
FOLDER = "mkdir {0}/orbax && setfattr -n user.terrace.ack -v replicated {0}/orbax"


@pytest.mark.parametrize("by", ["mount", "preload"])
def test_orbax_saves_and_restores(place: Path, tmp_path: Path, by: str) -> None:
    required("orbax")
    if by == "mount" and not Path("/dev/fuse").exists():
        assert "fuse" not in os.environ.get("TERRACE_TEST_REQUIRE", "")
        pytest.skip("there is no /dev/fuse")
    example = re.search(r"^```python train.py\n(.*?)^```", (GUIDES / "machine-learning.md").read_text(), re.M | re.S)
    assert example
    prefix = tmp_path / "prefix"
    prefix.mkdir()
    (tmp_path / "train.py").write_text(example[1].replace("/terrace", str(prefix)))
    for command in [["sh", "-c", FOLDER.format(prefix)], [sys.executable, str(tmp_path / "train.py")]]:
        run = [str(PROGRAM), "run", "--store", str(place), "--by", by, "--prefix", str(prefix), "--", *command]
        subprocess.run(run, check=True, timeout=LIMIT)
    with terrace.Store(place) as store:
        assert not list(prefix.iterdir()), "the checkpoint is in the store, and not on the disk below"
        found = [one for one in store.ls("orbax/3") if one.kind == "file"]
        assert sum(one.length for one in found) > 1_000_000 and not list(store.ls("orbax/0"))
        extents = [extent for one in found for extent in store.locate(one.key)["extents"]]
        assert all([replica["state"] for replica in extent["replicas"]] == ["present"] * 2 for extent in extents)
