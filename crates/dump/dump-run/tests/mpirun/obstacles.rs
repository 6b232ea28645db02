//! Calls by which a program gets state that no checkpoint has.

use std::fs;

use crate::cluster::{Cluster, RANK_COUNT, said, told, was_killed};

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

/// A program was dumped, and its restart was refused for ever.
#[test]
fn a_call_on_a_stack_of_the_program_itself_is_noticed() {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path("coroutine.c");
    fs::write(
        &source,
        "#include <mpi.h>\n#include <stdio.h>\n#include <ucontext.h>\n\
         static ucontext_t first, second; static char stack[1 << 18];\n\
         static int runs;\n\
         static void run(void) { MPI_Barrier(MPI_COMM_WORLD); runs++; }\n\
         int main(int count, char **arguments) {\n\
             MPI_Init(&count, &arguments);\n\
             getcontext(&second);\n\
             second.uc_stack.ss_sp = stack;\n\
             second.uc_stack.ss_size = sizeof stack;\n\
             second.uc_link = &first;\n\
             makecontext(&second, run, 0);\n\
             swapcontext(&first, &second);\n\
             if (arguments[1][0] == 'b') run();\n\
             puts(\"done\");\n\
             MPI_Finalize();\n\
             return 0;\n\
         }\n",
    )
    .unwrap();
    let program = cluster.compile_file(&source, "program");
    let alone = cluster.dump_run_on(1, "", &[], &[&program, "alone"]);
    assert_eq!(said(&alone), "done\n");
    assert!(told(&alone).contains("on a stack that it has made itself, as by makecontext"), "{}", told(&alone));
    assert!(cluster.versions("state").is_empty());
    // At a call on its own stack it is dumped.
    assert_eq!(said(&cluster.dump_run_on(1, "", &[], &[&program, "both"])), "done\n");
    assert_eq!(cluster.versions("state"), [0]);
}

/// Messages and windows until they are freed, general requests for ever.
#[test]
fn what_only_mpi_has_is_noticed_also_before_the_first_call() {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path("held.c");
    fs::write(
        &source,
        "#include <mpi.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
         static int query(void *state, MPI_Status *status) { (void)state; (void)status; return 0; }\n\
         static int release(void *state) { (void)state; return 0; }\n\
         static int cancel(void *state, int is_complete) { (void)state; (void)is_complete; return 0; }\n\
         int main(int count, char **arguments) {\n\
             int from = 7, to, flag = 0; MPI_Message message; MPI_Request request; MPI_Win win; void *memory; char call;\n\
             MPI_Init(&count, &arguments);\n\
             call = arguments[1][0];\n\
             if (strchr(\"mir\", call)) MPI_Isend(&from, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &request);\n\
             if (call == 'm' || call == 'r') MPI_Mprobe(0, 9, MPI_COMM_SELF, &message, MPI_STATUS_IGNORE);\n\
             if (call == 'i') while (!flag) MPI_Improbe(0, 9, MPI_COMM_SELF, &flag, &message, MPI_STATUS_IGNORE);\n\
             if (call == 'n') MPI_Improbe(0, 9, MPI_COMM_SELF, &flag, &message, MPI_STATUS_IGNORE);\n\
             if (call == 'w') MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);\n\
             if (call == 's') MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);\n\
             if (call == 'g') MPI_Grequest_start(query, release, cancel, NULL, &request);\n\
             MPI_Barrier(MPI_COMM_WORLD);\n\
             if (call == 'm' || call == 'i') MPI_Mrecv(&to, 1, MPI_INT, &message, MPI_STATUS_IGNORE);\n\
             if (call == 'r') { MPI_Request other; MPI_Imrecv(&to, 1, MPI_INT, &message, &other); MPI_Wait(&other, MPI_STATUS_IGNORE); }\n\
             if (strchr(\"mir\", call)) { MPI_Wait(&request, MPI_STATUS_IGNORE); if (to != 7) abort(); }\n\
             if (call == 'w' || call == 's') MPI_Win_free(&win);\n\
             if (call == 'g') { MPI_Grequest_complete(request); MPI_Wait(&request, MPI_STATUS_IGNORE); }\n\
             MPI_Barrier(MPI_COMM_WORLD);\n\
             puts(\"done\");\n\
             MPI_Finalize();\n\
             return 0;\n\
         }\n",
    )
    .unwrap();
    let program = cluster.compile_file(&source, "program");
    for (call, words, checkpoints) in [
        ("mprobe", "it has messages by MPI_Mprobe", 1),
        ("improbe", "it has messages by MPI_Mprobe", 1),
        ("received by a request", "it has messages by MPI_Mprobe", 1),
        ("no message", "", 2),
        ("window", "it has windows by MPI_Win_allocate", 1),
        ("shared window", "it has windows by MPI_Win_allocate", 1),
        ("general request", "it has called MPI_Grequest_start", 0),
    ] {
        let before = cluster.versions("state").len();
        let run = cluster.dump_run_on(1, "", &[], &[&program, call]);
        assert_eq!(said(&run), "done\n", "{call}");
        assert!(told(&run).contains(words), "{call}: {}", told(&run));
        assert_eq!(cluster.versions("state").len(), before + checkpoints, "{call}: {}", told(&run));
    }
}

/// A restarted program had the values that it had set before its first call.
#[test]
fn values_of_the_thread_by_keys_are_restored() {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path("keys.c");
    fs::write(
        &source,
        "#include <mpi.h>\n#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <threads.h>\n\
         static pthread_key_t by_once; static pthread_once_t once = PTHREAD_ONCE_INIT;\n\
         static void make(void) { pthread_key_create(&by_once, NULL); }\n\
         int main(int count, char **arguments) {\n\
             int step, i, rank; pthread_key_t keys[40]; tss_t other; char *text;\n\
             pthread_once(&once, make);\n\
             for (i = 0; i < 40; i++) {\n\
                 pthread_key_create(&keys[i], NULL);\n\
                 pthread_setspecific(keys[i], arguments[0]);\n\
             }\n\
             tss_create(&other, NULL);\n\
             MPI_Init(&count, &arguments);\n\
             MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n\
             for (step = 0; step < 6; step++) {\n\
                 MPI_Barrier(MPI_COMM_WORLD);\n\
                 if (step == 1) {\n\
                     text = malloc(9);\n\
                     for (i = 0; i < 40; i++) pthread_setspecific(keys[i], i ? text : NULL);\n\
                     tss_set(other, strcpy(text, \"heap\"));\n\
                     pthread_setspecific(by_once, text);\n\
                     text = NULL;\n\
                 }\n\
                 if (step == 4 && getenv(\"DIES\")) abort();\n\
             }\n\
             if (pthread_getspecific(keys[0]) || pthread_getspecific(by_once) != tss_get(other)) puts(\"others\");\n\
             if (rank == 0) printf(\"%s %s\\n\", (char *)pthread_getspecific(keys[39]), (char *)tss_get(other));\n\
             MPI_Finalize();\n\
             return 0;\n\
         }\n",
    )
    .unwrap();
    let program = cluster.compile_file(&source, "program");
    let killed = cluster.dump_run_on(RANK_COUNT, "export DIES=1;", &["--each", "4"], &[&program]);
    assert!(was_killed(&killed) && cluster.versions("state") == [0], "{}", told(&killed));
    let restarted = cluster.dump_run(&["--each", "100", "--restart"], &[&program]);
    assert_eq!(said(&restarted), "heap heap\n", "{}", told(&restarted));
}
