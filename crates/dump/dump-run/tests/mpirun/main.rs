//! Real MPI programs that have no code for checkpoints, in C, Fortran and C++.

#![allow(clippy::unwrap_used, clippy::panic)]

mod cluster;
mod ending;
mod executable;
mod hpccg;
mod late;
mod levels;
mod obstacles;
mod requests;

use std::fs;
use std::path::Path;

use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{LittleEndian, Object, ObjectSymbol, elf};

use cluster::{Cluster, RANK_COUNT, said, told, was_killed};

/// The numbers of the line that tells of a version: bytes, distinct and stored ones.
fn sizes_of(told: &str, version: u32) -> [u64; 3] {
    let line = told.lines().find(|line| line.contains(&format!("state version {version} at call"))).unwrap();
    let numbers = line.split_once(": ").unwrap().1.split([' ', ';']).filter_map(|word| word.parse().ok());
    let [bytes, _ranks, distinct, stored] = numbers.collect::<Vec<u64>>()[..] else { panic!("{line}") };
    [bytes, distinct, stored]
}

/// Reads 8 bytes at an address of a core file.
fn read_double(core: &[u8], address: u64) -> f64 {
    let header = elf::FileHeader64::<LittleEndian>::parse(core).unwrap();
    let segments = header.program_headers(LittleEndian, core).unwrap();
    let bytes = segments.iter().find_map(|segment| segment.data_range(LittleEndian, core, address, 8).unwrap());
    f64::from_le_bytes(bytes.unwrap().try_into().unwrap())
}

/// The address of a variable of a program whose addresses are not randomized.
fn address_of(program: &str, variable: &str) -> u64 {
    let bytes = fs::read(program).unwrap();
    let program = object::read::elf::ElfFile64::<LittleEndian>::parse(&bytes[..]).unwrap();
    let found = program.symbols().find(|symbol| symbol.name() == Ok(variable)).unwrap();
    0x5555_5555_4000 + found.address()
}

#[test]
fn a_program_in_c_continues_after_it_was_killed_with_the_same_result() {
    let Some(cluster) = Cluster::new() else { return };
    let program = cluster.compile("heat.c");
    let expected = said(&cluster.mpirun(RANK_COUNT, "", &[&program, "40"]));
    let whole = cluster.dump_run(&["--each", "10"], &[&program, "40"]);
    assert_eq!(said(&whole), expected, "{}", told(&whole));
    assert_eq!(cluster.versions("state"), [0, 1, 2, 3]);
    // 1 GiB of each rank was never touched. The ranks have a source in common.
    let [bytes, distinct, stored] = sizes_of(&told(&whole), 0);
    assert!(bytes < 16 << 20 && stored * 10 < distinct * 2 * 9, "{bytes} bytes, {distinct} distinct, {stored} stored");

    let killed = cluster.dump_run_on(RANK_COUNT, "export DIE_IN_STEP=25;", &["--each", "10"], &[&program, "40"]);
    assert!(was_killed(&killed), "{}", killed.status);
    assert_eq!(cluster.versions("state"), [0, 1, 2, 3, 4, 5]);
    for core in cluster.restore_cores() {
        assert_eq!(read_double(&core, address_of(&program, "source") + 8 * 200), 1.0 / 201.0);
    }
    cluster.lose(1);
    let flags = ["--each", "10", "--restart", "--keep", "2"];
    let again = cluster.dump_run_on(RANK_COUNT, "export DIE_IN_STEP=35;", &flags, &[&program, "40"]);
    assert!(
        was_killed(&again) && told(&again).contains("state continues from version 5, at call 20"),
        "{}",
        told(&again)
    );
    let restarted = cluster.dump_run(&flags, &[&program, "40"]);
    assert_eq!(said(&restarted), expected, "{}", told(&restarted));
    assert!(told(&restarted).contains("state continues from version 6, at call 30"), "{}", told(&restarted));
    assert_eq!(cluster.versions("state"), [6, 7]);
}

/// A job is killed at different times of its second checkpoint.
#[test]
fn a_kill_within_a_checkpoint_leaves_the_one_before() {
    let Some(cluster) = Cluster::new() else { return };
    let program = cluster.compile("heat.c");
    let expected = said(&cluster.mpirun(RANK_COUNT, "", &[&program, "40"]));
    for (round, microseconds) in ["2000", "15000", "40000", "80000"].into_iter().enumerate() {
        let each = format!("export DIE_IN_STEP=19 DIE_AFTER={microseconds};");
        let killed = cluster.dump_run_on(RANK_COUNT, &each, &["--each", "10"], &[&program, "40"]);
        assert!(was_killed(&killed), "{}", killed.status);
        let newest = *cluster.versions("state").last().unwrap();
        let restarted = cluster.dump_run(&["--each", "1000", "--restart"], &[&program, "40"]);
        assert_eq!(said(&restarted), expected, "round {round}: {}", told(&restarted));
        let words = format!("state continues from version {newest}, at call ");
        assert!(told(&restarted).contains(&words), "{words}: {}", told(&restarted));
    }
}

