"""The guide's examples, run in order."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[4] / "docs/guide/python.md"


def test_the_guides_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text()
    known: dict[str, object] = {}
    for example in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, example.start(1))
        exec(compile("\n" * line + example[1], str(GUIDE), "exec"), known)
    known["store"].close()  # type: ignore[attr-defined]
    # The RAM tier that was found lies elsewhere.
    for tier in tomllib.loads((tmp_path / "my-store/terrace.toml").read_text())["tier"]:
        for target in tier["targets"]:
            shutil.rmtree(target["path"])
