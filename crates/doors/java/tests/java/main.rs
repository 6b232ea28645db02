//! The jars, and programs of Java that use them.

#![allow(clippy::unwrap_used)]

mod hadoop;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use engine::{Config, Error, PutOptions, Store};
use tempfile::TempDir;
use terrace_testkit::guide::Guide;
use terrace_testkit::{Missing, Random, SmallDisk, skip};

/// The folder that the tests share, with the jar and the classes of the programs.
static BUILT_FOLDER: LazyLock<Result<PathBuf, Missing>> = LazyLock::new(build);

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A file that was built, by its path from the folder of this test.
fn built(path: &str) -> PathBuf {
    std::env::current_exe().unwrap().with_file_name(path)
}

/// The jars of `target/servers` that a test needs, as an entry of a class path.
fn jars(name: &str) -> Result<PathBuf, Missing> {
    let folder = here("../../../target/servers").join(name);
    let reason = || format!("{} has no jars; `make servers` downloads them", folder.display());
    if folder.join("installed").exists() { Ok(folder.join("*")) } else { Err(Missing::new("java", reason())) }
}

fn build() -> Result<PathBuf, Missing> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java");
    if let Err(error) = Command::new("javac").arg("-version").output() {
        return Err(Missing::new("java", format!("javac: {error}; `make packages` installs it")));
    }
    let path = format!("{}:{}", folder.join("terrace.jar").display(), jars("java")?.display());
    // Packing makes the folder again, without what an earlier run has compiled.
    succeed(Command::new(here("package")).arg(built("libterrace_java.so")).arg(&folder));
    let programs = fs::read_dir(here("tests/programs")).unwrap().map(|entry| entry.unwrap().path());
    let flags = ["--release", "11", "-Xlint:all", "-Werror", "-cp", &path, "-d"];
    succeed(Command::new("javac").args(flags).arg(folder.join("programs")).args(programs));
    Ok(folder)
}

/// Returns the folder with the jar and the classes. Skips the test if the machine has no Java.
fn java(test: &str) -> Option<&'static Path> {
    BUILT_FOLDER.as_deref().inspect_err(|missing| skip(test, missing)).ok()
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} failed: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// A program of `tests/programs`, or of JUnit.
fn own_program(folder: &Path, class: &str) -> Command {
    program(&[folder.join("terrace.jar"), folder.join("programs"), jars("java").unwrap()], class)
}

/// A program of this class path.
fn program(path: &[PathBuf], class: &str) -> Command {
    let mut command = Command::new("java");
    // It lives for seconds, so code that starts fast is better than code that runs fast.
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xcheck:jni", "-cp"]);
    command.arg(std::env::join_paths(path).unwrap()).arg(class);
    command
}

/// Makes a store with a target below `target`.
fn store(dir: &Path, target: &Path) -> PathBuf {
    let at = dir.join("store");
    let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", target.display());
    Store::init(&at, &Config::parse(&text, "test").unwrap()).unwrap().close().unwrap();
    at
}

#[test]
fn a_program_uses_all_of_it() {
    let name = "a program uses all of it";
    let Some(folder) = java(name) else { return };
    let terrace = built("../terrace");
    if !terrace.exists() {
        skip(name, &Missing::new("terrace", "the command is not built: `cargo build --bins`"));
        return;
    }
    let mut command = own_program(folder, "org.junit.platform.console.ConsoleLauncher");
    command.args(["execute", "--disable-banner", "--disable-ansi-colors", "--details=tree", "--fail-if-no-tests"]);
    command.arg("--scan-class-path").arg(folder.join("programs")).env("TERRACE_PROGRAM", terrace);
    let said = succeed(&mut command);
    assert!(said.contains(" 0 tests skipped ") && said.contains(" 0 tests aborted "), "{said}");
    assert!(!said.contains("WARNING in native method"), "{said}");
}

/// Kills the program once it has printed `count` lines. Returns all lines that it has printed.
fn killed_after(mut child: Child, count: usize) -> Vec<String> {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut printed: Vec<String> = lines.by_ref().take(count).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    printed.extend(lines);
    printed
}

#[test]
fn acknowledged_objects_survive_the_death_of_the_program() {
    let Some(folder) = java("acknowledged objects survive the death of the program") else { return };
    let dir = TempDir::new().unwrap();
    let at = store(dir.path(), &dir.path().join("disk"));
    let kills = std::env::var("TERRACE_KILLS").map_or(3, |kills| kills.parse().unwrap());
    let mut random = Random::new(7);
    let mut count = 0;
    for run in 0..kills {
        let mut command = own_program(folder, "DurablePuts");
        let child = command.arg(&at).arg(format!("run{run}")).stdout(Stdio::piped()).spawn().unwrap();
        let acknowledged = killed_after(child, 1 + random.below(40) as usize);
        let store = Store::open(&at).unwrap();
        for key in &acknowledged {
            let number: usize = key.rsplit(['a', 'b']).next().unwrap().parse().unwrap();
            assert!(store.get(key.as_bytes()).unwrap() == vec![number as u8; number * 1000], "{key}");
        }
        count += acknowledged.len();
    }
    assert!(count >= kills, "only {count} objects were put");
}

#[test]
fn a_full_disk_is_told_of_in_the_same_words() {
    let name = "a full disk is told of in the same words";
    let Some(folder) = java(name) else { return };
    let dir = TempDir::new().unwrap();
    let Some(small) = SmallDisk::mount(name, &dir.path().join("small"), "size=4m") else { return };
    let at = store(dir.path(), &small.path().join("disk"));
    small.fill_but(0);
    let length = 1 << 20;
    let said = succeed(own_program(folder, "FullDisk").arg(&at).arg(length.to_string()));
    let store = Store::open(&at).unwrap();
    let refused = store.put_bytes(b"large", &vec![0; length], &PutOptions::default()).unwrap_err();
    assert!(matches!(refused, Error::NoSpace { .. }), "{refused}");
    assert_eq!(said.trim_end(), refused.to_string());
}

#[test]
fn the_guide_to_java_works_as_it_says() {
    let dir = TempDir::new().unwrap();
    let Some(path) = hadoop::path("the guide to Java works as it says") else { return };
    for jar in path.iter().filter(|path| path.extension().is_some_and(|ending| ending == "jar")) {
        fs::copy(jar, dir.path().join(jar.file_name().unwrap())).unwrap();
    }
    std::os::unix::fs::symlink(here("../../../target/servers/hadoop"), dir.path().join("hadoop")).unwrap();
    let programs = built("..");
    let ran = Guide { name: "java.md", folder: dir.path(), programs: &programs, replaced: &[], before: &|_| {} }.run();
    assert!(ran >= 2, "{ran} commands ran");
}
