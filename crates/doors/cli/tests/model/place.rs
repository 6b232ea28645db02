//! A store in a folder, and real processes of the binary on it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tempfile::TempDir;
use terrace_testkit::Random;
use terrace_testkit::disk::{CutLosses, DiskRecord, RecordedDisk};

use super::versions::bytes_of;

/// A command that takes longer hangs.
const MAX_COMMAND_TIME: Duration = Duration::from_secs(120);
/// Versions are told by their files' times: this, and their number in seconds.
const EPOCH_TIME: Duration = Duration::from_secs(1_000_000_000);

/// The shape of a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// Memory is so small that it is evicted from all the time.
    pub tight: bool,
    /// Log files and stages are so small that snapshots and stages are frequent.
    pub small: bool,
    /// There are memory and one small disk only.
    pub scarce: bool,
}

pub struct Place {
    folder: TempDir,
    /// Where all but memory lies: a folder, or a recorded disk.
    root: PathBuf,
    disk: Option<RecordedDisk>,
    pub shape: Shape,
    boot: u64,
    runs: u64,
    /// All that was done, as lines for a shell.
    pub trace: Vec<String>,
}

/// A process that runs.
pub struct Run {
    child: Child,
    started: Instant,
    pub fate: Fate,
    number: u64,
    trace: usize,
}

/// How a process is to end.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    Lives,
    /// By `kill -9`, after a while.
    Killed(Duration),
    /// At a fail point, should it get there.
    FailPoint(String),
}

/// The results of a process.
pub struct Ran {
    /// The exit code; none where it was killed.
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ran {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.out).unwrap_or_default()
    }
}

impl Place {
    pub fn new(shape: Shape, disk: Option<RecordedDisk>) -> Place {
        let memory = Path::new("/dev/shm");
        let memory = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new().prefix("terrace-model-").tempdir_in(memory).unwrap();
        let root = match &disk {
            Some(disk) if !shape.scarce => disk.path(),
            _ => folder.path().to_owned(),
        };
        let mut place = Place { folder, root, disk, shape, boot: 1, runs: 0, trace: Vec::new() };
        for folder in ["files", "out", "runs"] {
            fs::create_dir(place.path(folder)).unwrap();
        }
        fs::write(place.path("terrace.toml"), place.config()).unwrap();
        let made = place.run(&["init", "--config", "terrace.toml"]);
        assert_eq!(made.code, Some(0), "{}", made.err);
        place
    }

    fn config(&self) -> String {
        let (at, memory_at) = (self.root.display(), self.folder.path().display());
        let memory = if self.shape.tight { "capacity = '3MiB'\nhigh_watermark = 0.5" } else { "" };
        if let (true, Some(disk)) = (self.shape.scarce, &self.disk) {
            let disk = disk.path().join("a");
            return format!(
                "[store]\nreplicas = {{ min = 1, max = 5, default = 2 }}\n\
                 [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{memory_at}/ram']\npersistent = false\n\
                 capacity = '8MiB'\n\
                 [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{disk}']\n",
                disk = disk.display()
            );
        }
        let rules =
            (0..super::model::LANE_COUNT).map(|lane| format!("[[rule]]\nprefix = 'l{lane}/plain'\nlayout = 'plain'\n"));
        format!(
            "[store]\nreplicas = {{ min = 1, max = 5, default = 2 }}\n{rules}\
             [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{memory_at}/ram']\npersistent = false\n{memory}\n\
             [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{at}/a', '{at}/b']\n\
             [[tier]]\nname = 'archive'\nkind = 'directory'\ntargets = ['{at}/c']\n",
            rules = rules.collect::<String>()
        )
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The store's folder, or a target's.
    pub fn root(&self, name: &str) -> PathBuf {
        if name == "ram" { self.path(name) } else { self.root.join(name) }
    }

    pub fn has_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// How many writes and flushes have reached the disk, where it is recorded.
    pub fn position(&self) -> Result<usize, String> {
        self.disk.as_ref().map_or(Ok(0), RecordedDisk::position).map_err(|e| e.to_string())
    }

    pub fn power_off(&mut self) -> Result<DiskRecord, String> {
        self.disk.take().ok_or("there is no disk")?.power_off().map_err(|e| e.to_string())
    }

    /// Goes on with what a cut at a position may have left.
    pub fn restart_at(&mut self, record: DiskRecord, at: usize, random: &mut Random) -> Result<CutLosses, String> {
        let (disk, losses) = record.restart_at(at, random).map_err(|e| e.to_string())?;
        self.disk = Some(disk);
        Ok(losses)
    }

    /// Copies the disk's contents for the analysis of a failure.
    pub fn keep_image(&mut self) {
        let to = self.path("disk");
        let _ = Command::new("cp").arg("-a").arg(&self.root).arg(to).status();
    }

    /// Keeps the folder for the analysis of a failure.
    pub fn keep(&mut self) -> &Path {
        self.folder.disable_cleanup(true);
        let script = self.trace.join("\n");
        let _ = fs::write(self.folder.path().join("trace.sh"), script);
        self.folder.path()
    }

    /// Notes something that is no command.
    pub fn note(&mut self, text: impl Into<String>) {
        self.trace.push(format!("# {}", text.into()));
    }

    /// The next commands run in another boot of the machine, in which memory is empty.
    pub fn reboot(&mut self) {
        self.boot += 1;
        let _ = fs::remove_dir_all(self.path("ram"));
        self.trace.push(format!("export TERRACE_BOOT_ID=boot-{}", self.boot));
    }

    /// A file to be put, with a time that tells its version.
    pub fn source(&mut self, name: &str, version: u64, length: u64) -> PathBuf {
        let path = self.path("files").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes_of(version, length)).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(Place::time_of(version)).unwrap();
        path
    }

