"""fsspec's own tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec import AbstractFileSystem, filesystem
from fsspec.tests import abstract

from conftest import created


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self, tmp_path_factory: pytest.TempPathFactory) -> AbstractFileSystem:
        place: Path = created(tmp_path_factory.mktemp("suite"))
        return filesystem("terrace", store=str(place))

    @pytest.fixture
    def fs_path(self) -> Iterator[str]:
        yield ""

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return True


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
