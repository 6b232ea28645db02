//! The header, and programs in C that use the library.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use terrace_testkit::guide::Guide;
use terrace_testkit::{Missing, real_files, skip};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The library that was built beside this test.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libterrace_brain.so")
}

fn run<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> Option<String> {
    let output = match Command::new(program).args(arguments).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip("a program that uses the brain", &Missing::new("compilers", format!("{program} is not installed")));
            return None;
        }
        output => output.unwrap(),
    };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} failed: {}\n{out}\n{err}", output.status);
    Some(out.into_owned())
}

/// Compiles a program.
fn compile(compiler: &str, flags: &str, source: &Path, dir: &Path) -> Option<PathBuf> {
    symlink(library(), dir.join("libterrace_brain.so")).unwrap();
    let (program, dir, include) = (dir.join("program"), dir.display(), here("include"));
    let warnings = "-Wall -Wextra -Werror -pedantic -pthread";
    let paths = format!("-I{} -L{dir} -Wl,-rpath,{dir} -lterrace_brain -lm", include.display());
    let arguments = format!("{flags} {warnings} {} {paths} -o {}", source.display(), program.display());
    run(compiler, arguments.split_whitespace()).map(|_| program)
}

#[test]
fn the_header_says_what_the_library_has() {
    let config = cbindgen::Config::from_file(here("cbindgen.toml")).unwrap();
    let made = cbindgen::Builder::new().with_config(config).with_crate(env!("CARGO_MANIFEST_DIR"));
    let mut header = Vec::new();
    made.generate().unwrap().write(&mut header);
    let path = here("include/terrace_brain.h");
    if std::env::var_os("TERRACE_HEADER").is_some() {
        fs::write(&path, &header).unwrap();
    }
    let checked_in = fs::read(&path).unwrap_or_default();
    assert!(
        checked_in == header,
        "terrace_brain.h is old; TERRACE_HEADER=write cargo test -p terrace-brain writes it again"
    );
}

#[test]
fn programs_use_every_function() {
    let header = fs::read_to_string(here("include/terrace_brain.h")).unwrap();
    let programs = ["examples/cache.c", "tests/arguments.c"].map(|path| fs::read_to_string(here(path)).unwrap());
    let declared = header.split(|c: char| !c.is_ascii_alphanumeric() && !"_(".contains(c));
    let functions: Vec<&str> =
        declared.filter(|word| word.starts_with("terrace_brain_") && word.contains('(')).collect();
    let functions = functions.iter().map(|word| &word[..=word.find('(').unwrap()]);
    let unused: Vec<&str> =
        functions.clone().filter(|function| !programs.iter().any(|text| text.contains(function))).collect();
    assert!(functions.count() >= 12 && unused.is_empty(), "{unused:?}");
}

/// Runs the guide's programs in the layout that `make install PREFIX=...` creates.
#[test]
fn the_guide_to_the_brain_works_as_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    fs::copy(here("examples/cache.c"), folder.join("cache.c")).unwrap();
    let prefix = folder.join("prefix");
    fs::create_dir_all(prefix.join("lib")).unwrap();
    symlink(here("include"), prefix.join("include")).unwrap();
    symlink(library(), prefix.join("lib/libterrace_brain.so")).unwrap();
    let described = fs::read_to_string(here("terrace_brain.pc.in")).unwrap();
    let described = described.replace("@PREFIX@", prefix.to_str().unwrap()).replace("@VERSION@", "1");
    fs::write(prefix.join("lib/terrace_brain.pc"), described).unwrap();
    let found = |program: &str| format!("LD_LIBRARY_PATH={}/lib {program}", prefix.display());
    let replaced = [
        ("pkg-config", format!("PKG_CONFIG_PATH={}/lib pkg-config", prefix.display())),
        ("./block", found("./block")),
        ("./cache", found("./cache")),
    ];
    let ran = Guide { name: "brain.md", folder, programs: folder, replaced: &replaced, before: &|_| {} }.run();
    assert!(ran == 0 || folder.join("cache").exists());
}

