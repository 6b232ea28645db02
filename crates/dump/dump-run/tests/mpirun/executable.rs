//! Programs whose compiler writes code on the stack.

use std::fs;

use crate::cluster::{Cluster, RANK_COUNT, said, told, was_killed};

/// The stack of the library was not executable: such programs crashed at the first call of a nested function.
fn continues_after_a_kill(file: &str, text: &str) {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path(file);
    fs::write(&source, text).unwrap();
    let program = cluster.compile_file(&source, "program");
    let expected = said(&cluster.mpirun(RANK_COUNT, "", &[&program]));
    let flags = ["--each", "4"];
    let killed = cluster.dump_run_on(RANK_COUNT, "export DIES=1;", &flags, &[&program]);
    assert!(was_killed(&killed) && cluster.versions("state") == [0], "{}", told(&killed));
    let restarted = cluster.dump_run(&[&flags[..], &["--restart"]].concat(), &[&program]);
    assert_eq!(said(&restarted), expected, "{}", told(&restarted));
    assert!(told(&restarted).contains("state continues from version 0, at call 4"), "{}", told(&restarted));
}

/// The code on the stack that the checkpoint has is called again after the restart.
#[test]
fn a_nested_function_of_c_that_is_passed_on_continues() {
    continues_after_a_kill(
        "nested.c",
        "#include <mpi.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
         static __attribute__((noinline)) int walk(void (*visit)(int), int steps) {\n\
             int step;\n\
             for (step = 0; step < steps; step++) {\n\
                 visit(step);\n\
                 MPI_Barrier(MPI_COMM_WORLD);\n\
                 if (step == 5 && getenv(\"DIES\")) abort();\n\
             }\n\
             return step;\n\
         }\n\
         int main(int count, char **arguments) {\n\
             int sum = 0, rank;\n\
             void add(int step) { sum += step * (rank + 1); }\n\
             MPI_Init(&count, &arguments);\n\
             MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n\
             count = walk(add, 10);\n\
             MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\n\
             if (rank == 0) printf(\"%d after %d steps\\n\", sum, count);\n\
             MPI_Finalize();\n\
             return 0;\n\
         }\n",
    );
}

#[test]
fn an_internal_procedure_of_fortran_that_is_passed_on_continues() {
    continues_after_a_kill(
        "internal.f90",
        "module walks\n\
         use mpi\n\
         contains\n\
         subroutine walk(visit, steps)\n\
         interface\n\
         subroutine visit(step)\n\
         integer, intent(in) :: step\n\
         end subroutine\n\
         end interface\n\
         integer, intent(in) :: steps\n\
         integer :: step, error, length\n\
         do step = 0, steps - 1\n\
         call visit(step)\n\
         call MPI_Barrier(MPI_COMM_WORLD, error)\n\
         call get_environment_variable('DIES', length=length)\n\
         if (step == 5 .and. length > 0) call abort\n\
         end do\n\
         end subroutine\n\
         end module\n\
         program internal\n\
         use walks\n\
         implicit none\n\
         integer :: total, rank, error\n\
         total = 0\n\
         call MPI_Init(error)\n\
         call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)\n\
         call walk(add, 10)\n\
         call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)\n\
         if (rank == 0) print '(i0)', total\n\
         call MPI_Finalize(error)\n\
         contains\n\
         subroutine add(step)\n\
         integer, intent(in) :: step\n\
         total = total + step * (rank + 1)\n\
         end subroutine\n\
         end program\n",
    );
}
