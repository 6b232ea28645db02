//! Runs the examples of a guide as a reader does: in one shell, in the order in which they stand.
//!
//! The guides follow these rules:
//! - A block `console` holds commands, each behind `$ `, and what they print. A block `console NEED`, such as `console fuse`, is
//!   skipped where the machine lacks NEED, and the skip is counted.
//! - A block `LANGUAGE FILE`, such as `python producer.py`, is that file. `cat FILE` shows a file, too, if there is none yet.
//! - A command succeeds, unless its comment says `exits with 1` or the guide shows its error.
//! - A command that ends in `&` continues. The next one starts when it has printed what the guide shows.
//! - A command prints the lines that the guide shows. A word with a digit that is no whole number may differ: it is a size, a
//!   time, a rate or an address. Lines that begin with a space (tables) or contain `UTC` may differ. Nothing is compared if the
//!   guide shows no output, or shows `...` in place of some lines.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::{Missing, skip};

/// A session that takes longer is ended, and fails.
const MAX_SESSION_TIME: Duration = Duration::from_secs(100);

/// Wait this long at most for the output of a command that continues.
const MAX_START_TIME: Duration = Duration::from_secs(30);

/// A guide, and the machine that its reader has.
pub struct Guide<'a> {
    /// The file in `docs/guide`.
    pub name: &'a str,
    /// The reader's directory. The environment names the store `store` in it.
    pub folder: &'a Path,
    /// The directory of the programs.
    pub programs: &'a Path,
    /// Paths and words of the guide, and what replaces them where they begin.
    pub replaced: &'a [(&'a str, String)],
    /// A function that is called with each command before it runs.
    pub before: &'a dyn Fn(&str),
}

impl Guide<'_> {
    /// Runs all sessions of the guide, and returns the number of commands that ran.
    ///
    /// # Panics
    /// If a command does not do what the guide says.
    pub fn run(&self) -> usize {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(self.name);
        let mut text = fs::read_to_string(&path).expect("reads the guide");
        for (from, to) in self.replaced {
            text = replace_words(&text, from, to);
        }
        let blocks = blocks(&text);
        for Block { words, text } in &blocks {
            if let [language, file] = words[..]
                && language != "console"
            {
                self.write(file, text);
            }
        }
        let mut shell = Shell::start(self);
        let (mut count, mut differences) = (0, Vec::new());
        for block in blocks.iter().filter(|block| block.words.first() == Some(&"console")) {
            if let Some(missing) = block.words[1..].iter().find_map(|need| find_missing(need)) {
                skip(&format!("a session of docs/guide/{}", self.name), &missing);
                continue;
            }
            for step in block.steps() {
                if let Some(file) = step.command.strip_prefix("cat ").filter(|file| !self.folder.join(file).exists()) {
                    self.write(file, step.shown);
                    continue;
                }
                (self.before)(step.command);
                count += 1;
                let (code, printed) = shell.run(&step);
                if (code != 0) != step.fails() || !step.is_shown_by(&printed) {
                    let Step { command, shown } = step;
                    differences
                        .push(format!("$ {command}\nthe guide:\n{shown}\nprinted, with code {code}:\n{printed}"));
                }
            }
        }
        assert!(differences.is_empty(), "docs/guide/{}:\n{}", self.name, differences.join("\n"));
        count
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).expect("writes a file of the guide");
    }
}

/// Replaces `from` at the beginning of a path or a word.
fn replace_words(text: &str, from: &str, to: &str) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(from) {
        let begins = !before.ends_with(|letter: char| letter.is_alphanumeric() || "_-./}".contains(letter));
        replaced += before;
        replaced += if begins { to } else { from };
        rest = after;
    }
    replaced + rest
}

/// A block of a guide.
struct Block<'a> {
    /// The words behind the fence: the language, and a file or needs.
    words: Vec<&'a str>,
    text: &'a str,
}

fn blocks(guide: &str) -> Vec<Block<'_>> {
    let fenced = guide.split("```").skip(1).step_by(2);
    let parted = fenced.filter_map(|fenced| fenced.split_once('\n'));
    parted.map(|(words, text)| Block { words: words.split(' ').collect(), text }).collect()
}

/// A command, and what the guide shows that it prints.
struct Step<'a> {
    command: &'a str,
    shown: &'a str,
}

