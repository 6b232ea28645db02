"""h5py's own tests fail nowhere on a mount where they do not fail on plain files.

TERRACE_H5PY=all runs all of them; else those that say most of files.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import created

PROGRAM = Path(__file__).parents[4] / "target/debug/terrace"
SOME = ["test_file.py", "test_file2.py", "test_file_image.py", "test_group.py", "test_dataset_swmr.py", "test_vds"]
LIMIT = 600


def command() -> list[str]:
    import h5py.tests

    place = Path(h5py.tests.__file__).parent
    chosen = [place] if os.environ.get("TERRACE_H5PY") == "all" else [place / name for name in SOME]
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", "-rfE", "-W", "ignore"]
    return [*pytest_, f"--rootdir={place}", *map(str, chosen)]


def outcome(run: list[str], place: Path, files: Path) -> tuple[set[str], int]:
    """Returns the tests that fail with their files in a folder, and the number of tests that pass."""
    environment = os.environ | {"TMPDIR": str(files), "TERRACE_STORE": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed, done.stdout + done.stderr
    return set(re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)), int(passed[1])


def test_h5py_fails_nowhere_that_plain_files_do_not(tmp_path: Path) -> None:
    if not (PROGRAM.exists() and Path("/dev/fuse").exists()):
        pytest.skip(f"there is no {PROGRAM.name} in target/debug, or no /dev/fuse")
    plain, mount, place = tmp_path / "plain", tmp_path / "mount", created(tmp_path)
    plain.mkdir()
    mount.mkdir()
    expected, passed = outcome(command(), place, plain)
    found, passed_there = outcome([str(PROGRAM), "mount", str(mount), "--run", *command()], place, mount)
    print(f"h5py: {passed} pass on plain files and {passed_there} on a mount; {len(expected)} and {len(found)} fail")
    assert found <= expected and passed_there >= passed > 100
