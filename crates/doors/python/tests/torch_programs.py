"""Programs of the tests with PyTorch, which are processes of their own. Their arguments: what to do, a store, more."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from terrace.checkpoint import Checkpoints, Writer

ELEMENTS = 1_000_003


def state(step: int) -> dict[str, Any]:
    """The state of a program after a step."""
    random = torch.Generator().manual_seed(step)
    weights = {name: torch.rand(ELEMENTS, generator=random) for name in ["first", "second"]}
    return {"model": weights, "step": step}


def empty() -> dict[str, Any]:
    """The state that a checkpoint is loaded into."""
    return {"model": {name: torch.zeros(ELEMENTS) for name in ["first", "second"]}, "step": -1}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    weights = zip(one["model"].values(), other["model"].values(), strict=True)
    return one["step"] == other["step"] and all(torch.equal(a, b) for a, b in weights)


def stop_before_the_end(place: str, step: str) -> None:
    """Writes all bytes of a checkpoint, says so, and does not go on."""

    class Stopped(Writer):
        def finish(self, metadata: Any, results: Any) -> None:
            print("written", flush=True)
            time.sleep(300)

    dcp.save(state(int(step)), storage_writer=Stopped(Checkpoints(place, "run"), int(step)))


def save_forever(place: str, first: str) -> None:
    """Says each step that is saved."""
    checkpoints, step = Checkpoints(place, "run", keep=2), int(first)
    while True:
        dcp.save(state(step), storage_writer=checkpoints.writer(step))
        print(step, flush=True)
        step += 1


def rank(what: str, place: str, meeting: str, number: str, ranks: str) -> None:
    """One of several ranks, which share the elements of a tensor."""
    dist.init_process_group("gloo", f"file://{meeting}", rank=int(number), world_size=int(ranks))
    mesh = init_device_mesh("cpu", (int(ranks),))
    checkpoints = Checkpoints(place, "run", keep=2)

    def shared(step: int) -> dict[str, Any]:
        whole = state(step)["model"]["first"] if step >= 0 else torch.zeros(ELEMENTS)
        return {"shared": distribute_tensor(whole, mesh, [Shard(0)]), "step": step}

    if what == "save":
        for step in range(3):
            dcp.save(shared(step), storage_writer=checkpoints.writer(step))
        checkpoints.wait()
    else:
        loaded = shared(-1)
        step = checkpoints.load(loaded)
        assert step == loaded["step"]
        assert torch.equal(loaded["shared"].to_local(), shared(step)["shared"].to_local())
        print(step, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.path.insert(0, os.fspath(Path(__file__).parent))
    {"stop": stop_before_the_end, "save": save_forever, "rank": rank}[sys.argv[1]](*sys.argv[2:])
