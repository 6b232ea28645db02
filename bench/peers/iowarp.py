"""IOWarp with its runtime, one more copy of everything on the persistent tier, both tiers files.

Run in a network namespace of its own: one of its ports listens on all addresses.
"""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

CONFIG = """
networking: {{port: 9413}}
runtime: {{num_threads: 2}}
viz: {{enabled: false}}
compose:
  - {{mod_name: clio_bdev, pool_name: "ram::chi_default_bdev", pool_query: local, pool_id: "301.0", bdev_type: ram,
     capacity: "512MB"}}
  - mod_name: clio_cte_core
    pool_name: cte_main
    pool_query: local
    pool_id: "512.0"
    storage:
      - {{path: "{memory}/tier.dat", bdev_type: file, capacity_limit: 1GB, growth_unit: 64MB, score: 1.0,
         persistence_level: temporary}}
      - {{path: "{disk}/tier.dat", bdev_type: file, capacity_limit: 4GB, growth_unit: 64MB, score: 0.2,
         persistence_level: long_term}}
    performance: {{metadata_log_path: "{disk}/log/metadata", flush_data_period_ms: 1000,
      flush_metadata_period_ms: 1000}}
    dpe: {{dpe_type: max_bw}}
  - {{mod_name: clio_cte_replication, pool_name: clio_cte_replication, pool_query: local, pool_id: "561.0",
     next_pool_id: "512.0", num_replicas: 1, cache_score: 1.0, replica_score: 0.2}}
"""


class Peer:
    def __init__(self, memory: Path, disk: Path) -> None:
        self.memory, self.disk, self.server = memory / "tier", disk / "tier", None
        self.home = disk / "home"
        self.config = disk / "clio.yaml"
        more = {"CLIO_SERVER_CONF": self.config, "HOME": self.home, "CLIO_STORAGE_ROOT": self.home}
        os.environ.update({key: str(value) for key, value in more.items()} | {"CLIO_CTE_POOL": "561.0"})
        self.cte, self.tag = None, None

    def start(self, *, fresh: bool) -> None:
        if fresh:
            for folder in (self.memory, self.disk, self.home):
                shutil.rmtree(folder, ignore_errors=True)
        for folder in (self.memory, self.disk / "log", self.home):
            folder.mkdir(parents=True, exist_ok=True)
        self.config.write_text(CONFIG.format(memory=self.memory, disk=self.disk))
        program = Path(sys.executable).with_name("clio_run")
        command = [program, "start", "--no-viz", *(["--fresh"] if fresh else [])]
        with (self.disk.parent / "server.log").open("ab") as log:
            self.server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        time.sleep(6)
        if self.server.poll() is not None:
            sys.exit(f"the runtime ended with {self.server.returncode}; {self.disk.parent}/server.log says why")

    def connect(self) -> None:
        importlib.import_module("iowarp_core")  # It makes the next one importable.
        cte = importlib.import_module("clio_cte_core_ext")

        cte.clio_init(cte.RuntimeMode.kClient, False)
        cte.initialize_cte("", cte.PoolQuery.Local())
        self.cte, self.tag = cte, cte.Tag("bench")

    def put(self, name: str, data: bytes) -> None:
        self.tag.PutBlob(name, data)

    def get(self, name: str, length: int) -> bytes:
        return self.tag.GetBlob(name, length)

    def settle(self) -> None:
        """Its flushes come by the clock."""

    def stop(self) -> None:
        program = Path(sys.executable).with_name("clio_run")
        subprocess.run([program, "stop"], capture_output=True, timeout=60, check=False)
        try:
            self.server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()
