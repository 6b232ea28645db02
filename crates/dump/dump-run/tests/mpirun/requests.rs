//! Persistent requests. A restarted program had others in their places, or none, and crashed or waited for ever.

use std::fs;

use crate::cluster::{Cluster, RANK_COUNT, said, told, was_killed};

const NOTED_WORDS: &str = "it has persistent requests (as MPI_Recv_init makes them)";

/// Runs a program once for each kind of request that it makes, and keeps or frees.
fn are_noticed_until_they_are_freed(file: &str, text: &str, kinds: &[&str]) {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path(file);
    fs::write(&source, text).unwrap();
    let program = cluster.compile_file(&source, "program");
    for kind in kinds {
        let kept = cluster.dump_run_on(1, "", &[], &[&program, kind, "keep"]);
        assert_eq!(said(&kept).trim(), "done", "{kind}");
        assert!(told(&kept).contains(NOTED_WORDS) && cluster.versions("state").is_empty(), "{kind}: {}", told(&kept));
    }
    for (version, kind) in kinds.iter().enumerate() {
        let freed = cluster.dump_run_on(1, "", &[], &[&program, kind, "free"]);
        assert_eq!(said(&freed).trim(), "done", "{kind}");
        let newest = cluster.versions("state").last().copied();
        assert!(!told(&freed).contains(NOTED_WORDS) && newest == Some(version as u32), "{kind}: {}", told(&freed));
    }
}

#[test]
fn persistent_requests_of_c_are_noticed_until_they_are_freed() {
    are_noticed_until_they_are_freed(
        "requests.c",
        "#include <mpi.h>\n#include <mpi-ext.h>\n#include <stdio.h>\n\
         int main(int count, char **arguments) {\n\
             static int from, to[2]; static char buffer[4096]; int i, counts[1] = { 1 }, starts[1] = { 0 };\n\
             MPI_Comm all; MPI_Datatype kinds[1] = { MPI_INT }; MPI_Request made[2];\n\
             MPI_Init(&count, &arguments);\n\
             all = MPI_COMM_WORLD;\n\
             MPI_Buffer_attach(buffer, sizeof buffer);\n\
             for (i = 0; i < 2; i++)\n\
             switch (arguments[1][0]) {\n\
                 case 's': MPI_Send_init(&from, 1, MPI_INT, 0, 7, all, &made[i]); break;\n\
                 case 'b': MPI_Bsend_init(&from, 1, MPI_INT, 0, 7, all, &made[i]); break;\n\
                 case 'S': MPI_Ssend_init(&from, 1, MPI_INT, 0, 7, all, &made[i]); break;\n\
                 case 'R': MPI_Rsend_init(&from, 1, MPI_INT, 0, 7, all, &made[i]); break;\n\
                 case 'r': MPI_Recv_init(&to[i], 1, MPI_INT, 0, 7, all, &made[i]); break;\n\
                 case 'B': MPIX_Barrier_init(all, MPI_INFO_NULL, &made[i]); break;\n\
                 case 'a': MPIX_Allreduce_init(&from, &to[i], 1, MPI_INT, MPI_SUM, all, MPI_INFO_NULL, &made[i]); break;\n\
                 case 'g': MPIX_Gather_init(&from, 1, MPI_INT, &to[i], 1, MPI_INT, 0, all, MPI_INFO_NULL, &made[i]); break;\n\
                 case 'w': MPIX_Alltoallw_init(&from, counts, starts, kinds, &to[i], counts, starts, kinds, all, MPI_INFO_NULL, &made[i]); break;\n\
             }\n\
             from = 5;\n\
             if (arguments[1][0] == 'a' || arguments[1][0] == 'g' || arguments[1][0] == 'w') {\n\
                 MPI_Startall(2, made);\n\
                 MPI_Waitall(2, made, MPI_STATUSES_IGNORE);\n\
                 if (to[0] != 5 || to[1] != 5) puts(\"another number\");\n\
             }\n\
             MPI_Request_free(&made[0]);\n\
             if (arguments[2][0] == 'f') MPI_Request_free(&made[1]);\n\
             MPI_Barrier(all);\n\
             puts(\"done\");\n\
             MPI_Finalize();\n\
             return 0;\n\
         }\n",
        &["send", "bsend", "Ssend", "Rsend", "recv", "Barrier", "allreduce", "gather", "wide"],
    );
}

