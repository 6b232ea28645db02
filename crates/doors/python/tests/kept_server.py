"""A server of S3 that keeps its objects while it is stopped."""

from pathlib import Path

from moto_server import Server

VERSITYGW = Path(__file__).parents[4] / "target/peers/versitygw/versitygw"


class KeptServer(Server):
    """versitygw over a directory."""

    object_get = r"\| GET \| /bucket/[^|]"

    def __init__(self, folder: Path) -> None:
        self.objects, self.notes = folder / "objects", folder / "notes"
        for made in (self.objects, self.notes):
            made.mkdir()
        super().__init__(folder / "log")

    def command(self) -> list[str]:
        # Without the sidecar, it needs a file system with attributes.
        place = ["--port", f"127.0.0.1:{self.port}", "posix", "--sidecar", str(self.notes), str(self.objects)]
        return [str(VERSITYGW), "--access", "key", "--secret", "secret", *place]
