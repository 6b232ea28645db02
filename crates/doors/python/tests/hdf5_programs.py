"""Programs that use HDF5 with Terrace's driver. Each is a process: HDF5 chooses its driver when it is loaded."""

import os
import subprocess
import sys
from pathlib import Path

BUILT = Path(__file__).parents[4] / "target/debug"
PLUGIN, PRELOAD = BUILT / "libterrace_hdf5.so", BUILT / "libterrace_preload.so"
LIMIT = 300


class Programs:
    """Programs that see a store's files below a prefix."""

    def __init__(self, place: Path, prefix: str = "/terrace") -> None:
        assert PLUGIN.exists(), f"{PLUGIN} is not built: cargo build --lib"
        # HDF5 loads every library of the folder, to look what it is.
        plugins = place.parent / "plugins"
        plugins.mkdir(exist_ok=True)
        if not (plugins / PLUGIN.name).exists():
            (plugins / PLUGIN.name).symlink_to(PLUGIN)
        self.place, self.prefix = place, prefix
        self.driver = {"HDF5_PLUGIN_PATH": str(plugins), "HDF5_DRIVER": "terrace"}
        self.store = {"TERRACE_PREFIX": prefix, "TERRACE_STORE": str(place)}

    def begin(self, script: str, *arguments: object, **variables: str) -> subprocess.Popen[str]:
        """Starts a program. Its first line imports what all need."""
        program = "import os, sys, h5py, numpy as np\n" + script
        environment = os.environ | self.driver | self.store | {"PYTHONDONTWRITEBYTECODE": "1"} | variables
        run = [sys.executable, "-c", program, *map(str, arguments)]
        pipe = subprocess.PIPE
        pipes = {"stdin": pipe, "stdout": pipe, "stderr": pipe}
        return subprocess.Popen(run, env=environment, text=True, cwd=self.place.parent, **pipes)

    def run(self, script: str, *arguments: object, **variables: str) -> str:
        """Returns what a program prints, which succeeds and complains about nothing."""
        printed, complained = self.ended(self.begin(script, *arguments, **variables))
        assert not complained, complained
        return printed

    def ended(self, program: subprocess.Popen[str]) -> tuple[str, str]:
        """Returns what a program, which succeeds, prints on its standard output and error."""
        printed, complained = program.communicate(timeout=LIMIT)
        assert program.returncode == 0, f"{program.returncode}\n{printed}\n{complained}"
        return printed, complained

    def refused(self, script: str, *arguments: object, **variables: str) -> str:
        """Returns the last line of the error with which a program of Python ends."""
        program = self.begin(script, *arguments, **variables)
        _, complained = program.communicate(timeout=LIMIT)
        assert program.returncode == 1, complained
        return complained.strip().splitlines()[-1]