impl<'a> Block<'a> {
    fn steps(&self) -> impl Iterator<Item = Step<'a>> {
        let text = self.text.strip_prefix("$ ").expect("a session begins with a command");
        text.split("\n$ ").map(|step| {
            let (command, shown) = step.split_once('\n').unwrap_or((step, ""));
            Step { command, shown }
        })
    }
}

impl Step<'_> {
    fn fails(&self) -> bool {
        self.command.contains("exits with 1") || ["terrace: ", "{\"error\""].iter().any(|e| self.shown.starts_with(e))
    }

    fn continues(&self) -> bool {
        self.command.split(" #").next().is_some_and(|command| command.trim_end().ends_with('&'))
    }

    fn is_shown_by(&self, printed: &str) -> bool {
        let is_whole = !self.shown.is_empty() && !self.shown.lines().any(|line| line.trim() == "...");
        !is_whole || stable_lines(self.shown) == stable_lines(printed)
    }
}

/// Returns the lines that are the same in each run, with `#` for the words that vary.
fn stable_lines(text: &str) -> Vec<String> {
    let stable_word = |word: &str| {
        let is_count = word.trim_end_matches([',', ':', ';']).parse::<u64>().is_ok();
        let varies = !is_count && word.contains(|letter: char| letter.is_ascii_digit());
        if varies { "#".to_owned() } else { word.to_owned() }
    };
    let lines = text.lines().filter(|line| !line.starts_with(' ') && !line.is_empty() && !line.contains("UTC"));
    let stable_line = |line: &str| {
        let (line, rest) = line.split_once("generation ").unwrap_or((line, ""));
        // It is the number of a commit, and objects that are put at the same time are committed in any order.
        let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
        line.split_whitespace().chain(rest.split_whitespace()).map(stable_word).collect::<Vec<_>>().join(" ")
    };
    lines.map(stable_line).collect()
}

/// Returns why the machine lacks the need of a session; `None` if it has it.
fn find_missing(need: &str) -> Option<Missing> {
    let run = |script: &str| match Command::new("sh").args(["-c", script]).stdout(Stdio::null()).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("`{script}` fails {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Some(format!("sh: {error}")),
    };
    let (need, reason) = match need {
        "fuse" => {
            let opened = fs::File::options().read(true).write(true).open("/dev/fuse");
            ("fuse", opened.err().map(|error| format!("/dev/fuse: {error}")))
        }
        "namespaces" => ("namespaces", run("unshare --user --map-root-user --mount true")),
        "9p" => ("9p", run("grep -qw 9p /proc/filesystems && [ $(id -u) = 0 ]")),
        "redis" => ("redis", run("command -v redis-server && command -v redis-cli")),
        "memcached" => ("memcached", run("command -v memccapable")),
        "mpi" => ("mpi", run("command -v mpirun")),
        "h5py" => {
            let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python");
            ("h5py", run(&format!("'{}' -c 'import h5py'", python.display())))
        }
        "s3" => ("s3", run(&format!("'{}' -c 'import boto3, s3fs'", server_python().display()))),
        "compilers" => {
            ("compilers", run("command -v cc && command -v c++ && command -v gfortran && command -v pkg-config"))
        }
        "busybox" => ("busybox", run("command -v busybox")),
        "java" => ("java", run("command -v javac")),
        _ => unreachable!(
            "a session needs {need:?}, which is none of fuse, namespaces, 9p, redis, memcached, mpi, h5py, s3, compilers, busybox, java"
        ),
    };
    reason.map(|reason| Missing::new(need, reason))
}

/// The Python that has the clients of S3.
pub fn server_python() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers/bin/python")
}

/// The reader's shell.
struct Shell {
    bash: Child,
    commands: ChildStdin,
    codes: BufReader<ChildStdout>,
    /// The output of each command, in a file of its own: a command that continues does not keep a pipe open.
    outputs: TempDir,
    step_count: usize,
    folder: PathBuf,
    /// Its end tells the watchdog that the session is over.
    _session: Sender<()>,
}

