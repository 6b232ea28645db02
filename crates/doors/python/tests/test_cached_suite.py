"""fsspec's own tests of `filecache`, with `terrace` in its place."""

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import missing

FETCHED = Path(__file__).parents[4] / "target/servers/fsspec/fsspec"
# The tests that do not pass, and why.
LEFT_OUT = Path(__file__).parent / "cached_by_terrace.txt"
LIMIT = 300


def test_fsspecs_tests_of_its_cache_fail_only_where_it_is_known_why(tmp_path: Path) -> None:
    tests = FETCHED / "implementations/tests"
    if not (tests / "test_cached.py").exists():
        missing("fsspec", "its tests are not there; `make servers` fetches them")
    text = (tests / "test_cached.py").read_text().replace('"filecache"', '"terrace"')
    # What is beside it in the repository is not all installed.
    text = text.replace("from fsspec.tests.conftest import win", "win = False")
    text = text.replace("from .test_ftp import", "from fsspec.implementations.ftp import")
    (tmp_path / "test_cached.py").write_text(text)
    plugins = {"fsspec_fixtures": FETCHED / "conftest.py", "implementations_fixtures": tests / "conftest.py"}
    for name, file in plugins.items():
        (tmp_path / f"{name}.py").write_text(file.read_text())
    given = [f"-p{name}" for name in [*plugins, "cached_by_terrace", "no:cacheprovider"]]
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-rA", "-W", "ignore", *given, "test_cached.py"]
    (tmp_path / "temporary").mkdir()
    known = {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parent)]),
        "TMPDIR": str(tmp_path / "temporary"),
    }
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | known, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    outcomes = re.findall(r"^(PASSED|FAILED|ERROR) \S*::(\S+)", done.stdout, re.MULTILINE)
    left_out = {line for line in LEFT_OUT.read_text().splitlines() if line and not line.startswith("#")}
    assert {name for outcome, name in outcomes if outcome != "PASSED"} == left_out, done.stdout
    assert sum(outcome == "PASSED" for outcome, _ in outcomes) >= 11 and "skipped" not in done.stdout