    /// The time of a version's file.
    pub fn time_of(version: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + EPOCH_TIME + Duration::from_secs(version)
    }

    /// The version that a time in nanoseconds tells.
    pub fn version_of(time: i64) -> Option<u64> {
        let whole = time.checked_rem(1_000_000_000) == Some(0);
        let seconds = u64::try_from(time / 1_000_000_000).ok()?.checked_sub(EPOCH_TIME.as_secs())?;
        (whole && seconds < 1_000_000).then_some(seconds)
    }

    pub fn start(&mut self, words: &[String], input: Option<&Path>, fate: Fate) -> Run {
        self.runs += 1;
        let number = self.runs;
        let stream = |kind: &str| File::create(self.path("runs").join(format!("{number}.{kind}"))).unwrap();
        let mut settings = BTreeMap::from([("TERRACE_BOOT_ID", format!("boot-{}", self.boot))]);
        if self.shape.small {
            settings.insert("TERRACE_LOG_FILE", "3000".into());
            settings.insert("TERRACE_STAGE_BYTES", "1000000".into());
        }
        if self.shape.scarce {
            // A disk that is full on purpose is waited for in each round.
            settings.insert("TERRACE_NO_SPACE_MILLISECONDS", "5000".into());
        }
        if let Fate::FailPoint(point) = &fate {
            settings.insert("TERRACE_FAIL_POINT", point.clone());
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.args(words).current_dir(self.folder.path()).envs(&settings);
        command.env("HOME", self.path("home")).env("TERRACE_STORE", self.root("store"));
        command.env_remove("XDG_DATA_HOME").env_remove("TERRACE_LOG").env("RUST_BACKTRACE", "1");
        command.stdin(input.map_or_else(Stdio::null, |path| File::open(path).unwrap().into()));
        command.stdout(stream("out")).stderr(stream("err"));
        let child = command.spawn().unwrap();
        let from = input.map_or_else(String::new, |path| format!(" < {}", path.display()));
        let settings: String = settings.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
        self.trace.push(format!("{settings}terrace {}{from}", words.join(" ")));
        Run { child, started: Instant::now(), fate, number, trace: self.trace.len() - 1 }
    }

    /// Waits for processes to end, as they are to.
    pub fn wait(&mut self, runs: Vec<Run>) -> Vec<Ran> {
        let mut left: Vec<(Run, Option<std::process::ExitStatus>)> = runs.into_iter().map(|run| (run, None)).collect();
        while left.iter().any(|(_, status)| status.is_none()) {
            for (run, status) in left.iter_mut().filter(|(_, status)| status.is_none()) {
                *status = run.child.try_wait().unwrap();
                let elapsed = run.started.elapsed();
                if status.is_none()
                    && (matches!(run.fate, Fate::Killed(after) if elapsed > after) || elapsed > MAX_COMMAND_TIME)
                {
                    run.child.kill().unwrap();
                    *status = Some(run.child.wait().unwrap());
                    let text = &self.trace[run.trace];
                    assert!(elapsed < MAX_COMMAND_TIME, "it hangs: {text}");
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        left.into_iter().map(|(run, status)| self.ran(run, status.unwrap())).collect()
    }

    fn ran(&mut self, run: Run, status: std::process::ExitStatus) -> Ran {
        let read = |kind: &str| {
            let path = self.path("runs").join(format!("{}.{kind}", run.number));
            let bytes = fs::read(&path).unwrap();
            fs::remove_file(path).unwrap();
            bytes
        };
        let ran =
            Ran { code: status.code(), out: read("out"), err: String::from_utf8_lossy(&read("err")).into_owned() };
        let end = match (ran.code, &run.fate) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Fate::Killed(after)) => format!("killed after {after:?}"),
            (None, Fate::FailPoint(_)) => "died at the fail point".into(),
            (None, Fate::Lives) => format!("ended by signal {:?}", status.signal()),
        };
        let said: String = ran.err.lines().take(2).collect::<Vec<_>>().join(" / ").chars().take(300).collect();
        let line = &mut self.trace[run.trace];
        *line = format!("{line}  # {} ms, {end} {said}", run.started.elapsed().as_millis());
        ran
    }

    /// Runs a command to its end.
    pub fn run(&mut self, words: &[&str]) -> Ran {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let run = self.start(&words, None, Fate::Lives);
        self.wait(vec![run]).remove(0)
    }
}

fn quote(word: &str) -> String {
    if word.is_empty() { "''".into() } else { word.to_owned() }
}