/// A program in Fortran that uses modules, whose requests have a type of their own.
fn fortran_with(modules: &str, kind: &str) -> String {
    format!(
        "program requests\n\
         {modules}\n\
         implicit none\n\
         {kind} :: made(2)\n\
         integer :: i, error\n\
         integer, asynchronous, save :: from, to\n\
         character(10) :: words(2)\n\
         call MPI_Init(error)\n\
         call get_command_argument(1, words(1))\n\
         call get_command_argument(2, words(2))\n\
         do i = 1, 2\n\
         select case (words(1))\n\
         case ('send'); call MPI_Send_init(from, 1, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, made(i), error)\n\
         case ('bsend'); call MPI_Bsend_init(from, 1, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, made(i), error)\n\
         case ('ssend'); call MPI_Ssend_init(from, 1, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, made(i), error)\n\
         case ('rsend'); call MPI_Rsend_init(from, 1, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, made(i), error)\n\
         case ('recv'); call MPI_Recv_init(to, 1, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, made(i), error)\n\
         case ('barrier'); call mpix_barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, made(i), error)\n\
         end select\n\
         if (error /= MPI_SUCCESS) stop 1\n\
         end do\n\
         call MPI_Request_free(made(1), error)\n\
         if (words(2) == 'free') call MPI_Request_free(made(2), error)\n\
         call MPI_Barrier(MPI_COMM_WORLD, error)\n\
         print '(a)', 'done'\n\
         call MPI_Finalize(error)\n\
         end program\n"
    )
}

const FORTRAN_KINDS: [&str; 6] = ["send", "bsend", "ssend", "rsend", "recv", "barrier"];

#[test]
fn persistent_requests_of_fortran_are_noticed_until_they_are_freed() {
    let text = fortran_with("use mpi", "integer");
    are_noticed_until_they_are_freed("requests.f90", &text, &FORTRAN_KINDS);
}

/// The calls of this module have names of their own, and need no place for an error.
#[test]
fn persistent_requests_of_the_newest_fortran_module_are_noticed_until_they_are_freed() {
    let text = fortran_with("use mpi_f08\nuse mpi_f08_ext", "type(MPI_Request)");
    let text = text.replace("made(1), error)", "made(1))").replace("made(i), error)", "made(i))");
    are_noticed_until_they_are_freed("requests.f90", &text, &FORTRAN_KINDS);
}

/// At its first call, the restarted program has requests that the dumped one had freed.
#[test]
fn a_program_that_was_dumped_without_its_first_requests_continues() {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path("phases.c");
    fs::write(
        &source,
        "#include <mpi.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
         int main(int count, char **arguments) {\n\
             int step, rank, ranks, mine, other = 0, sum = 0; MPI_Request both[2];\n\
             MPI_Init(&count, &arguments);\n\
             MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n\
             MPI_Comm_size(MPI_COMM_WORLD, &ranks);\n\
             MPI_Send_init(&mine, 1, MPI_INT, (rank + 1) % ranks, 7, MPI_COMM_WORLD, &both[0]);\n\
             MPI_Recv_init(&other, 1, MPI_INT, (rank + ranks - 1) % ranks, 7, MPI_COMM_WORLD, &both[1]);\n\
             if (getenv(\"UNDER_WAY\")) { MPI_Start(&both[1]); MPI_Barrier(MPI_COMM_WORLD); }\n\
             for (step = 0; step < 10; step++) {\n\
                 mine = step * (rank + 1);\n\
                 if (step < 4) {\n\
                     MPI_Startall(2, both);\n\
                     MPI_Waitall(2, both, MPI_STATUSES_IGNORE);\n\
                     sum += other;\n\
                 }\n\
                 if (step == 4) { MPI_Request_free(&both[0]); MPI_Request_free(&both[1]); }\n\
                 MPI_Barrier(MPI_COMM_WORLD);\n\
                 if (step == 7 && getenv(\"DIES\")) abort();\n\
             }\n\
             MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\n\
             if (rank == 0) printf(\"%d\\n\", sum);\n\
             MPI_Finalize();\n\
             return 0;\n\
         }\n",
    )
    .unwrap();
    let program = cluster.compile_file(&source, "program");
    let expected = said(&cluster.mpirun(RANK_COUNT, "", &[&program]));
    let killed = cluster.dump_run_on(RANK_COUNT, "export DIES=1;", &["--each", "3"], &[&program]);
    assert!(was_killed(&killed) && told(&killed).contains(NOTED_WORDS), "{}", told(&killed));
    assert_eq!(cluster.versions("state"), [0]);
    let flags = ["--each", "100", "--restart"];
    // A message could be received into what is there after the restart.
    let refused = cluster.dump_run_on(RANK_COUNT, "export UNDER_WAY=1;", &flags, &[&program]);
    assert!(was_killed(&refused) && told(&refused).contains(NOTED_WORDS), "{}", told(&refused));
    let restarted = cluster.dump_run(&flags, &[&program]);
    assert_eq!(said(&restarted), expected, "{}", told(&restarted));
    assert!(told(&restarted).contains("state continues from version 0, at call 6"), "{}", told(&restarted));
}
