//! The headers, and programs in C, C++ and Fortran that use them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use terrace_testkit::guide::Guide;
use terrace_testkit::{Missing, noise, skip};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn run<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> Option<String> {
    let output = Command::new(program).args(arguments).output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip("a program that uses the library", &Missing::new("compilers", format!("{program} is not installed")));
            return None;
        }
        output => output.unwrap(),
    };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} failed: {}\n{out}\n{err}", output.status);
    Some(out.into_owned())
}

/// Compiles an example with the library that was built beside this test.
fn compile(compiler: &str, source: &str, dir: &Path) -> Option<PathBuf> {
    let built = std::env::current_exe().unwrap().with_file_name("libterrace_c.so");
    symlink(built, dir.join("libterrace.so")).unwrap();
    let (program, dir) = (dir.join("program"), dir.display());
    let (source, include) = (here(source), here("include"));
    let flags = match compiler {
        "gfortran" => format!("-J{dir} -std=f2018 -Wall -Werror"),
        "c++" => "-std=c++17 -Wall -Wextra -Werror -pedantic".to_owned(),
        _ => "-pthread -std=c99 -Wall -Wextra -Werror -pedantic".to_owned(),
    };
    let module = if compiler == "gfortran" { include.join("terrace.f90").display().to_string() } else { String::new() };
    let paths = format!("-I{} -L{dir} -Wl,-rpath,{dir} -lterrace -o {}", include.display(), program.display());
    let arguments = format!("{flags} {module} {} {paths}", source.display());
    run(compiler, arguments.split_whitespace()).map(|_| program)
}

fn store() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("store");
    let text = format!(
        "[store]\nreplicas = {{ min = 1, max = 3, default = 2 }}\n\
         [[tier]]\nname = 'a'\nkind = 'directory'\ntargets = ['{0}/a', '{0}/b']\n",
        dir.path().display()
    );
    let config = engine::Config::parse(&text, "test").unwrap();
    engine::Store::init(&at, &config).unwrap().close().unwrap();
    (dir, at)
}

#[test]
fn the_header_says_what_the_library_has() {
    let config = cbindgen::Config::from_file(here("cbindgen.toml")).unwrap();
    let made = cbindgen::Builder::new().with_config(config).with_crate(env!("CARGO_MANIFEST_DIR"));
    let mut header = Vec::new();
    made.generate().unwrap().write(&mut header);
    let path = here("include/terrace.h");
    if std::env::var_os("TERRACE_HEADER").is_some() {
        fs::write(&path, &header).unwrap();
    }
    let checked_in = fs::read(&path).unwrap_or_default();
    assert!(checked_in == header, "terrace.h is old; TERRACE_HEADER=write cargo test -p terrace-c writes it again");
}

/// Nobody ran the guide's commands, nor used the pkg-config file that they need.
#[test]
fn the_guide_to_c_works_as_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    for language in ["c", "f90"] {
        fs::copy(here(&format!("examples/replicate.{language}")), folder.join(format!("program.{language}"))).unwrap();
    }
    // The layout that `make install PREFIX=...` creates.
    let prefix = folder.join("prefix");
    fs::create_dir_all(prefix.join("lib")).unwrap();
    symlink(here("include"), prefix.join("include")).unwrap();
    let built = std::env::current_exe().unwrap().with_file_name("libterrace_c.so");
    symlink(built, prefix.join("lib/libterrace.so")).unwrap();
    let described = fs::read_to_string(here("terrace.pc.in")).unwrap();
    let described = described.replace("@PREFIX@", prefix.to_str().unwrap()).replace("@VERSION@", "1");
    fs::write(prefix.join("lib/terrace.pc"), described).unwrap();
    let replaced = [("pkg-config", format!("PKG_CONFIG_PATH={}/lib pkg-config", prefix.display()))];
    let ran = Guide { name: "c.md", folder, programs: folder, replaced: &replaced, before: &|_| {} }.run();
    assert!(ran == 0 || folder.join("a.out").exists());
}

const EXPECTED_OUTPUT: &str = "\
1600000 bytes, 1 replicas, 0 pending
no such field: 1
located: 1
planned: 1
compressed to less than a tenth: 1
compressed for the archive: 1
damaged: 1
too short: 1
not understood: 1
why: 1
null: 1
gone: 1
";

#[test]
fn a_c_program_replicates_and_reads() {
    runs_as_it_says("cc", "replicate.c", EXPECTED_OUTPUT);
}