#[test]
fn all_ranks_are_told_if_one_fails_and_the_program_continues() {
    let Some(cluster) = Cluster::new() else { return };
    let program = cluster.compile("heat.c");
    let expected = said(&cluster.mpirun(RANK_COUNT, "", &[&program, "20"]));
    cluster.make_store(9);
    fs::write(cluster.path("9/store/terrace.toml"), "no configuration").unwrap();
    let broken = cluster.path("9/store").display().to_string();
    let run = |store: &str| {
        let each = format!("test $OMPI_COMM_WORLD_RANK = 2 && export TERRACE_STORE={store};");
        cluster.dump_run_on(RANK_COUNT, &each, &["--each", "10"], &[&program, "20"])
    };
    let failed = run(&broken);
    assert_eq!(said(&failed), expected);
    let words = "the program continues without a checkpoint of \"state\": ";
    assert_eq!(told(&failed).matches(words).count(), 2 * RANK_COUNT, "{}", told(&failed));
    assert_eq!(told(&failed).matches("rank 2: ").count(), 2 * (RANK_COUNT - 1), "{}", told(&failed));
    assert!(cluster.versions("state").is_empty());
    // A store that is not there is known before the program begins.
    let refused = run("/nowhere");
    assert!(was_killed(&refused) && told(&refused).contains("/nowhere: no store is here"), "{}", told(&refused));
}

#[test]
fn another_program_or_number_of_ranks_is_refused_on_all_ranks() {
    let Some(cluster) = Cluster::new() else { return };
    let program = cluster.compile("heat.c");
    let begun = cluster.dump_run(&["--each", "10", "--restart"], &[&program, "10"]);
    assert!(told(&begun).contains("the program begins: there is no dump \"state\""), "{}", told(&begun));
    said(&begun);
    let fewer = cluster.dump_run_on(RANK_COUNT - 1, "", &["--restart"], &[&program, "10"]);
    assert!(was_killed(&fewer));
    assert!(told(&fewer).contains("4 ranks made the checkpoint, and 3 are here"), "{}", told(&fewer));
    let changed = cluster.path("changed.c");
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/heat.c")).unwrap();
    fs::write(&changed, source.replace("HISTORY = 64", "HISTORY = 65")).unwrap();
    cluster.compile_file(&changed, "program");
    let other = cluster.dump_run(&["--restart"], &[&program, "10"]);
    assert!(was_killed(&other));
    assert!(
        told(&other).contains("is another file now; run what made it, or begin without --restart"),
        "{}",
        told(&other)
    );
}

#[test]
fn a_program_that_could_not_be_restarted_is_not_dumped_and_says_why() {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path("threads.c");
    fs::write(
        &source,
        "#include <mpi.h>\n#include <pthread.h>\n#include <setjmp.h>\n#include <stdio.h>\n\
         static void *run(void *number) { return number; }\n\
         int main(int count, char **arguments) {\n\
             pthread_t thread; jmp_buf place; int number = 7; void *result;\n\
             MPI_Init(&count, &arguments);\n\
             if (!setjmp(place)) longjmp(place, 1);\n\
             pthread_create(&thread, NULL, run, &number);\n\
             pthread_join(thread, &result);\n\
             MPI_Barrier(MPI_COMM_WORLD);\n\
             printf(\"%d\\n\", *(int *)result);\n\
             MPI_Finalize();\n\
             return 0;\n\
         }\n",
    )
    .unwrap();
    let program = cluster.compile_file(&source, "program");
    let run = cluster.dump_run(&[], &[&program]);
    assert_eq!(said(&run), "7\n".repeat(RANK_COUNT));
    let words =
        "because it has begun threads, and it has called setjmp; protect its regions by libterrace_dump instead";
    assert!(told(&run).contains(words), "{}", told(&run));
    assert!(cluster.versions("state").is_empty());
}

