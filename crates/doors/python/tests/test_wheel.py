"""The wheel in an empty environment, as a newcomer installs it, and a bucket whose server stops and comes back."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import xarray

from conftest import clear, missing
from kept_server import VERSITYGW, KeptServer

ROOT = Path(__file__).parents[4]
TOUR = (ROOT / "docs/guide/xarray.md").read_text()
PROGRAM = Path(__file__).with_name("means_of_a_bucket.py")


class Environment:
    """A virtual environment, and a directory in which its programs run."""

    def __init__(self, place: Path) -> None:
        self.programs, self.folder = place / "venv/bin", place / "folder"
        self.folder.mkdir()
        subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)

    def shell(self, line: str) -> None:
        self._run(["sh", "-ec", line], ROOT)

    def python(self, *arguments: str | Path) -> str:
        return self._run([self.programs / "python", *arguments], self.folder)

    def _run(self, command: list[str | Path], folder: Path) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        env = kept | {"PATH": f"{self.programs}:{os.environ['PATH']}", "PYTHONNOUSERSITE": "1"}
        ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
        return ended.stdout


@pytest.fixture(scope="module")
def wheel() -> Path:
    if not (named := os.environ.get("TERRACE_WHEEL")):
        missing("wheel", "TERRACE_WHEEL does not name one")
    return Path(named)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What the tour says that you install."""
    made = Environment(tmp_path_factory.mktemp("installed"))
    line = re.search(r"^pip install .*$", TOUR, re.MULTILINE)
    assert line is not None
    made.shell(line[0].replace("$(ls target/wheels/*.whl)", str(wheel)))
    return made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KeptServer]:
    if not VERSITYGW.exists():
        missing("versitygw", "`make peers` builds it")
    started = KeptServer(tmp_path)
    yield started
    started.stop()


def test_it_needs_nothing_else(wheel: Path, tmp_path: Path) -> None:
    empty = Environment(tmp_path)
    empty.shell(f"pip install {wheel}")
    program = "import terrace; store = terrace.Store.create('store'); store.put('a', b'bytes'); print(store.get('a'))"
    assert empty.python("-c", program) == "b'bytes'\n"
    clear(empty.folder / "store")


def test_the_tour_runs_and_the_bucket_may_go_and_come_back(
    installed: Environment, server: KeptServer, data: Path
) -> None:
    shutil.copy(data / "nc/ostia_monthly.nc", installed.folder / "sst.nc")
    examples = re.findall(r"^```python\n(.*?)^```", TOUR, re.MULTILINE | re.DOTALL)
    program = installed.folder / "tour.py"
    program.write_text("".join(examples).replace("http://127.0.0.1:5000", server.endpoint))
    installed.python(program)

    def means() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(installed.python(PROGRAM, server.endpoint))
        return found

    first, asked = means(), server.gets()
    with xarray.open_dataset(data / "nc/ostia_monthly.nc", engine="h5netcdf") as real:
        assert first["means"] == pytest.approx([float(real.surface_temperature.mean())] * 2)
    length = (data / "nc/ostia_monthly.nc").stat().st_size
    assert re.match(rf"\d+ of {length} bytes were read, of the version with ETag ", first["cached"]["bucket/sst.nc"])
    assert sum(path.startswith("bucket/sst.zarr/surface_temperature/") for path in first["cached"]) > 1
    assert means()["means"] == first["means"] and server.gets() == asked
    server.stop()
    assert means()["means"] == first["means"]
    server.start()
    assert means()["means"] == first["means"] and server.gets() == asked
    # It is the same server: its objects are not uploaded again.
    assert server.fs.info("bucket/sst.nc")["size"] == length
    clear(installed.folder / "store")
