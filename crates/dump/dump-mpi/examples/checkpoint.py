"""A computation that checkpoints itself: run it again, and it goes on where the last checkpoint was.

mpirun -n 4 python3 checkpoint.py STORE STEPS

STORE is the directory of this node's store; {node} in it stands for TERRACE_NODE.
"""

import array
import sys

from mpi4py import MPI

from terrace_dump import Checkpoints

rank = MPI.COMM_WORLD.Get_rank()
field, step = array.array("d", bytes(8 * 50_000)), array.array("q", [0])
with Checkpoints(MPI.COMM_WORLD, sys.argv[1], replicas=2, keep=2) as checkpoints:
    checkpoints.protect(0, field)
    checkpoints.protect(1, step)
    version = checkpoints.restart("python")
    if rank == 0:
        print("begins" if version is None else f"goes on after step {step[0]}, from an archive: {checkpoints.is_archived()}")
    while step[0] < int(sys.argv[2]):
        for i in range(0, len(field), 100):
            field[i] += rank + 1
        step[0] += 1
        checkpoints.begin("python")
    # The last one is dumped while this rank looks at its field.
    assert all(value == step[0] * (rank + 1) * (i % 100 == 0) for i, value in enumerate(field))
    version = checkpoints.wait()
    if rank == 0:
        print(f"step {step[0]} is version {version}, ended: {checkpoints.test()}")