#[test]
fn a_program_in_fortran_continues() {
    let Some(cluster) = Cluster::new() else { return };
    let program = cluster.compile("waves.f90");
    let expected = said(&cluster.mpirun(RANK_COUNT, "", &[&program, "30"]));
    let flags = ["--at", "MPI_Allreduce", "--each", "5"];
    assert!(was_killed(&cluster.dump_run_on(RANK_COUNT, "export DIE_IN_STEP=18;", &flags, &[&program, "30"])));
    let restarted = cluster.dump_run(&[&flags[..], &["--restart"]].concat(), &[&program, "30"]);
    assert_eq!(said(&restarted), expected, "{}", told(&restarted));
    assert!(told(&restarted).contains("state continues from version 2, at call 15"), "{}", told(&restarted));
}

#[test]
fn a_program_in_cpp_continues_after_a_call_of_its_own() {
    let Some(cluster) = Cluster::new() else { return };
    let program = cluster.compile("words.cpp");
    let expected = said(&cluster.mpirun(RANK_COUNT, "", &[&program, "60"]));
    let flags = ["--at", "terrace_checkpoint_here", "--each", "8", "--keep", "1"];
    assert!(was_killed(&cluster.dump_run_on(RANK_COUNT, "export DIE_IN_STEP=50;", &flags, &[&program, "60"])));
    let restarted = cluster.dump_run(&[&flags[..], &["--restart"]].concat(), &[&program, "60"]);
    assert_eq!(said(&restarted), expected, "{}", told(&restarted));
    assert!(told(&restarted).contains("state continues from version 5, at call 48"), "{}", told(&restarted));
}

