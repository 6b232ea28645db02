"""Checkpoints of PyTorch in a store, by `torch.distributed.checkpoint`."""

from __future__ import annotations

import contextlib
import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from fsspec import filesystem
from torch.distributed.checkpoint import CheckpointException, FsspecReader, FsspecWriter

from terrace._errors import NotFoundError, TerraceError

logger = logging.getLogger("terrace.checkpoint")

METADATA = ".metadata"
"""The file that torch writes when all others are written. A checkpoint without it is not whole."""


class Checkpoints:
    """The checkpoints of a training run, one for each of its steps that was saved, as files in the folder `name`.

    `store` and `options` are those of `terrace://`; a file counts as written once it has all its replicas, unless
    `options` says otherwise. With `keep`, all but the newest are removed whenever a newer one is durable. All ranks
    name the same store.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | None = None,
        name: str = "checkpoints",
        *,
        keep: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        if keep is not None and keep < 1:
            raise ValueError(f"keep={keep} would keep no checkpoint; it is at least 1, or None for all")
        self.name, self.keep = name.strip("/"), keep
        self.storage: dict[str, Any] = {
            "store": None if store is None else os.fspath(store),
            "options": {"ack": "replicated"} | (options or {}),
        }
        self.files = filesystem("terrace", **self.storage)
        self._behind = ThreadPoolExecutor(1, "terrace-checkpoint")
        self._settled: Future[None] | None = None

    def writer(self, step: int) -> Writer:
        """Returns the writer of a step for `dcp.save` or `dcp.async_save`. What is there of this step is removed."""
        return Writer(self, step)

    def reader(self, step: int) -> FsspecReader:
        """Returns the reader of a step for `dcp.load`."""
        return FsspecReader(self.url(step), **self.storage)

    def steps(self) -> list[int]:
        """Returns the steps whose checkpoints were saved to the end, oldest first."""
        return [step for step in self._begun() if self.files.exists(f"{self.name}/{step}/{METADATA}")]

    def load(self, state_dict: dict[str, Any], **keywords: Any) -> int:
        """Loads the newest checkpoint whose bytes for `state_dict` are all good, and returns its step.

        A warning names each newer one, and why it was not taken. If none can be read, `state_dict` may have bytes of
        several. `keywords` are those of `dcp.load`, such as `planner` and `process_group`.
        """
        for step, fault in self._agreed(**keywords):
            if fault is None:
                try:
                    dcp.load(state_dict, storage_reader=self.reader(step), **keywords)
                except CheckpointException as error:
                    lost = [one for one, _ in error.failures.values() if isinstance(one, OSError | TerraceError)]
                    if not lost:
                        raise
                    fault = f"is damaged: {lost[0]}"
                else:
                    return step
            logger.warning("the checkpoint of step %d in %r %s; the one before is taken", step, self.name, fault)
        missing = NotFoundError(f"no checkpoint in {self.name!r} of {self.files.store} can be read")
        missing.key = self.name
        raise missing

    def remove(self, step: int) -> None:
        """Removes the checkpoint of a step. If this is interrupted, the rest does not count as a checkpoint."""
        folder = f"{self.name}/{step}"
        with contextlib.suppress(FileNotFoundError):
            self.files.rm_file(f"{folder}/{METADATA}")
        with contextlib.suppress(FileNotFoundError):
            self.files.rm(folder, recursive=True)

    def wait(self) -> None:
        """Waits until the checkpoints of this process are durable, and those that are not kept are removed."""
        if self._settled is not None:
            self._settled.result()

    def url(self, step: int) -> str:
        """Returns the place of a step's checkpoint, for torch's own functions."""
        return f"terrace://{self.name}/{step}"

    def _begun(self) -> list[int]:
        if not self.files.isdir(self.name):
            return []
        names = (path.rpartition("/")[2] for path in self.files.ls(self.name, detail=False))
        return sorted(int(name) for name in names if name.isdecimal() and name == str(int(name)))

    def _agreed(self, process_group: Any = None, no_dist: bool = False, **_: Any) -> list[tuple[int, str | None]]:
        """Returns all steps, newest first, each with what keeps it from being loaded; the same ones on all ranks."""
        found = [[(step, self._fault(step)) for step in reversed(self._begun())]]
        if dist.is_available() and dist.is_initialized() and not no_dist:
            dist.broadcast_object_list(found, group=process_group, group_src=0)
        return found[0]

    def _fault(self, step: int) -> str | None:
        # Torch does not tell whether the metadata are damaged or missing.
        try:
            self.files.cat_file(f"{self.name}/{step}/{METADATA}")
        except FileNotFoundError:
            return "was not saved to the end"
        except (OSError, TerraceError) as error:
            return f"is damaged: {error}"
        return None

    def _settle(self) -> None:
        """Makes what is written durable, and then removes what is not kept."""
        self.files.store.sync()
        if self.keep is not None:
            whole = self.steps()
            for step in self._begun():
                # Of checkpoints that were not saved to the end, one that is newer may be being written.
                if whole and step < whole[-self.keep :][0]:
                    self.remove(step)


class Writer(FsspecWriter):  # type: ignore[misc]
    """Writes the checkpoint of a step."""

    def __init__(self, checkpoints: Checkpoints, step: int) -> None:
        # The store syncs: torch would sync all file systems of the machine, for want of a descriptor.
        super().__init__(checkpoints.url(step), sync_files=False, **checkpoints.storage)
        self.checkpoints, self.step = checkpoints, step

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **keywords: Any) -> None:
        super().set_up_storage_writer(is_coordinator, *args, **keywords)
        # No rank writes before all have planned, and so before this has ended.
        if is_coordinator:
            self.checkpoints.wait()
            self.checkpoints.remove(self.step)

    def finish(self, metadata: Any, results: Any) -> None:
        super().finish(metadata, results)
        self.checkpoints._settled = self.checkpoints._behind.submit(self.checkpoints._settle)
