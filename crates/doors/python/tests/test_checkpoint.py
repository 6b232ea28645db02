"""`terrace.checkpoint`, with PyTorch."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import terrace
from conftest import required

required("torch")

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch_programs  # noqa: E402
from torch_programs import empty, same, state  # noqa: E402

from terrace.checkpoint import Checkpoints  # noqa: E402

PROGRAM = Path(__file__).parents[4] / "target/debug/terrace"
KILLS = int(os.environ.get("TERRACE_KILLS", "2"))
LIMIT = 300

Warned = Callable[[], list[str]]

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


@pytest.fixture
def checkpoints(place: Path) -> Checkpoints:
    return Checkpoints(place, "run")


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Warned:
    """Returns a function that returns the warnings since it was last called."""

    def warnings() -> list[str]:
        found = [record.getMessage() for record in caplog.records if record.name == "terrace.checkpoint"]
        caplog.clear()
        return found

    return warnings


def begun(*arguments: object) -> subprocess.Popen[str]:
    """Starts one of the programs."""
    command = [sys.executable, torch_programs.__file__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def save(checkpoints: Checkpoints, *steps: int) -> None:
    for step in steps:
        dcp.save(state(step), storage_writer=checkpoints.writer(step))


def damage(checkpoints: Checkpoints, key: str, tiers: list[str]) -> None:
    """Changes all bytes of the replicas of an object on some tiers."""
    replicas = [replica for extent in checkpoints.files.store.locate(key)["extents"] for replica in extent["replicas"]]
    chosen = [replica for replica in replicas if replica["tier"] in tiers]
    assert len(chosen) * 2 == len(replicas) * len(tiers) > 0
    for replica in chosen:
        with open(replica["file"], "r+b") as file:
            file.seek(replica["position"])
            bytes_ = file.read(replica["stored"])
            file.seek(replica["position"])
            file.write(bytes(byte ^ 0x55 for byte in bytes_))


def test_a_checkpoint_is_replicated_when_it_is_saved_and_durable_behind_it(checkpoints: Checkpoints) -> None:
    save(checkpoints, 0, 1)
    # So much that replicas which nobody waits for would come later.
    dcp.save(state(2) | {"more": torch.rand(32 << 20)}, storage_writer=checkpoints.writer(2))
    extents = checkpoints.files.store.locate("run/2/__0_0.distcp")["extents"]
    states = {tuple(replica["state"] for replica in extent["replicas"]) for extent in extents}
    assert len(extents) > 128 and states == {("present", "present")}
    checkpoints.wait()
    assert checkpoints.files.store.status()["owed"] == 0
    loaded = empty()
    assert checkpoints.load(loaded) == 2 and same(loaded, state(2)) and checkpoints.steps() == [0, 1, 2]
    # Also by torch's functions alone, and by another process's view of the store.
    dcp.load(loaded, storage_reader=dcp.FsspecReader("terrace://run/1", store=checkpoints.files.store.directory))
    assert same(loaded, state(1))


def test_the_newest_are_kept(place: Path) -> None:
    checkpoints = Checkpoints(place, "run", keep=2)
    checkpoints.files.pipe("run/notes", b"not a checkpoint")
    save(checkpoints, 3, 10, 11)
    dcp.async_save(state(12), storage_writer=checkpoints.writer(12)).result()
    checkpoints.wait()
    names = sorted(Path(name).name for name in checkpoints.files.ls("run", detail=False))
    assert names == ["11", "12", "notes"] and checkpoints.steps() == [11, 12]
    with pytest.raises(ValueError, match="at least 1"):
        Checkpoints(place, "run", keep=0)


def test_a_step_can_be_saved_again(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1)
    dcp.save(state(7), storage_writer=checkpoints.writer(1))
    loaded = empty()
    assert checkpoints.load(loaded) == 1 and same(loaded, state(7))


def test_a_killed_save_leaves_the_checkpoint_before(checkpoints: Checkpoints, place: Path, warned: Warned) -> None:
    save(checkpoints, 4)
    with begun("stop", place, 5) as child:
        assert child.stdout is not None and child.stdout.readline() == "written\n"
        child.kill()
    assert checkpoints.files.isdir("run/5")
    loaded = empty()
    assert checkpoints.load(loaded) == 4 and same(loaded, state(4)) and checkpoints.steps() == [4]
    assert warned() == ["the checkpoint of step 5 in 'run' was not saved to the end; the one before is taken"]
    save(checkpoints, 5)
    assert checkpoints.load(loaded) == 5 and same(loaded, state(5)) and warned() == []


def test_kills_at_any_time_lose_no_saved_checkpoint(checkpoints: Checkpoints, place: Path) -> None:
    seed = int(os.environ.get("TERRACE_SEED", "1"))
    moments, step = random.Random(seed), 0
    print(f"TERRACE_SEED={seed}")
    for _ in range(KILLS):
        with begun("save", place, step) as child:
            assert child.stdout is not None
            said = int(child.stdout.readline())
            torch.rand(moments.randrange(1, 5_000_000)).sort()
            child.kill()
            said = int((child.stdout.read().splitlines() or [said])[-1])
        loaded = empty()
        step = checkpoints.load(loaded)
        # It may have been killed between the end of a save and the message.
        assert step in (said, said + 1) and same(loaded, state(step))
        assert checkpoints.files.store.health()["health"] != "HEALTH_ERR"


@pytest.mark.parametrize("tiers", [["fast", "slow"], ["slow", "fast"]])
def test_a_damaged_replica_is_read_from_another_and_healed(
    checkpoints: Checkpoints, place: Path, warned: Warned, tiers: list[str]
) -> None:
    save(checkpoints, 1, 2)
    checkpoints.wait()
    for tier in tiers:
        # The one before was repaired: it is the only good one now.
        damage(checkpoints, "run/2/__0_0.distcp", [tier])
        loaded = empty()
        assert checkpoints.load(loaded) == 2 and same(loaded, state(2)) and warned() == []
        subprocess.run([PROGRAM, "repair", "--store", place], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("name", ["__0_0.distcp", ".metadata"])
def test_the_checkpoint_before_is_taken_if_all_replicas_are_damaged(
    checkpoints: Checkpoints, warned: Warned, name: str
) -> None:
    save(checkpoints, 1, 2, 3)
    checkpoints.wait()
    damage(checkpoints, f"run/3/{name}", ["fast", "slow"])
    loaded = empty()
    assert checkpoints.load(loaded) == 2 and same(loaded, state(2))
    assert len(said := warned()) == 1
    assert f"of step 3 in 'run' is damaged: \"run/3/{name}\": no good replica of bytes" in said[0]
    checkpoints.remove(2)
    damage(checkpoints, f"run/1/{name}", ["fast", "slow"])
    with pytest.raises(terrace.NotFoundError, match="no checkpoint in 'run'"):
        checkpoints.load(loaded)


def test_mistakes_of_the_caller_are_errors_and_no_damage(checkpoints: Checkpoints) -> None:
    with pytest.raises(terrace.NotFoundError, match="no checkpoint in 'run'"):
        checkpoints.load(empty())
    save(checkpoints, 1, 2)
    with pytest.raises(dcp.CheckpointException, match="Missing key in checkpoint state_dict: other"):
        checkpoints.load({"other": torch.zeros(3)})


def test_ranks_agree_on_a_checkpoint(checkpoints: Checkpoints, place: Path, tmp_path: Path) -> None:
    def run(what: str, ranks: int) -> list[str]:
        meeting = tmp_path / f"meeting-{what}"
        all_ = [begun("rank", what, place, meeting, number, ranks) for number in range(ranks)]
        said = [one.communicate(timeout=LIMIT)[0].strip() for one in all_]
        assert [one.returncode for one in all_] == [0] * ranks
        return said

    run("save", 2)
    assert checkpoints.steps() == [1, 2]
    # One process can load the whole tensor, and so can more ranks than saved it.
    loaded: dict[str, Any] = {"shared": torch.zeros(torch_programs.ELEMENTS), "step": -1}
    assert checkpoints.load(loaded) == 2 and torch.equal(loaded["shared"], state(2)["model"]["first"])
    damage(checkpoints, "run/2/__1_0.distcp", ["fast", "slow"])
    assert run("load", 3) == ["1"] * 3
