"""A server of S3 in a process of its own."""

import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from fsspec import filesystem

MOTO = Path(__file__).parents[4] / "target/servers/bin/moto_server"
START_SECONDS = 60


class Server:
    """Moto's S3, which keeps its objects in memory."""

    object_get = r"GET /bucket/[^? ]+ HTTP"
    """How the log tells a request for an object's bytes."""

    def __init__(self, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = log
        self.start()

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except ConnectionRefusedError:
                assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
                time.sleep(0.1)
        self.fs = filesystem("s3", **self.options["s3"], skip_instance_cache=True)
        self.fs.makedirs("bucket", exist_ok=True)

    def command(self) -> list[str]:
        return [str(MOTO), "-H", "127.0.0.1", "-p", str(self.port)]

    @property
    def endpoint(self) -> str:
        """Returns the server's address."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @property
    def options(self) -> dict[str, Any]:
        config = {"retries": {"max_attempts": 0}}
        return {"s3": {"key": "key", "secret": "secret", "endpoint_url": self.endpoint, "config_kwargs": config}}

    def gets(self) -> int:
        """Returns the number of requests for objects' bytes so far."""
        return len(re.findall(self.object_get, self.log.read_text()))

    def requests(self) -> list[str]:
        """Returns the methods of the requests for objects so far: GET, HEAD, and LIST for a list of them."""
        found = re.findall(r"(GET|HEAD) /bucket(/[^? ]+)?(\?\S*)? HTTP", self.log.read_text())
        return [method if key else "LIST" for method, key, _ in found]