const FILES_OUTPUT: &str = "\
number 123: 123
appended at 6, now 10 bytes
not to be read: 1
exists: 1
run/log: 10 bytes, mode 644
run/table: 400 bytes, mode 644
2 files of 410 bytes
run/log: 10 bytes, mode 644
the same object: 1
gone: 1
";

#[test]
fn a_c_program_makes_a_store_and_uses_files() {
    runs_as_it_says("cc", "files.c", FILES_OUTPUT);
    makes_its_store("cc", "files.c", FILES_OUTPUT);
}

#[test]
fn a_c_program_sends_requests() {
    runs_as_it_says("cc", "stream.c", "added: 2\nadded again: 0\npending: 2\n");
}

const DATASET_OUTPUT: &str = "\
exists: 1
8000 bytes of 8000, y[7] = -7
views: [\"whole\",\"heights\"]
gone: 1
";

#[test]
fn a_c_program_uses_a_dataset() {
    runs_as_it_says("cc", "dataset.c", DATASET_OUTPUT);
}

/// Compiles and runs an example on a new store.
fn runs_as_it_says(compiler: &str, example: &str, expected: &str) {
    let (dir, store) = store();
    let Some(program) = compile(compiler, &format!("examples/{example}"), dir.path()) else { return };
    assert_eq!(run(&program.display().to_string(), [&store]).unwrap(), expected);
}

/// Compiles and runs an example that makes the store from a configuration.
fn makes_its_store(compiler: &str, example: &str, expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (at, config) = (dir.path().join("store"), dir.path().join("tiers.toml"));
    let tier = format!("[[tier]]\nname = 'a'\nkind = 'directory'\ntargets = ['{}/a']\n", dir.path().display());
    fs::write(&config, tier).unwrap();
    let Some(program) = compile(compiler, &format!("examples/{example}"), dir.path()) else { return };
    assert_eq!(run(&program.display().to_string(), [at, config]).unwrap(), expected);
}

/// Returns the functions that a header or module declares, each with the number of its arguments.
fn declared(file: &str) -> BTreeMap<String, usize> {
    let text = fs::read_to_string(here(file)).unwrap();
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with(['!', '/', '#'])).collect();
    let mut found = BTreeMap::new();
    for (at, _) in code.match_indices('(') {
        let name = code[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        if name.starts_with("terrace_") {
            let arguments = code[at + 1..].split(')').next().unwrap_or_default();
            found.insert(
                name.to_owned(),
                arguments.split(',').filter(|argument| !matches!(argument.trim(), "" | "void")).count(),
            );
        }
    }
    found
}

#[test]
fn cpp_and_fortran_have_every_function() {
    let functions = declared("include/terrace.h");
    assert!(functions.len() > 40, "{functions:?}");
    let module = declared("include/terrace.f90");
    for (function, arguments) in &functions {
        assert_eq!(module.get(function), Some(arguments), "{function} in terrace.f90");
    }
    let classes = fs::read_to_string(here("include/terrace.hpp")).unwrap();
    let words: Vec<&str> = classes.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let missing: Vec<&String> = functions.keys().filter(|function| !words.contains(&function.as_str())).collect();
    assert!(missing.is_empty(), "terrace.hpp lacks {missing:?}");
}

#[test]
fn examples_use_every_function() {
    let header = fs::read_to_string(here("include/terrace.h")).unwrap();
    let examples =
        fs::read_dir(here("examples")).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let examples = examples.collect::<String>() + &fs::read_to_string(here("tests/handles.c")).unwrap();
    let declared = header.split(|c: char| !c.is_ascii_alphanumeric() && !"_(".contains(c));
    let functions: Vec<&str> = declared.filter(|word| word.starts_with("terrace_") && word.contains('(')).collect();
    let functions = functions.iter().map(|word| &word[..=word.find('(').unwrap()]);
    let unused: Vec<&str> = functions.clone().filter(|function| !examples.contains(function)).collect();
    assert!(functions.count() > 40 && unused.is_empty(), "{unused:?}");
}

const EXPECTED_REFUSALS: &str = "\
durable: 1
empty receipt: 1
garbage receipt: 1
changed receipt: 1
in words: 1
no receipt: 1
appended at 5
write beyond the end of numbers: 1
write beyond 2^63: 1
read beyond 2^63: 1
negative length: 1
negative room: 1
the store's own key: 1
no such tier: 1
negative latency: 1
known of later: 1
unknown of later: 1
still bytes more
mode: 1
negative write: 1
file beyond 2^63: 1
file closed twice: 1
closed file: 1
no function: 1
stream's name: 1
destination: 1
offset: 1
many requests: 1
declaration: 1
no dataset: 1
no compression: 1
no room: 1
no speed: 1
fewer reads than none: 1
no tiers: 1
no size: 1
closed twice: 1
used after that: 1
garbage handle: 1
";

/// Handles were pointers, and receipts were trusted: closing a store twice corrupted the heap, and waiting for a
/// receipt that no call had filled succeeded.
#[test]
fn invalid_handles_and_receipts_are_refused() {
    let (dir, store) = store();
    let Some(program) = compile("cc", "tests/handles.c", dir.path()) else { return };
    assert_eq!(run(&program.display().to_string(), [&store]).unwrap(), EXPECTED_REFUSALS);
}

#[test]
fn threads_and_processes_append_to_one_object() {
    let (dir, store) = store();
    let Some(program) = compile("cc", "tests/handles.c", dir.path()) else { return };
    let append = |name: &str| Command::new(&program).arg(&store).arg(name).spawn().unwrap();
    let mut programs = ["a", "b", "c"].map(append);
    assert!(programs.iter_mut().all(|program| program.wait().unwrap().success()));
    let found = engine::Store::open(&store).unwrap().get(b"log").unwrap();
    let found = String::from_utf8(found).unwrap();
    for who in 0..12 {
        let start = format!("{}{} ", ["a", "b", "c"][who / 4], who % 4);
        let lines: Vec<&str> = found.lines().filter_map(|line| line.strip_prefix(&start)).collect();
        assert_eq!(lines, (0..100).map(|number| number.to_string()).collect::<Vec<_>>(), "{start}");
    }
    assert_eq!(found.lines().count(), 1200);
}

const ORIGIN_OUTPUT: &str = "\
data/far/a: 1000000 bytes
data/far/b/c: 6 bytes
read as by the origin: 1
the file, too: 1
stored: 1
read-only: 1
not opened to write: 1
not renamed: 1
";

#[test]
fn a_c_program_reads_an_origin() {
    let (dir, at) = store();
    let far = dir.path().join("far");
    fs::create_dir_all(far.join("b")).unwrap();
    fs::write(far.join("a"), noise(1_000_000, 1)).unwrap();
    fs::write(far.join("b/c"), b"words\n").unwrap();
    let store = engine::Store::open(&at).unwrap();
    store.add_origin("data/far", far.to_str().unwrap(), BTreeMap::new(), None).unwrap();
    let Some(program) = compile("cc", "tests/origin.c", dir.path()) else { return };
    assert_eq!(run(&program.display().to_string(), [at, far.join("a")]).unwrap(), ORIGIN_OUTPUT);
    assert_eq!(store.origins().unwrap()[0].cached, 1_000_006);
}

const CPP_OUTPUT: &str = "\
1600000 bytes, durable: 1
read 1600000 bytes, changed: 1
appended at 6: begin
end
length 10, mode 644
objects: 4
thrown: 1
located: 1
planned: 1
not found: 1, named: 1
invalid: 1
number 123, appended at 400, length 403
closed: 1
added 2, then 0; pending: 2
[\"whole\",\"heights\"]: 8000 bytes, y[7] = -7
packed: 1
for memory: 1
of any length: 1
";

#[test]
fn a_cpp_program_makes_a_store_and_uses_all_of_it() {
    makes_its_store("c++", "replicate.cpp", CPP_OUTPUT);
}

const FORTRAN_OUTPUT: &str = "\
800000 bytes, durable: T
read back 100000 numbers
2 objects
located: T
compressed and back: T
in words: T
";

#[test]
fn a_fortran_program_uses_it() {
    runs_as_it_says("gfortran", "replicate.f90", FORTRAN_OUTPUT);
}

#[test]
fn valgrind_finds_nothing_in_programs() {
    let programs = [("cc", "c", EXPECTED_OUTPUT), ("c++", "cpp", CPP_OUTPUT), ("gfortran", "f90", FORTRAN_OUTPUT)];
    // Each takes a minute; `make soak` runs all.
    let count = std::env::var("TERRACE_VALGRIND").map_or(1, |count| count.parse().unwrap());
    for (compiler, language, expected) in programs.into_iter().take(count) {
        let (dir, store) = store();
        let Some(program) = compile(compiler, &format!("examples/replicate.{language}"), dir.path()) else { continue };
        let flags = ["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"];
        let arguments = flags.map(Into::into).into_iter().chain([program, store]);
        if let Some(said) = run("valgrind", arguments) {
            assert_eq!(said, expected, "{language}");
        }
    }
}
