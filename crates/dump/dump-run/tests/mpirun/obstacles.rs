//! Calls by which a program gets state that no checkpoint has.

use std::fs;

use crate::cluster::{Cluster, said, told};

/// A program was dumped, and continued without the thread or the random numbers that it had, if it got them by less usual calls.
#[test]
fn calls_that_are_seldom_made_are_noticed_too() {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path("seldom.c");
    fs::write(
        &source,
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <mpi.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <sys/mman.h>\n\
         #include <threads.h>\n\
         static char page[8192], numbers[64];\n\
         static int run(void *nothing) { (void)nothing; return 0; }\n\
         int main(int count, char **arguments) {\n\
             thrd_t thread; unsigned short seed[3] = { 1, 2, 3 }; int failed = 0;\n\
             MPI_Init(&count, &arguments);\n\
             switch (arguments[1][0]) {\n\
                 case 't': failed = thrd_create(&thread, run, NULL) || thrd_join(thread, NULL); break;\n\
                 case 'd': failed = !dlmopen(LM_ID_BASE, \"libm.so.6\", RTLD_NOW); break;\n\
                 case 'l': failed = mlock2(page, 1, 0); break;\n\
                 case 'i': initstate(7, numbers, sizeof numbers); break;\n\
                 case 's': seed48(seed); break;\n\
                 case 'm': mrand48(); break;\n\
             }\n\
             MPI_Barrier(MPI_COMM_WORLD);\n\
             puts(failed ? \"failed\" : \"done\");\n\
             MPI_Finalize();\n\
             return 0;\n\
         }\n",
    )
    .unwrap();
    let program = cluster.compile_file(&source, "program");
    for (call, words) in [
        ("thread", "it has begun threads"),
        ("dlmopen", "it has loaded libraries"),
        ("lock", "it has locked memory"),
        ("initstate", "it takes random numbers"),
        ("seed48", "it takes random numbers"),
        ("mrand48", "it takes random numbers"),
    ] {
        let run = cluster.dump_run_on(1, "", &[], &[&program, call]);
        assert_eq!(said(&run), "done\n", "{call}");
        assert!(told(&run).contains(words) && cluster.versions("state").is_empty(), "{call}: {}", told(&run));
    }
    // Without any of them it is dumped.
    said(&cluster.dump_run_on(1, "", &[], &[&program, "none"]));
    assert_eq!(cluster.versions("state"), [0]);
}