/// The directories of the cache, made.
fn directories(dir: &TempDir) -> [PathBuf; 3] {
    let directories = ["fast", "middle", "slow"].map(|name| dir.path().join(name));
    directories.iter().for_each(|directory| fs::create_dir(directory).unwrap());
    directories
}

#[test]
fn a_block_cache_places_and_reads_real_files() {
    let Some(data) = real_files("a_block_cache_places_and_reads_real_files") else { return };
    let mut files = Vec::new();
    let mut folders = vec![data];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    // Some of each kind, more than the directories have room for.
    let files: Vec<PathBuf> = files.into_iter().step_by(3).collect();
    let put: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(put > 6 << 20, "{put} bytes");

    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile("cc", "-std=c99", &here("examples/cache.c"), dir.path()) else { return };
    let arguments = || directories_and(&dir, &files);
    directories(&dir);
    let said = run(program.to_str().unwrap(), arguments()).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let [_, cached, readable, described] = lines[..] else { panic!("{said}") };
    assert_eq!((readable, described), ("all blocks can be read: yes", "described: yes"), "{said}");
    // Megabytes in the cache, and in each directory.
    let numbers: Vec<f64> = cached.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [raw, memory, flash, disk] = numbers[..] else { panic!("{said}") };
    assert!(memory > 0.5 && flash > 1.5 && disk > 4.0, "each directory is used: {said}");
    assert!(raw <= put as f64 / 1e6 + 0.01, "{said}");
    assert!(memory <= 1.05 && flash <= 3.15 && disk <= 8.39, "no directory has more than it may: {said}");
    let used: u64 = ["fast", "middle"].iter().map(|name| bytes_in(&dir.path().join(name))).sum();
    assert!((used as f64 / 1e6 - memory - flash).abs() < 0.1, "evicted blocks are gone: {used} bytes, {said}");

    let again = run(program.to_str().unwrap(), arguments()).unwrap();
    assert!(again.starts_with("knows what was learned before\n"), "{again}");
    fs::write(dir.path().join("slow/brain"), "garbage").unwrap();
    let again = run(program.to_str().unwrap(), arguments()).unwrap();
    assert!(again.contains("load what terrace_brain_save made"), "{again}");
}

fn directories_and(dir: &TempDir, files: &[PathBuf]) -> Vec<PathBuf> {
    ["fast", "middle", "slow"].map(|name| dir.path().join(name)).into_iter().chain(files.iter().cloned()).collect()
}

fn bytes_in(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// Checks that each line of the program ends with 1.
fn check_all(said: &str) {
    let wrong: Vec<&str> = said
        .lines()
        .filter(|line| !line.ends_with(": 1") && *line != "its length: 1" && *line != "pieces of nothing: 0")
        .collect();
    assert!(said.lines().count() > 50 && wrong.is_empty(), "{wrong:?}");
}

#[test]
fn invalid_arguments_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile("cc", "-std=c99", &here("tests/arguments.c"), dir.path()) else { return };
    check_all(&run::<&str>(program.to_str().unwrap(), []).unwrap());
}

#[test]
fn cpp_takes_the_header() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("program.cpp");
    let text = "#include <terrace_brain.h>\nint main() { return *terrace_brain_last_error(); }\n";
    fs::write(&source, text).unwrap();
    let Some(program) = compile("c++", "-std=c++17", &source, dir.path()) else { return };
    run::<&str>(program.to_str().unwrap(), []).unwrap();
}

#[test]
fn valgrind_finds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) =
        compile("cc", "-std=c99 -DBYTES=16384 -DROUNDS=1 -DREPORTS=10", &here("tests/arguments.c"), dir.path())
    else {
        return;
    };
    let flags = ["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"];
    if let Some(said) = run("valgrind", flags.map(Into::into).into_iter().chain([program])) {
        check_all(&said);
    }
}
