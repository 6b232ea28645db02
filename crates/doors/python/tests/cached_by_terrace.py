"""A plug-in of pytest that runs fsspec's tests of `filecache` with `terrace` in its place: it chooses them, and
translates the options of `filecache`."""

import inspect
import tempfile
from pathlib import Path
from typing import Any

import pytest

from conftest import created
from terrace.fsspec import TerraceFileSystem

OTHERS = {"simplecache", "blockcache", "cached"}
WEEK = 604800.0

made = TerraceFileSystem.__new__


def translated(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of `terrace` that mean the same as these of `filecache`."""
    storage = options.pop("cache_storage", "TMP")
    place = Path(tempfile.mkdtemp() if storage == "TMP" else storage if isinstance(storage, str) else storage[-1])
    place.mkdir(exist_ok=True)
    if not (place / "store").exists():
        created(place)
    options["store"] = str(place / "store")
    options["check_after"] = 0 if options.pop("check_files", False) else options.pop("expiry_time", WEEK)
    for name in ["same_names", "cache_check"]:
        options.pop(name, None)
    return options


def cache(cls: Any, *args: Any, **options: Any) -> Any:
    is_cache = options.get("target_protocol") or options.get("fs")
    return made(cls, *args, **(translated(options) if is_cache else options))


def pytest_configure() -> None:
    TerraceFileSystem.__new__ = cache


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Keeps the tests of `terrace`, except those that need an FTP server at a fixed port."""

    def is_chosen(item: pytest.Function) -> bool:
        names = set(item.callspec.params.values()) if hasattr(item, "callspec") else set()
        if "ftp_writable" in item.fixturenames:
            return False
        is_of_terrace = "terrace" in names or '"terrace"' in inspect.getsource(item.function)
        return (is_of_terrace or "local_filecache" in item.fixturenames) and not names & OTHERS

    items[:] = [item for item in items if is_chosen(item)]
