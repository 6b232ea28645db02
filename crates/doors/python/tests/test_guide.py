"""The guides' examples, run in order."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import clear, required
from moto_server import Server

GUIDES = Path(__file__).parents[4] / "docs/guide"


def run(name: str, endpoint: str = "") -> dict[str, Any]:
    """Runs the examples of a guide in the current directory. Returns the names that they define."""
    text = (GUIDES / name).read_text().replace("http://127.0.0.1:5000", endpoint)
    known: dict[str, Any] = {}
    for example in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, example.start(1))
        exec(compile("\n" * line + example[1], str(GUIDES / name), "exec"), known)
    return known


def test_the_guides_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("python.md")["store"].close()
    clear(tmp_path / "my-store")


def test_the_tour_of_xarray_runs(server: Server, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(data / "nc/ostia_monthly.nc", "sst.nc")
    known = run("xarray.md", server.endpoint)
    above, below = known["figure"].axes[:2]
    means = known["warmth"].mean(["latitude", "longitude"]).values
    assert (above.lines[0].get_ydata() == means).all() and below.collections[0].get_array().size > 1000
    assert Path("sst.png").read_bytes() == known["store"].get("results/sst.png") and len(means) > 10
    known["store"].close()
    clear(tmp_path / "store")


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_the_guide_to_machine_learning_runs(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    required("torch")
    monkeypatch.chdir(tmp_path)
    known = run("machine-learning.md", server.endpoint)
    known["store"].close()
    clear(tmp_path / "store")
