//! The header, and programs in C and Fortran that use it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn run<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> Option<String> {
    let output = Command::new(program).args(arguments).output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {program} is not installed (`make servers`)");
            return None;
        }
        output => output.unwrap(),
    };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} failed: {}\n{out}\n{err}", output.status);
    Some(out.into_owned())
}

/// Compiles an example, with the library, which was built beside this test, as it is installed.
fn compile(compiler: &str, source: &str, dir: &Path) -> Option<PathBuf> {
    let built = std::env::current_exe().unwrap().with_file_name("libterrace_c.so");
    symlink(built, dir.join("libterrace.so")).unwrap();
    let (program, dir) = (dir.join("program"), dir.display());
    let flags = match compiler {
        "gfortran" => format!("-J{dir}"),
        _ => "-std=c99 -Wall -Wextra -Werror -pedantic".to_owned(),
    };
    let (source, include) = (here(source), here("include"));
    let paths = format!("-I{} -L{dir} -Wl,-rpath,{dir} -lterrace -o {}", include.display(), program.display());
    let arguments = format!("{} {flags} {paths}", source.display());
    run(compiler, arguments.split(' ')).map(|_| program)
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
    assert!(checked_in == header, "terrace.h is old; TERRACE_HEADER=write cargo test -p terrace-c makes it anew");
}

const SAID: &str = "\
1600000 bytes, 1 replicas, 0 owed
located: 1
planned: 1
compressed to less than a tenth: 1
damaged: 1
too short: 1
not understood: 1
why: 1
null: 1
gone: 1
";

#[test]
fn a_c_program_uses_all_of_it() {
    let (dir, store) = store();
    let Some(program) = compile("cc", "examples/replicate.c", dir.path()) else { return };
    assert_eq!(run(&program.display().to_string(), [&store]).unwrap(), SAID);
}

#[test]
fn valgrind_finds_nothing_in_it() {
    let (dir, store) = store();
    let Some(program) = compile("cc", "examples/replicate.c", dir.path()) else { return };
    let flags = ["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"];
    let arguments = flags.map(Into::into).into_iter().chain([program, store]);
    if let Some(said) = run("valgrind", arguments) {
        assert_eq!(said, SAID);
    }
}

#[test]
fn a_fortran_program_uses_it() {
    let (dir, store) = store();
    let Some(program) = compile("gfortran", "examples/replicate.f90", dir.path()) else { return };
    assert_eq!(run(&program.display().to_string(), [&store]).unwrap(), "read back 100000 numbers\n");
}
