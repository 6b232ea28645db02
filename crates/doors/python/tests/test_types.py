"""The stubs match the native half, and mypy understands the package."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

from terrace import _terrace

ROOT = Path(__file__).parent.parent


def test_mypy_understands_the_package() -> None:
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_name_every_item() -> None:
    stubs = (ROOT / "python/terrace/_terrace.pyi").read_text()
    for name, made in inspect.getmembers(_terrace, inspect.isclass):
        body = re.search(rf"^class {name}:\n((?:    .*\n|\n)+)", stubs, re.MULTILINE)
        assert body, f"no stub of {name}"
        said = set(re.findall(r"    def (\w+)\(", body[1])) - {"__new__"}
        assert said == {member for member in vars(made) if not member.startswith("__")}, name
