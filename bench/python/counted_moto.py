"""Moto's S3 in memory, which counts what it gives: `GET /-counted` tells the requests and the bytes of their answers.

It runs where moto is installed. Argument: the port on loopback.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Any

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

COUNTED_PATH = "/-counted"
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Counted:
    """An application, and what it has answered to GET."""

    def __init__(self, application: Application) -> None:
        self.application, self.lock = application, Lock()
        self.requests = self.bytes = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answers a request."""
        if environ["PATH_INFO"] == COUNTED_PATH:
            start_response("200 OK", [("Content-Type", "application/json")])
            return [json.dumps({"requests": self.requests, "bytes": self.bytes}).encode()]
        with self.lock:
            self.requests += 1
        answer = self.application(environ, start_response)
        return self.count(answer) if environ["REQUEST_METHOD"] == "GET" else answer

    def count(self, answer: Iterable[bytes]) -> Iterator[bytes]:
        """Passes an answer on, and adds its bytes."""
        for part in answer:
            with self.lock:
                self.bytes += len(part)
            yield part


def main(port: int) -> None:
    """Serves until it is killed."""
    application = Counted(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", port, application, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main(int(sys.argv[1]))
