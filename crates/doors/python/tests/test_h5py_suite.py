"""h5py's own tests with their files in a store: on a mount, and by Terrace's driver for HDF5.

TERRACE_H5PY=all runs all of them; else those that say most of files, and by the driver a tenth, chosen by TERRACE_SEED.
"""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

from conftest import created, missing
from hdf5_programs import Programs

PROGRAM = Path(__file__).parents[4] / "target/debug/terrace"
SOME = ["test_file.py", "test_file2.py", "test_file_image.py", "test_group.py", "test_dataset_swmr.py", "test_vds"]
ALL = os.environ.get("TERRACE_H5PY") == "all"
LIMIT = 600
# The tests that do not pass by the driver, and why.
REFUSED = Path(__file__).parent / "h5py_by_driver.txt"


def suite() -> Path:
    import h5py.tests

    return Path(h5py.tests.__file__).parent


def command(*chosen: str) -> list[str]:
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", "-rfE", "-W", "ignore"]
    return [*pytest_, f"--rootdir={suite()}", *chosen]


def printed(run: list[str], **variables: str) -> str:
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | variables
    done = subprocess.run(run, cwd=suite(), env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def outcome(run: list[str], **variables: str) -> tuple[set[str], int]:
    """Returns the tests that fail, and the number of tests that pass."""
    said = printed(run, **variables)
    passed = re.search(r"(\d+) passed", said)
    assert passed, said
    return set(re.findall(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)), int(passed[1])


def test_h5py_fails_nowhere_that_plain_files_do_not(tmp_path: Path) -> None:
    if not PROGRAM.exists():
        missing("terrace", f"{PROGRAM} is not built")
    if not Path("/dev/fuse").exists():
        missing("fuse", "there is no /dev/fuse")
    plain, mount, place = tmp_path / "plain", tmp_path / "mount", created(tmp_path)
    plain.mkdir()
    mount.mkdir()
    run = command(*([] if ALL else SOME))
    expected, passed = outcome(run, TMPDIR=str(plain))
    mounted = [str(PROGRAM), "mount", str(mount), "--run", *run]
    found, passed_there = outcome(mounted, TMPDIR=str(mount), TERRACE_STORE=str(place))
    print(f"h5py: {passed} pass on plain files and {passed_there} on a mount; {len(expected)} and {len(found)} fail")
    assert found <= expected and passed_there >= passed > 100


def test_h5py_fails_by_the_driver_only_where_it_is_known_why(tmp_path: Path) -> None:
    # The tests make their folders by other calls than HDF5's: there is a folder on disk, too.
    below, programs = tmp_path / "below", Programs(created(tmp_path), str(tmp_path / "below"))
    below.mkdir()
    tests = [line for line in printed(command("--collect-only")).splitlines() if "::" in line]
    refused = {line for line in REFUSED.read_text().splitlines() if line and not line.startswith("#")}
    assert refused <= set(tests), refused - set(tests)
    seed = int(os.environ.get("TERRACE_SEED", "1"))
    chosen = tests if ALL else random.Random(seed).sample(tests, len(tests) // 10)
    listed = tmp_path / "chosen"
    listed.write_text("\n".join(chosen))
    found, passed = outcome(command(f"@{listed}"), **programs.driver, **programs.store, TMPDIR=str(below))
    print(f"h5py: {passed} of {len(chosen)} tests pass by the driver (TERRACE_SEED={seed}), {len(found)} fail")
    assert found == refused & set(chosen) and passed > len(chosen) * 0.9
    # The tests did use the store.
    assert list((tmp_path / "fast").glob("segments/*"))
