"""Two replicas of everything, one on each tier; a put returns when both are in files."""

import shutil
from pathlib import Path

import terrace


class Peer:
    def __init__(self, memory: Path, disk: Path) -> None:
        self.tiers, self.place = (memory / "tier", disk / "tier"), disk / "store"
        self.store: terrace.Store | None = None

    def start(self, *, fresh: bool) -> None:
        if not fresh:
            return
        for folder in (*self.tiers, self.place):
            shutil.rmtree(folder, ignore_errors=True)
        config = self.place.with_suffix(".toml")
        tier = "[[tier]]\nname = '{}'\nkind = 'directory'\ntargets = ['{}']\n"
        tiers = [tier.format(*named) for named in zip(("memory", "disk"), self.tiers, strict=True)]
        store = "[store]\nreplicas = { default = 2 }\nack = 'replicated'\n"
        config.write_text(store + "".join(tiers))
        terrace.Store.create(self.place, config).close()

    def connect(self) -> None:
        self.store = terrace.Store(str(self.place))

    def put(self, name: str, data: bytes) -> None:
        self.store.put(name, data)

    def get(self, name: str, length: int) -> bytes:
        return self.store.get(name)

    def settle(self) -> None:
        self.store.close()

    def stop(self) -> None:
        if self.store:
            self.store.close()

    def kill(self) -> None:
        """The process that has put is the one to be killed: there is no server."""
