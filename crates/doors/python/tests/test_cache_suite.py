"""fsspec's own tests, over `terrace::memory://`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec import AbstractFileSystem, filesystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.tests import abstract

from conftest import created


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AbstractFileSystem]:
        place: Path = created(tmp_path_factory.mktemp("suite"))
        yield filesystem("terrace", store=str(place), target_protocol="memory")
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]

    @pytest.fixture
    def fs_path(self) -> str:
        return "/"


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass
