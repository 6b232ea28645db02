//! Things of MPI that a program makes or changes after its first call. A restarted program did not have them, and went on with other results, or crashed.

use std::fs;

use object::{LittleEndian, Object, ObjectSymbol};

use crate::cluster::{Cluster, RANK_COUNT, said, told, was_killed};

/// A program that makes something by the call that its argument names, at its first step or between the first two calls, and may free it.
const LATE_PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
static int error_count, number;
static char memory[4096], *call;
static MPI_Comm all, comm;
static MPI_Group group, early_group;
static MPI_Datatype type, early_type;
static MPI_Win early_win;
static MPI_File early_file;
static MPI_Info info, early_info;
static MPI_Errhandler handler;
static MPI_Request request;
static int keyval, early_keyval;
static void count_errors(MPI_Comm *from, int *code, ...) { (void)from; (void)code; error_count++; }
static void count_win_errors(MPI_Win *from, int *code, ...) { (void)from; (void)code; error_count++; }
static int is(const char *name) { return !strcmp(call, name); }
static void make(void) {
    int ranges[1][3] = { { 0, 0, 1 } }, integers[9], codes[4]; MPI_Aint addresses[9]; MPI_Datatype other; MPI_Offset offset;
    char text[MPI_MAX_DATAREP_STRING], *data = memory; thread_local static int value;
    if (is("idup")) { MPI_Comm_idup(all, &comm, &request); MPI_Wait(&request, MPI_STATUS_IGNORE); }
    if (is("dup_with_info")) MPI_Comm_dup_with_info(all, MPI_INFO_NULL, &comm);
    if (is("range_incl")) MPI_Group_range_incl(early_group, 1, ranges, &group);
    if (is("range_excl")) MPI_Group_range_excl(early_group, 0, ranges, &group);
    if (is("win_group")) MPI_Win_get_group(early_win, &group);
    if (is("file_group")) MPI_File_get_group(early_file, &group);
    if (is("f90_real")) MPI_Type_create_f90_real(12, 50, &type);
    if (is("f90_complex")) MPI_Type_create_f90_complex(12, 50, &type);
    if (is("f90_integer")) MPI_Type_create_f90_integer(9, &type);
    if (is("contents")) MPI_Type_get_contents(early_type, 1, 0, 1, integers, addresses, &type);
    if (is("predefined_contents")) {
        MPI_Type_dup(MPI_INT, &other);
        MPI_Type_get_contents(other, 0, 0, 1, integers, addresses, &type);
        MPI_Type_free(&other);
    }
    if (is("no_comm")) MPI_Comm_split(all, MPI_UNDEFINED, 0, &comm);
    if (is("view")) { MPI_File_get_view(early_file, &offset, &other, &type, text); }
    if (is("create_errhandler")) MPI_Comm_create_errhandler(count_errors, &handler);
    if (is("get_errhandler")) MPI_Comm_get_errhandler(all, &handler);
    if (is("win_errhandler")) MPI_Win_create_errhandler(count_win_errors, &handler);
    if (is("keyval")) MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    if (is("win_keyval")) MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &keyval, NULL);
    if (is("get_info")) MPI_Comm_get_info(all, &info);
    if (is("info_dup")) MPI_Info_dup(early_info, &info);
    if (is("win_info")) MPI_Win_get_info(early_win, &info);
    if (is("info_set")) MPI_Info_set(early_info, "k", "late");
    if (is("comm_attr")) MPI_Comm_set_attr(all, early_keyval, &number);
    if (is("world_attr")) MPI_Comm_set_attr(MPI_COMM_WORLD, early_keyval, &number);
    if (is("set_errhandler")) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (is("same_errhandler")) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (is("file_errhandler")) MPI_File_set_errhandler(early_file, MPI_ERRORS_ARE_FATAL);
    if (is("error_class")) MPI_Add_error_class(codes);
    if (is("write")) MPI_File_write(early_file, memory, 1, MPI_INT, MPI_STATUS_IGNORE);
    if (is("write_at")) MPI_File_write_at(early_file, 0, memory, 1, MPI_INT, MPI_STATUS_IGNORE);
    if (is("commit")) MPI_Type_commit(&early_type);
    if (is("buffer")) MPI_Buffer_attach(memory, sizeof memory);
    if (is("key")) { pthread_key_create((pthread_key_t *)&keyval, NULL); }
    if (is("tss")) { tss_create((tss_t *)&keyval, NULL); }
    (void)data; (void)value;
}
static void release(void) {
    void *data; int size;
    if (is("idup") || is("dup_with_info")) MPI_Comm_free(&comm);
    if (is("range_incl") || is("range_excl") || is("win_group") || is("file_group")) MPI_Group_free(&group);
    if (is("contents")) MPI_Type_free(&type);
    if (is("create_errhandler") || is("get_errhandler") || is("win_errhandler")) MPI_Errhandler_free(&handler);
    if (is("keyval")) MPI_Comm_free_keyval(&keyval);
    if (is("win_keyval")) MPI_Win_free_keyval(&keyval);
    if (is("get_info") || is("info_dup") || is("win_info")) MPI_Info_free(&info);
    if (is("info_set")) MPI_Info_free(&early_info);
    if (is("comm_attr")) { MPI_Comm_free(&all); all = MPI_COMM_WORLD; }
    if (is("write") || is("file_errhandler")) MPI_File_close(&early_file);
    if (is("commit")) MPI_Type_free(&early_type);
    if (is("buffer")) MPI_Buffer_detach(&data, &size);
    if (is("set_errhandler")) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (is("key")) pthread_key_delete(keyval);
    if (is("tss")) tss_delete(keyval);
}
int main(int count, char **arguments) {
    MPI_Datatype inner;
    call = arguments[1];
    MPI_Init(&count, &arguments);
    MPI_Comm_create_errhandler(count_errors, &handler);
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    MPI_Comm_set_errhandler(all, handler);
    MPI_Errhandler_free(&handler);
    MPI_Comm_group(all, &early_group);
    MPI_Type_contiguous(3, MPI_INT, &inner);
    MPI_Type_contiguous(3, inner, &early_type);
    MPI_Type_free(&inner);
    MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, all, &early_win);
    MPI_File_open(MPI_COMM_SELF, arguments[3], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &early_file);
    MPI_Info_create(&early_info);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &early_keyval, NULL);
    if (arguments[2][0] == 'e') make();
    MPI_Barrier(all);
    if (arguments[2][0] != 'e') make();
    if (arguments[2][0] == 'f') release();
    MPI_Barrier(all);
    if (early_file != MPI_FILE_NULL) MPI_File_close(&early_file);
    puts("done");
    MPI_Finalize();
    return 0;
}
"#;

/// Calls whose effect the program can undo.
const FREED_CALLS: [&str; 23] = [
    "idup",
    "dup_with_info",
    "range_incl",
    "range_excl",
    "win_group",
    "file_group",
    "contents",
    "create_errhandler",
    "get_errhandler",
    "win_errhandler",
    "keyval",
    "win_keyval",
    "get_info",
    "info_dup",
    "win_info",
    "info_set",
    "comm_attr",
    "write",
    "file_errhandler",
    "commit",
    "buffer",
    "key",
    "set_errhandler",
];

/// Calls whose effect stays.
const KEPT_CALLS: [&str; 5] = ["f90_real", "f90_complex", "f90_integer", "world_attr", "error_class"];

/// Calls without an effect that a restarted program would lack.
const HARMLESS_CALLS: [&str; 5] = ["none", "same_errhandler", "no_comm", "predefined_contents", "write_at"];

#[test]
fn what_a_program_makes_or_changes_after_its_first_call_is_noticed_until_it_is_freed() {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path("late.c");
    fs::write(&source, LATE_PROGRAM).unwrap();
    let program = cluster.compile_file(&source, "program");
    let file = cluster.path("file").display().to_string();
    // Only the second call is one at which a checkpoint is made.
    let run = |call: &str, when: &str| {
        let before = cluster.versions("state").len();
        let run = cluster.dump_run_on(2, "", &["--each", "2"], &[&program, call, when, &file]);
        assert_eq!(said(&run), "done\ndone\n", "{call} {when}");
        (cluster.versions("state").len() > before, told(&run))
    };
    for call in FREED_CALLS.iter().chain(&KEPT_CALLS).chain(&["tss"]) {
        let (is_dumped, words) = run(call, "late");
        assert!(!is_dumped && words.contains("after its first call here"), "{call} late: {words}");
        let (is_dumped, words) = run(call, "early");
        assert!(is_dumped, "{call} early: {words}");
    }
    for (calls, when) in [(&FREED_CALLS[..], "free"), (&HARMLESS_CALLS, "late")] {
        for call in calls {
            let (is_dumped, words) = run(call, when);
            assert!(is_dumped, "{call} {when}: {words}");
        }
    }
}