impl Shell {
    fn start(guide: &Guide<'_>) -> Shell {
        let mut search = OsString::from(guide.programs);
        search.push(":");
        search.push(std::env::var_os("PATH").unwrap_or_default());
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc"]).current_dir(guide.folder).process_group(0);
        bash.env("PATH", search).env("HOME", guide.folder.join("home")).env("LC_ALL", "C");
        bash.env("TERRACE_STORE", guide.folder.join("store")).env_remove("XDG_DATA_HOME").env_remove("TERRACE_LOG");
        let mut bash = bash.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts bash");
        let commands = bash.stdin.take().expect("the shell has an input");
        let codes = BufReader::new(bash.stdout.take().expect("the shell has an output"));
        let (session, ended) = mpsc::channel();
        let group = Pid::from_child(&bash);
        thread::spawn(move || {
            // The shell is not reaped before the session's end is told, so no other process has its number.
            if ended.recv_timeout(MAX_SESSION_TIME) == Err(RecvTimeoutError::Timeout) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        });
        let outputs = tempfile::tempdir().expect("makes a folder");
        Shell { bash, commands, codes, outputs, step_count: 0, folder: guide.folder.to_owned(), _session: session }
    }

    /// Runs a command. Returns its exit code and its output.
    fn run(&mut self, step: &Step<'_>) -> (i32, String) {
        self.step_count += 1;
        let output = self.outputs.path().join(self.step_count.to_string());
        let script = format!("{{\n{}\n}} > '{}' 2>&1 < /dev/null\necho $?\n", step.command, output.display());
        let mut code = String::new();
        let sent = self.commands.write_all(script.as_bytes()).and_then(|()| self.codes.read_line(&mut code));
        let read = || fs::read(&output).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let code: Option<i32> = code.trim().parse().ok();
        let limit = MAX_SESSION_TIME.as_secs();
        assert!(code.is_some(), "{}: the shell ended, or took {limit} s ({sent:?}):\n{}", step.command, read());
        let started = Instant::now();
        while step.continues() && !step.is_shown_by(&read()) && started.elapsed() < MAX_START_TIME {
            thread::sleep(Duration::from_millis(20));
        }
        (code.unwrap_or(-1), read())
    }

    fn unmount_all(&self) -> io::Result<()> {
        let mounts = fs::read_to_string("/proc/mounts")?;
        for at in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
            if Path::new(at).starts_with(&self.folder) {
                Command::new("umount").args(["-l", at]).status()?;
            }
        }
        Ok(())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Ignoring errors is safe: what remains is in a temporary directory, and the test has its result.
        let _ = kill_process_group(Pid::from_child(&self.bash), Signal::KILL);
        let _ = self.bash.wait();
        let _ = self.unmount_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step<'a>(command: &'a str, shown: &'a str) -> Step<'a> {
        Step { command, shown }
    }

    #[test]
    fn counts_are_compared_and_sizes_are_not() {
        let shown = step("terrace put a b", "2 objects written (2.30 MiB), 0 failed\n");
        assert!(!shown.is_shown_by("2 objects written (1.9 KiB), 0 failed\n"), "the unit is compared");
        assert!(shown.is_shown_by("2 objects written (1.9 MiB), 0 failed\n 7 of a table\n"));
        assert!(!shown.is_shown_by("3 objects written (2.30 MiB), 0 failed\n"));
        assert!(!shown.is_shown_by(""));
        assert!(step("terrace status", "a\n...\n").is_shown_by("b\n"));
        assert!(step("terrace check # exits with 1", "").fails() && step("terrace check", "terrace: none\n").fails());
        assert!(step("terrace serve 9p &   # until Ctrl-C", "").continues() && !step("a && b", "").continues());
    }

    #[test]
    fn sessions_files_and_paths_are_found() {
        let text = "x\n```console fuse\n$ a\none\ntwo\n$ b\n```\ny\n```toml f.toml\nkey\n```\n";
        let blocks = blocks(text);
        let steps: Vec<(&str, &str)> = blocks[0].steps().map(|step| (step.command, step.shown)).collect();
        assert_eq!((&blocks[0].words[..], steps), (&["console", "fuse"][..], vec![("a", "one\ntwo"), ("b", "")]));
        assert_eq!((&blocks[1].words[..], blocks[1].text), (&["toml", "f.toml"][..], "key\n"));
        assert_eq!(replace_words("/data/a x/data/b '/data/c'", "/data/", "/t/"), "/t/a x/data/b '/t/c'");
    }
}
