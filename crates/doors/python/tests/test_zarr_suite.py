"""Zarr's own tests of stores, through fsspec."""

from pathlib import Path
from typing import Any

import pytest
from fsspec import filesystem
from zarr.core.buffer import Buffer, cpu
from zarr.storage import FsspecStore
from zarr.storage._fsspec import _make_async
from zarr.testing.store import StoreTests


class TestStore(StoreTests[FsspecStore, cpu.Buffer]):
    store_cls = FsspecStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def store_kwargs(self, place: Path) -> dict[str, Any]:
        return {"fs": _make_async(filesystem("terrace", store=str(place))), "path": "arrays"}

    async def set(self, store: FsspecStore, key: str, value: Buffer) -> None:
        store.fs.sync_fs.store.put(f"{store.path}/{key}", value.to_bytes())

    async def get(self, store: FsspecStore, key: str) -> Buffer:
        return self.buffer_cls.from_bytes(store.fs.sync_fs.store.get(f"{store.path}/{key}"))

    def test_store_repr(self, store: FsspecStore) -> None:
        assert repr(store) == "<FsspecStore(AsyncFileSystemWrapper, arrays)>"

    def test_store_supports_writes(self, store: FsspecStore) -> None:
        assert store.supports_writes

    def test_store_supports_listing(self, store: FsspecStore) -> None:
        assert store.supports_listing