/// Fortran knows by numbers what a restarted program did not have, or what it had made instead.
#[test]
fn what_a_program_in_fortran_makes_after_its_first_call_is_noticed_too() {
    let modules = [("use mpi", "integer", ", error)"), ("use mpi_f08", "type(MPI_@)", ")")];
    for (module, kind, end) in modules {
        let Some(cluster) = Cluster::new() else { return };
        let source = cluster.path("late.f90");
        let declare = |name: &str, variable: &str| format!("{} :: {variable}\n", kind.replace('@', name));
        let text = format!(
            "program late\n\
             {module}\n\
             implicit none\n\
             {}{}{}{}{}\
             integer :: error, keyval\n\
             character(20) :: words(3)\n\
             call MPI_Init(error)\n\
             call get_command_argument(1, words(1))\n\
             call get_command_argument(2, words(2))\n\
             call MPI_Info_create(early{end}\n\
             call MPI_Barrier(MPI_COMM_WORLD, error)\n\
             select case (words(1))\n\
             case ('comm'); call MPI_Comm_dup(MPI_COMM_WORLD, comm{end}\n\
             case ('group'); call MPI_Comm_group(MPI_COMM_WORLD, group{end}\n\
             case ('type'); call MPI_Type_create_f90_real(12, 50, kind{end}\n\
             case ('file'); call MPI_File_open(MPI_COMM_SELF, 'file', ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, file{end}\n\
             case ('keyval'); call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, keyval, 0_MPI_ADDRESS_KIND{end}\n\
             case ('set'); call MPI_Info_set(early, 'k', 'late'{end}\n\
             end select\n\
             if (words(2) == 'free') then\n\
             select case (words(1))\n\
             case ('comm'); call MPI_Comm_free(comm{end}\n\
             case ('group'); call MPI_Group_free(group{end}\n\
             case ('file'); call MPI_File_close(file{end}\n\
             case ('keyval'); call MPI_Comm_free_keyval(keyval{end}\n\
             case ('set'); call MPI_Info_free(early{end}\n\
             end select\n\
             end if\n\
             call MPI_Barrier(MPI_COMM_WORLD, error)\n\
             print '(a)', 'done'\n\
             if (words(1) == 'file' .and. words(2) /= 'free') call MPI_File_close(file{end}\n\
             call MPI_Finalize(error)\n\
             end program\n",
            declare("Comm", "comm"),
            declare("Group", "group"),
            declare("Datatype", "kind"),
            declare("File", "file"),
            declare("Info", "early"),
        );
        fs::write(&source, text).unwrap();
        let program = cluster.compile_file(&source, "program");
        let folder = format!("cd {};", cluster.path("").display());
        for (call, frees) in
            [("comm", true), ("group", true), ("type", false), ("file", true), ("keyval", true), ("set", true)]
        {
            let before = cluster.versions("state").len();
            let kept = cluster.dump_run_on(1, &folder, &["--each", "2"], &[&program, call, "keep"]);
            assert_eq!(said(&kept).trim(), "done", "{module} {call}");
            assert!(told(&kept).contains("after its first call here"), "{module} {call}: {}", told(&kept));
            assert_eq!(cluster.versions("state").len(), before, "{module} {call}");
            if frees {
                let freed = cluster.dump_run_on(1, &folder, &["--each", "2"], &[&program, call, "free"]);
                assert_eq!(said(&freed).trim(), "done", "{module} {call}");
                assert_eq!(cluster.versions("state").len(), before + 1, "{module} {call}: {}", told(&freed));
            }
        }
    }
}

