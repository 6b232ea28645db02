"""Orbax keeps JAX's checkpoints in a store: the guide's example, and Orbax's own tests of its `Checkpointer`."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from test_guide import GUIDES

import terrace
from conftest import missing, required

Run = Callable[..., str]

PROGRAM = Path(__file__).parents[4] / "target/debug/terrace"
LIMIT = 500
FOLDER = "mkdir {0}/orbax && setfattr -n user.terrace.ack -v replicated {0}/orbax"


OWN_TESTS = """
from absl.testing import absltest
from orbax.checkpoint.experimental.v1._src.training import checkpointer_test_base as base

class CheckpointerTest(base.CheckpointerTestBase.Test):
    pass

absltest.main()
"""
DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}


@pytest.fixture(params=["mount", "preload"])
def run(request: pytest.FixtureRequest, place: Path, tmp_path: Path) -> Run:
    """Returns a function that runs a program with the store below `tmp_path / "prefix"`, and returns its complaints."""
    required("orbax")
    by, prefix = request.param, tmp_path / "prefix"
    if by == "mount" and not Path("/dev/fuse").exists():
        missing("fuse", "there is no /dev/fuse")
    prefix.mkdir()

    def run(*command: str, **variables: str) -> str:
        program = [str(PROGRAM), "run", "--store", str(place), "--by", by, "--prefix", str(prefix), "--", *command]
        environment = os.environ | variables
        done = subprocess.run(program, env=environment, stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stderr[-5000:]
        assert not list(prefix.iterdir()), "the files are in the store, and not on the disk below"
        return done.stderr

    return run


def test_orbax_saves_and_restores(run: Run, place: Path, tmp_path: Path) -> None:
    example = re.search(r"^```python train.py\n(.*?)^```", (GUIDES / "machine-learning.md").read_text(), re.M | re.S)
    assert example
    (tmp_path / "train.py").write_text(example[1].replace("/terrace", str(tmp_path / "prefix")))
    run("sh", "-c", FOLDER.format(tmp_path / "prefix"))
    run(sys.executable, str(tmp_path / "train.py"))
    with terrace.Store(place) as store:
        found = [one for one in store.ls("orbax/3") if one.kind == "file"]
        assert sum(one.length for one in found) > 1_000_000 and not list(store.ls("orbax/0"))
        extents = [extent for one in found for extent in store.locate(one.key)["extents"]]
        assert all([replica["state"] for replica in extent["replicas"]] == ["present"] * 2 for extent in extents)


# By the library, 2 of the 51 failed: TensorStore got EISDIR where it opened a folder.
@pytest.mark.parametrize("run", ["mount"], indirect=True)
def test_orbax_passes_its_own_tests(run: Run, tmp_path: Path) -> None:
    run("mkdir", str(tmp_path / "prefix/tests"))
    said = run(sys.executable, "-c", OWN_TESTS, TEST_TMPDIR=str(tmp_path / "prefix/tests"), **DEVICES)
    ran = re.search(r"^Ran (\d+) tests", said, re.M)
    assert ran and int(ran[1]) > 40 and "OK" in said.splitlines()[-1], said[-5000:]
