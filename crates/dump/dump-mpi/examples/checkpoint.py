"""A computation that checkpoints itself: run it again, and it goes on where the last checkpoint was.

mpirun -n 4 python3 checkpoint.py STORE STEPS
"""

import array
import os
import sys

from mpi4py import MPI

from terrace_dump import Checkpoints

rank = MPI.COMM_WORLD.Get_rank()
store = sys.argv[1] % os.environ.get("TERRACE_NODE", "0")
field, step = array.array("d", bytes(8 * 50_000)), array.array("q", [0])
with Checkpoints(MPI.COMM_WORLD, store, replicas=2) as checkpoints:
    checkpoints.protect(0, field)
    checkpoints.protect(1, step)
    version = checkpoints.restart("python")
    if rank == 0:
        print("begins" if version is None else f"goes on after step {step[0]}")
    while step[0] < int(sys.argv[2]):
        for i in range(0, len(field), 100):
            field[i] += rank + 1
        step[0] += 1
        version = checkpoints.checkpoint("python")
    assert all(value == step[0] * (rank + 1) * (i % 100 == 0) for i, value in enumerate(field))
    if rank == 0:
        print(f"step {step[0]} is version {version}")