/// Buffers for messages that arrived meanwhile moved what MPI allocated for communicators and types, and types that were made again moved, so
/// that most restarts were refused. The group of a communicator was one of MPI's own, which always was elsewhere.
#[test]
fn communicators_and_types_have_the_same_places_in_each_process() {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path("handles.c");
    fs::write(
        &source,
        "#include <mpi.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
         int main(int count, char **arguments) {\n\
             int step, rank, lengths[2] = { 5, 1 }, sum;\n\
             MPI_Aint offsets[2] = { 0, 40 };\n\
             MPI_Datatype kinds[2] = { MPI_DOUBLE, MPI_INT }, record, padded, column, passing;\n\
             MPI_Comm all, half;\n\
             MPI_Group members, others;\n\
             MPI_Init(&count, &arguments);\n\
             MPI_Comm_dup(MPI_COMM_WORLD, &all);\n\
             MPI_Comm_rank(all, &rank);\n\
             MPI_Comm_split(all, rank % 2, rank, &half);\n\
             MPI_Type_create_struct(2, lengths, offsets, kinds, &record);\n\
             MPI_Type_create_resized(record, 0, 64, &padded);\n\
             MPI_Type_commit(&padded);\n\
             MPI_Comm_group(all, &members);\n\
             MPI_Group_excl(members, 1, &(int){ 0 }, &others);\n\
             MPI_Type_vector(4, 2, 4, MPI_DOUBLE, &column);\n\
             MPI_Type_commit(&column);\n\
             for (step = 0; step < 6; step++) {\n\
                 MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);\n\
                 if (step == 1) MPI_Type_free(&column);\n\
                 MPI_Type_vector(step + 1, 2, 4, MPI_DOUBLE, &passing);\n\
                 MPI_Type_commit(&passing);\n\
                 if (step < 4) MPI_Type_free(&passing);\n\
                 MPI_Barrier(all);\n\
                 if (step == 3 && getenv(\"DIES\")) abort();\n\
             }\n\
             MPI_Type_size(padded, &step);\n\
             MPI_Group_size(others, &count);\n\
             printf(\"%d: %d of %d and %d\\n\", rank, sum, step, count);\n\
             MPI_Finalize();\n\
             return 0;\n\
         }\n",
    )
    .unwrap();
    let program = cluster.compile_file(&source, "program");
    (2..4).for_each(|node| cluster.make_store(node));
    let killed = cluster.dump_run_on(8, "export DIES=1;", &["--each", "3"], &[&program]);
    assert!(was_killed(&killed), "{}", told(&killed));
    for _ in 0..3 {
        let restarted = cluster.dump_run_on(8, "", &["--each", "100", "--restart"], &[&program]);
        let mut ranks: Vec<String> = said(&restarted).lines().map(str::to_owned).collect();
        ranks.sort();
        let sums = (0..8).map(|rank| format!("{rank}: {} of 44 and 7", if rank % 2 == 0 { 12 } else { 16 }));
        assert_eq!(ranks, sums.collect::<Vec<_>>());
        assert!(told(&restarted).contains("state continues from version 0, at call 3"), "{}", told(&restarted));
    }
    // In the place of what is made later and kept, a restarted program could have something else.
    let late = cluster.dump_run_on(8, "", &["--each", "5"], &[&program]);
    let words = "it has made communicators, types or the like after its first call here, and still has them";
    assert!(late.status.success() && told(&late).contains(words), "{}", told(&late));
    assert_eq!(cluster.versions("state"), [0]);
}

/// Text that `getenv` or `getline` had given was another one after a restart, or nothing.
#[test]
fn memory_that_the_c_library_gives_is_restored() {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path("given.c");
    fs::write(
        &source,
        "#define _GNU_SOURCE\n#include <malloc.h>\n#include <mpi.h>\n#include <stdarg.h>\n#include <stdio.h>\n\
         #include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
         static char *format(const char *text, ...) {\n\
             va_list more; char *made;\n\
             va_start(more, text);\n\
             if (vasprintf(&made, text, more) < 0) abort();\n\
             va_end(more);\n\
             return made;\n\
         }\n\
         int main(int count, char **arguments) {\n\
             int step, rank; size_t size = 0; char *line = NULL, *page;\n\
             MPI_Init(&count, &arguments);\n\
             MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n\
             FILE *file = fopen(arguments[1], \"r\");\n\
             char *given[] = { getenv(\"GIVEN\"), realpath(arguments[1], NULL), getcwd(NULL, 0), format(\"%s %d\", \"made\", 7) };\n\
             if (getline(&line, &size, file) < 0 || getline(&line, &size, file) < 0) return 1;\n\
             fclose(file);\n\
             page = pvalloc(5000);\n\
             strcpy(page, line);\n\
             for (step = 0; step < 10; step++) {\n\
                 MPI_Barrier(MPI_COMM_WORLD);\n\
                 if (step == 5 && getenv(\"DIES\")) abort();\n\
             }\n\
             if (rank == 0) printf(\"%s %s %s %s %s %d %s %s\\n\", given[0], given[1], given[2], given[3], page, (int)malloc_usable_size(page) >= 8192,\n\
                    line, getenv(\"GIVEN\"));\n\
             free(line); free(given[1]); free(given[2]); free(given[3]); free(page);\n\
             MPI_Finalize();\n\
             return 0;\n\
         }\n",
    )
    .unwrap();
    let program = cluster.compile_file(&source, "program");
    let text = cluster.path("text");
    fs::write(&text, "short\n".to_owned() + &"long ".repeat(100)).unwrap();
    let program = [&program, text.to_str().unwrap()];
    let expected = said(&cluster.mpirun(RANK_COUNT, "export GIVEN=first;", &program));
    let killed = cluster.dump_run_on(RANK_COUNT, "export DIES=1 GIVEN=first;", &[], &program);
    assert!(was_killed(&killed), "{}", told(&killed));
    // The environment of the new process is at other addresses, and the first words are at that of a part of the file.
    let each = "export A_LONG_ONE=$(seq 3000 | tr '\\n' ' ') GIVEN=second;";
    fs::write(&text, "other\n".repeat(1000)).unwrap();
    let restarted = cluster.dump_run_on(RANK_COUNT, each, &["--restart"], &program);
    assert!(told(&restarted).contains("state continues from version 5, at call 6"), "{}", told(&restarted));
    assert_eq!(
        said(&restarted),
        expected.replace("long  first\n", "long  second\n"),
        "only what is asked again is new"
    );
}

/// The program takes three seconds at least. If each rank's own clock decided, ranks would wait for others that do not dump.
#[test]
fn an_interval_of_time_makes_checkpoints_at_calls_of_all_ranks() {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path("slow.c");
    fs::write(
        &source,
        "#include <mpi.h>\n#include <stdio.h>\n#include <unistd.h>\n\
         int main(int count, char **arguments) {\n\
             int step, rank;\n\
             MPI_Init(&count, &arguments);\n\
             MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n\
             for (step = 0; step < 100; step++) {\n\
                 usleep(30000 + 1000 * rank);\n\
                 MPI_Barrier(MPI_COMM_WORLD);\n\
             }\n\
             if (rank == 0) printf(\"%d\\n\", step);\n\
             MPI_Finalize();\n\
             return 0;\n\
         }\n",
    )
    .unwrap();
    let program = cluster.compile_file(&source, "program");
    let run = cluster.dump_run(&["--every", "1"], &[&program]);
    assert_eq!(said(&run), "100\n", "{}", told(&run));
    assert!(!cluster.versions("state").is_empty(), "{}", told(&run));
}
