"""A computation on an array that its ranks share: run it again with any number of ranks, and it goes on.

mpirun -n 4 python3 resize.py STORE

It goes on where examples/resize.c was, too: the checkpoints are the same.
"""

import array
import sys

from mpi4py import MPI

from terrace_dump import Checkpoints

CELLS = 100_003

rank, ranks = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
first, end = CELLS * rank // ranks, CELLS * (rank + 1) // ranks
field, step = array.array("d", bytes(8 * (end - first))), array.array("i", [0])
with Checkpoints(MPI.COMM_WORLD, sys.argv[1], replicas=2) as checkpoints:
    # The cells from the first one on are this rank's part; the step is the same everywhere.
    checkpoints.protect(0, field, start=8 * first)
    checkpoints.protect(1, step, same=True)
    if checkpoints.restart("grid") is not None and rank == 0:
        print(f"{ranks} ranks go on after step {step[0]}")
    step[0] += 1
    for i in range(len(field)):
        field[i] += first + i
    checkpoints.checkpoint("grid")
    assert all(value == step[0] * (first + i) for i, value in enumerate(field))