/// A program that makes its things early, in C or Fortran, has the same ones after a restart.
#[test]
fn what_a_program_makes_before_its_first_call_is_there_after_a_restart() {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path("early.c");
    fs::write(
        &source,
        "#include <mpi.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
         static int errors, number;\n\
         static void count(MPI_Comm *from, int *code, ...) { (void)from; (void)code; errors++; }\n\
         int main(int count_, char **arguments) {\n\
             MPI_Comm all; MPI_Errhandler handler; MPI_Datatype real, inner, outer, content; MPI_Group group; MPI_Info info, used; MPI_Request request;\n\
             int keyval, step, rank, bytes, flag, ranges[1][3] = { { 1, 3, 1 } }, integers[1]; MPI_Aint addresses[1]; void *value; char text[9];\n\
             MPI_Init(&count_, &arguments);\n\
             MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n\
             MPI_Comm_idup(MPI_COMM_WORLD, &all, &request);\n\
             MPI_Wait(&request, MPI_STATUS_IGNORE);\n\
             MPI_Comm_create_errhandler(count, &handler);\n\
             MPI_Comm_set_errhandler(all, handler);\n\
             MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);\n\
             MPI_Comm_set_attr(all, keyval, &number);\n\
             MPI_Type_create_f90_real(12, 50, &real);\n\
             MPI_Type_contiguous(3, real, &inner);\n\
             MPI_Type_contiguous(2, inner, &outer);\n\
             MPI_Type_free(&inner);\n\
             MPI_Type_get_contents(outer, 1, 0, 1, integers, addresses, &content);\n\
             MPI_Comm_group(all, &group);\n\
             MPI_Group_range_incl(group, 1, ranges, &group);\n\
             MPI_Info_create(&info);\n\
             MPI_Info_set(info, \"k\", \"early\");\n\
             MPI_Comm_get_info(all, &used);\n\
             for (step = 0; step < 6; step++) {\n\
                 MPI_Barrier(all);\n\
                 if (step == 3 && getenv(\"DIES\")) abort();\n\
             }\n\
             MPI_Send(&step, 1, MPI_INT, 99, 0, all);\n\
             MPI_Comm_get_attr(all, keyval, &value, &flag);\n\
             MPI_Type_size(content, &bytes);\n\
             MPI_Group_rank(group, &step);\n\
             MPI_Info_get(info, \"k\", 8, text, &count_);\n\
             printf(\"%d: %d %d %d %d %s\\n\", rank, errors, flag && value == &number, bytes, step, text);\n\
             MPI_Finalize();\n\
             return 0;\n\
         }\n",
    )
    .unwrap();
    let program = cluster.compile_file(&source, "program");
    let expected = sort(said(&cluster.mpirun(RANK_COUNT, "", &[&program])));
    let killed = cluster.dump_run_on(RANK_COUNT, "export DIES=1;", &["--each", "3"], &[&program]);
    assert!(was_killed(&killed) && cluster.versions("state") == [0], "{}", told(&killed));
    let restarted = cluster.dump_run(&["--each", "100", "--restart"], &[&program]);
    assert_eq!(sort(said(&restarted)), expected, "{}", told(&restarted));
    assert!(told(&restarted).contains("state continues from version 0, at call 3"), "{}", told(&restarted));
}

/// Fortran's numbers stand for the same things, too.
#[test]
fn what_a_program_in_fortran_makes_before_its_first_call_is_there_after_a_restart() {
    let Some(cluster) = Cluster::new() else { return };
    let source = cluster.path("early.f90");
    fs::write(
        &source,
        "program early\n\
         use mpi\n\
         implicit none\n\
         integer :: all, half, members, others, column, real_kind, info, keyval, request, error, step, rank, total, length\n\
         logical :: is_set\n\
         character(8) :: text, dies\n\
         call MPI_Init(error)\n\
         call MPI_Comm_idup(MPI_COMM_WORLD, all, request, error)\n\
         call MPI_Wait(request, MPI_STATUS_IGNORE, error)\n\
         call MPI_Comm_rank(all, rank, error)\n\
         call MPI_Comm_split(all, mod(rank, 2), rank, half, error)\n\
         call MPI_Comm_group(all, members, error)\n\
         call MPI_Group_excl(members, 1, [0], others, error)\n\
         call MPI_Type_create_f90_real(12, 50, real_kind, error)\n\
         call MPI_Type_vector(4, 2, 4, real_kind, column, error)\n\
         call MPI_Type_commit(column, error)\n\
         call MPI_Info_create(info, error)\n\
         call MPI_Info_set(info, 'k', 'early', error)\n\
         call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, keyval, 0_MPI_ADDRESS_KIND, error)\n\
         do step = 1, 6\n\
         call MPI_Barrier(all, error)\n\
         call get_environment_variable('DIES', dies)\n\
         if (step == 4 .and. dies == '1') call abort()\n\
         end do\n\
         call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, half, error)\n\
         call MPI_Type_size(column, length, error)\n\
         call MPI_Group_size(others, step, error)\n\
         call MPI_Info_get(info, 'k', 8, text, is_set, error)\n\
         print '(4i4, a)', rank, total, length, step, text\n\
         call MPI_Finalize(error)\n\
         end program\n",
    )
    .unwrap();
    let program = cluster.compile_file(&source, "program");
    let expected = sort(said(&cluster.mpirun(RANK_COUNT, "", &[&program])));
    let killed = cluster.dump_run_on(RANK_COUNT, "export DIES=1;", &["--each", "3"], &[&program]);
    assert!(was_killed(&killed) && cluster.versions("state") == [0], "{}", told(&killed));
    for _ in 0..3 {
        let restarted = cluster.dump_run(&["--each", "100", "--restart"], &[&program]);
        assert_eq!(sort(said(&restarted)), expected, "{}", told(&restarted));
        assert!(told(&restarted).contains("state continues from version 0, at call 3"), "{}", told(&restarted));
    }
}

fn sort(lines: String) -> Vec<String> {
    let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The calls of this MPI that put a handle, or the number of a key, into a place, or change what one has.
fn find_calls_with_state(header: &str) -> Vec<String> {
    const HANDLE_TYPES: [&str; 10] =
        ["Comm", "Group", "Datatype", "Op", "Win", "File", "Info", "Errhandler", "Message", "Session"];
    let makes = |argument: &str| {
        let kind = argument.strip_prefix("MPI_").and_then(|rest| rest.split([' ', '*']).next());
        let is_place = argument.contains(['*', '[']);
        is_place && (kind.is_some_and(|kind| HANDLE_TYPES.contains(&kind)) || argument.ends_with("keyval"))
    };
    let changes = |name: &str| {
        let parts = [
            "_set_",
            "_delete_attr",
            "_attach",
            "_detach",
            "_init",
            "Add_error",
            "Info_delete",
            "Attr_",
            "_port",
            "Publish_name",
            "Unpublish",
        ];
        parts.iter().any(|part| name.contains(part))
            || name.starts_with("MPI_File_seek")
            || name.starts_with("MPI_Grequest_start")
    };
    let words = header.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found: Vec<String> = Vec::new();
    for prototype in words.split("OMPI_DECLSPEC int ").skip(1) {
        let Some((name, rest)) = prototype.split_once('(') else { continue };
        let arguments = rest.split_once(");").map_or(rest, |(arguments, _)| arguments);
        let is_maker =
            arguments.split([',', ')']).map(str::trim).any(|argument| !argument.contains("const") && makes(argument));
        if name.starts_with("MPI_") && !name.starts_with("MPI_T_") && (is_maker || changes(name)) {
            found.push(name.trim().to_owned());
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The calls of the installed MPI are compared with those that the library takes the place of, so that none is forgotten.
#[test]
fn each_call_of_mpi_that_makes_or_changes_something_is_noticed() {
    let Some(cluster) = Cluster::new() else { return };
    // Names, statuses and the content of files are no state that a restart needs; this one gives a type of MPI's own.
    const EXCEPTED_CALLS: [&str; 9] = [
        "MPI_Comm_set_name",
        "MPI_Type_set_name",
        "MPI_Win_set_name",
        "MPI_Status_set_cancelled",
        "MPI_Status_set_elements",
        "MPI_Status_set_elements_x",
        "MPI_File_set_size",
        "MPI_Type_match_size",
        "MPI_Attr_get",
    ];
    let include = std::process::Command::new("mpicc").arg("--showme:incdirs").output().unwrap();
    let folders = said(&include);
    let header =
        folders.split_whitespace().find_map(|folder| fs::read_to_string(format!("{folder}/mpi.h")).ok()).unwrap();
    let calls = find_calls_with_state(&header);
    assert!(calls.len() > 130, "{} calls", calls.len());
    let bytes = fs::read(cluster.path("libterrace_dump_run.so")).unwrap();
    let library = object::read::elf::ElfFile64::<LittleEndian>::parse(&bytes[..]).unwrap();
    let exported: Vec<&str> = library
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    let missing: Vec<&String> = calls
        .iter()
        .filter(|call| !EXCEPTED_CALLS.contains(&call.as_str()) && !exported.contains(&call.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    let lacks = |call: &&&str| !exported.contains(&format!("{}_", call.to_lowercase()).as_str());
    let hooked = exported.iter().filter(|name| name.starts_with("MPI_") && !name.starts_with("MPI_T_"));
    let in_c_alone: Vec<&&str> = hooked.filter(lacks).collect();
    assert!(in_c_alone.is_empty(), "{in_c_alone:?}");
}
