"""Stores for the tests: two tiers in a temporary directory, and the real files of TERRACE_DATA."""

import importlib.util
import os
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec import AbstractFileSystem, filesystem

import terrace
from moto_server import MOTO, Server

CONFIG = """
[store]
replicas = {{ min = 1, max = 3, default = 2 }}

[[tier]]
name = "fast"
kind = "directory"
targets = ["{0}/fast"]

[[tier]]
name = "slow"
kind = "directory"
targets = ["{0}/slow"]
"""


def created(place: Path) -> Path:
    """A new store's directory."""
    config = place / "terrace.toml"
    config.write_text(CONFIG.format(place))
    terrace.Store.create(place / "store", config).close()
    return place / "store"


def clear(store: Path) -> None:
    """Removes the tiers of a store, because the RAM tier that was found is elsewhere."""
    for tier in tomllib.loads((store / "terrace.toml").read_text())["tier"]:
        for target in tier["targets"]:
            shutil.rmtree(target["path"])


def missing(need: str, reason: str) -> None:
    """Skips a test for lack of what it needs, or fails it where TERRACE_TEST_REQUIRE names the need."""
    names = os.environ.get("TERRACE_TEST_REQUIRE", "").split(",")
    assert need not in [name.strip() for name in names], f"{need} is not available here: {reason}"
    pytest.skip(f"{need} is not available here: {reason}", allow_module_level=True)


def required(package: str) -> None:
    """Skips the tests of a module, or the test that calls, if a package is not there that only `make soak` installs."""
    if importlib.util.find_spec(package) is None:
        missing(package, "`make soak` installs it")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return created(tmp_path)


@pytest.fixture
def store(place: Path) -> Iterator[terrace.Store]:
    with terrace.Store(place) as opened:
        yield opened


@pytest.fixture
def files(place: Path) -> AbstractFileSystem:
    return filesystem("terrace", store=str(place))


@pytest.fixture
def data() -> Path:
    """The real files."""
    if not (named := os.environ.get("TERRACE_DATA")):
        pytest.skip("TERRACE_DATA names no real files")
    return Path(named)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    if not MOTO.exists():
        missing("s3", "there is no moto_server; `make servers` installs it")
    started = Server(tmp_path / "log")
    yield started
    started.stop()
