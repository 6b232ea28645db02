//! Commands of chance, and what each is expected to do.

use std::path::PathBuf;

use super::model::{Change, LANE_COUNT, Loss, Model};
use super::place::Place;
use super::versions::{Version, shrinks};
use terrace_testkit::Random;

/// Folders of a lane: what is in `plain` is held as ordinary files, too.
const ALL_FOLDERS: [&str; 2] = ["frames", "plain"];
const KEY_COUNT: u64 = 4;

/// A command, and what it does.
pub struct Step {
    pub words: Vec<String>,
    pub input: Option<PathBuf>,
    /// The lane whose keys it changes or reads; none for what looks at all.
    pub lane: Option<usize>,
    pub changes: Vec<Change>,
    /// Up to which loss the changes hold once it has returned.
    pub holds: Loss,
    /// The exit codes that it may have.
    pub codes: &'static [i32],
    pub effect: Effect,
    pub shows: Shows,
}

/// The other effects of a command.
#[derive(Clone, Debug)]
pub enum Effect {
    Nothing,
    /// All that was there before is safe.
    Syncs,
    /// All that was there before has its replicas again.
    Repairs,
    /// Versions may have fewer replicas than asked for, if it says so.
    Thins,
}

/// Where the bytes are that a command has read, and which these are.
#[derive(Clone, Debug)]
pub enum Shows {
    Nothing,
    /// A version, from a byte up to another.
    Stdout(u64, u64, u64),
    File(String, u64),
}

impl Step {
    fn new(words: &[&str]) -> Step {
        Step {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            input: None,
            lane: None,
            changes: Vec::new(),
            holds: Loss::Processes,
            codes: &[0],
            effect: Effect::Nothing,
            shows: Shows::Nothing,
        }
    }

    /// Where a move leaves fewer replicas than asked for, a put at the same time may say so.
    pub fn may_be_thinned(&mut self) {
        if self.is_put() {
            self.codes = &[0, 1];
        }
    }

    /// Whether the command says by this exit code that what it put has fewer replicas than asked for.
    pub fn may_lack(&self, code: Option<i32>) -> bool {
        self.is_put() && code == Some(1)
    }

    fn is_put(&self) -> bool {
        self.words.first().is_some_and(|word| word == "put")
    }
}

/// Puts together steps, and numbers the versions that they put.
pub struct Chooser {
    next_version: u64,
    outputs: u64,
}

impl Chooser {
    pub fn new() -> Chooser {
        Chooser { next_version: 1, outputs: 0 }
    }

    /// A command that changes or reads keys of a lane.
    pub fn of_lane(&mut self, lane: usize, random: &mut Random, place: &mut Place, model: &mut Model) -> Step {
        let mut step = match random.below(20) {
            0..=7 => self.put(lane, random, place, model),
            8 => self.put_stdin(lane, random, place, model),
            9 | 10 => self.put_tree(lane, random, place, model),
            11 => rename(lane, random, model),
            12 => copy(lane, random, model),
            13 | 14 => remove(lane, random, model),
            15 => remove_all(lane, random, model),
            16 | 17 => self.read(lane, random, model),
            18 => stage(lane, random, model),
            _ => evict(lane, random, model),
        };
        step.lane = Some(lane);
        step
    }

    /// A command that looks at, or cares for, all that there is.
    pub fn of_all(&mut self, random: &mut Random) -> Step {
        match random.below(16) {
            0..=3 => Step { effect: Effect::Syncs, ..Step::new(&["sync"]) },
            4 | 5 => Step::new(&["scrub"]),
            6 => Step { effect: Effect::Repairs, ..Step::new(&["repair"]) },
            7 => Step::new(&["status"]),
            8 => Step::new(&["hot"]),
            9 => Step::new(&["tune"]),
            10 => Step::new(&["tune", "--all"]),
            11 => Step::new(&["scrub", "--subset", "1/3"]),
            12 => drain("ram"),
            13 => drain("disk"),
            14 => drain("archive"),
            _ => Step::new(&["ls", "-l"]),
        }
    }

    fn version(&mut self, random: &mut Random, model: &mut Model, small: bool) -> (u64, u64) {
        let version = self.next_version;
        self.next_version += 1;
        let most = *random.pick(if small { &[40, 5_000, 20_000] } else { &[100, 5_000, 80_000, 300_000, 2_500_000] });
        let length = if random.once_in(20) { 0 } else { 8 + random.below(most) };
        let known = Version { length, is_stdin: false, replicated: false, thin: false, thinned: false };
        model.versions.insert(version, known);
        (version, length)
    }

    fn put(&mut self, lane: usize, random: &mut Random, place: &mut Place, model: &mut Model) -> Step {
        let (version, length) = self.version(random, model, false);
        let source = place.source(&format!("{version}"), version, length);
        let key = key(lane, random);
        let mut step = Step::new(&["put", &format!("files/{version}"), &key]);
        debug_assert!(source.exists());
        acknowledge(&mut step, random, &[version], model);
        let flavour: &[&str] = match random.below(8) {
            0 => &["--replicas", "1"],
            1 => &["--replicas", "3"],
            2 => &["--min-storage"],
            3 => &["--require", "max_durability=2"],
            4 => &["--weights", "archival"],
            _ => &[],
        };
        step.words.extend(flavour.iter().map(|word| (*word).to_owned()));
        if matches!(flavour, ["--replicas", "1"] | ["--min-storage"])
            && let Some(version) = model.versions.get_mut(&version)
        {
            version.thin = true;
        }
        if flavour.first() == Some(&"--require") && !step.words.iter().any(|word| word == "--ack") {
            // It returns when all is durable.
            step.holds = Loss::Power;
        }
        step.changes.push(Change::Put(key, version));
        step
    }

    /// A put of this key and length, of bytes that do not shrink.
    pub fn put_of_length(&mut self, key: &str, length: u64, place: &mut Place, model: &mut Model) -> (Step, u64) {
        while shrinks(self.next_version) {
            self.next_version += 1;
        }
        let version = self.next_version;
        self.next_version += 1;
        model
            .versions
            .insert(version, Version { length, is_stdin: false, replicated: true, thin: false, thinned: false });
        place.source(&format!("{version}"), version, length);
        let step = Step::new(&["put", &format!("files/{version}"), key]);
        let changes = vec![Change::Put(key.to_owned(), version)];
        (Step { lane: Some(0), changes, holds: Loss::Domains, ..step }, version)
    }

    fn put_stdin(&mut self, lane: usize, random: &mut Random, place: &mut Place, model: &mut Model) -> Step {
        let (version, _) = self.version(random, model, false);
        // No other has this length, by which it is known.
        let length = 10_000_000 + version;
        let length = if random.once_in(3) { length % 1_000_000 + 4_000_000 } else { length % 1_000_000 + 100_000 };
        model
            .versions
            .insert(version, Version { length, is_stdin: true, replicated: false, thin: false, thinned: false });
        let input = place.source(&format!("{version}"), version, length);
        let key = key(lane, random);
        let mut step = Step::new(&["put", "-", &key]);
        acknowledge(&mut step, random, &[version], model);
        step.changes.push(Change::Put(key, version));
        Step { input: Some(input), ..step }
    }

    fn put_tree(&mut self, lane: usize, random: &mut Random, place: &mut Place, model: &mut Model) -> Step {
        let number = self.next_version;
        let below = format!("l{lane}/{}/d{}", random.pick(&ALL_FOLDERS), random.below(2));
        let mut step = Step::new(&["put", &format!("files/tree-{number}"), &below]);
        let mut versions = Vec::new();
        for file in 0..2 + random.below(4) {
            let (version, length) = self.version(random, model, true);
            place.source(&format!("tree-{number}/f{file}"), version, length);
            step.changes.push(Change::Put(format!("{below}/f{file}"), version));
            versions.push(version);
        }
        acknowledge(&mut step, random, &versions, model);
        step
    }

    fn read(&mut self, lane: usize, random: &mut Random, model: &Model) -> Step {
        let Some((key, version)) = present(lane, random, model) else {
            return Step { codes: &[1], ..Step::new(&["get", &format!("l{lane}/frames/missing"), "out/missing"]) };
        };
        let length = model.versions[&version].length;
        match random.below(5) {
            0 => {
                self.outputs += 1;
                let out = format!("out/{}", self.outputs);
                Step { shows: Shows::File(out.clone(), version), ..Step::new(&["get", &key, &out]) }
            }
            1 => Step { shows: Shows::Stdout(version, 0, length), ..Step::new(&["cat", &key]) },
            2 => {
                let start = random.below(length + 1);
                let end = start + random.below(length - start + 1);
                let range = format!("{start}-{end}");
                Step { shows: Shows::Stdout(version, start, end), ..Step::new(&["cat", &key, "--range", &range]) }
            }
            3 => Step::new(&["locate", &key]),
            _ => Step::new(&["stat", &key]),
        }
    }
}

/// Names an acknowledgement, or leaves that to the command, and notes what it stands for.
fn acknowledge(step: &mut Step, random: &mut Random, versions: &[u64], model: &mut Model) {
    let (word, holds) = match random.below(6) {
        0 | 1 => ("placed", Loss::Processes),
        2 => ("replicated", Loss::Domains),
        3 => ("durable", Loss::Power),
        _ => ("", Loss::Domains),
    };
    if !word.is_empty() {
        step.words.extend(["--ack".to_owned(), word.to_owned()]);
    }
    step.holds = holds;
    if holds >= Loss::Domains {
        for version in versions {
            if let Some(version) = model.versions.get_mut(version) {
                version.replicated = true;
            }
        }
    }
}

fn key(lane: usize, random: &mut Random) -> String {
    format!("l{lane}/{}/k{}", random.pick(&ALL_FOLDERS), random.below(KEY_COUNT))
}

/// A key of a lane that names something, and which version.
fn present(lane: usize, random: &mut Random, model: &Model) -> Option<(String, u64)> {
    let now = model.now(lane);
    let at = random.below(now.len().max(1) as u64) as usize;
    now.iter().nth(at).map(|(key, version)| (key.clone(), *version))
}

fn rename(lane: usize, random: &mut Random, model: &Model) -> Step {
    let to = key(lane, random);
    match present(lane, random, model) {
        Some((from, _)) if !random.once_in(8) => {
            let step = Step::new(&["mv", &from, &to]);
            Step { changes: vec![Change::Rename(from, to)], ..step }
        }
        _ => Step { codes: &[1], ..Step::new(&["mv", &format!("l{lane}/frames/missing"), &to]) },
    }
}

fn copy(lane: usize, random: &mut Random, model: &Model) -> Step {
    let to = key(lane, random);
    match present(lane, random, model) {
        Some((from, _)) => {
            let step = Step::new(&["cp", &from, &to]);
            Step { changes: vec![Change::Copy(from, to)], ..step }
        }
        None => Step { codes: &[1], ..Step::new(&["cp", &format!("l{lane}/frames/missing"), &to]) },
    }
}

fn remove(lane: usize, random: &mut Random, model: &Model) -> Step {
    match present(lane, random, model) {
        Some((key, _)) => Step { changes: vec![Change::Remove(key.clone())], ..Step::new(&["rm", &key]) },
        None => Step { codes: &[1], ..Step::new(&["rm", &format!("l{lane}/frames/missing")]) },
    }
}

fn remove_all(lane: usize, random: &mut Random, model: &Model) -> Step {
    let below = format!("l{lane}/{}/d{}", random.pick(&ALL_FOLDERS), random.below(2));
    let folder = format!("{below}/");
    let keys: Vec<String> = model.now(lane).keys().filter(|key| key.starts_with(&folder)).cloned().collect();
    let codes: &[i32] = if keys.is_empty() { &[1] } else { &[0] };
    let step = Step::new(&["rm", "-r", &below]);
    Step { changes: keys.into_iter().map(Change::Remove).collect(), codes, ..step }
}

fn stage(lane: usize, random: &mut Random, model: &Model) -> Step {
    let tier = *random.pick(&["ram", "disk", "archive"]);
    match present(lane, random, model) {
        Some((key, _)) => Step { codes: &[0, 1], ..Step::new(&["stage", &key, "--tier", tier]) },
        None => Step { codes: &[1], ..Step::new(&["stage", &format!("l{lane}/frames/missing"), "--tier", tier]) },
    }
}

fn drain(tier: &str) -> Step {
    Step { codes: &[0, 1], effect: Effect::Thins, ..Step::new(&["drain", tier]) }
}

fn evict(lane: usize, random: &mut Random, model: &Model) -> Step {
    let tier = *random.pick(&["ram", "ram", "disk", "archive"]);
    match present(lane, random, model) {
        Some((key, _)) => Step { codes: &[0, 1], effect: Effect::Thins, ..Step::new(&["evict", &key, "--tier", tier]) },
        None => Step { codes: &[1], ..Step::new(&["evict", &format!("l{lane}/frames/missing"), "--tier", tier]) },
    }
}

/// All lanes, in some order.
pub fn lanes(random: &mut Random) -> Vec<usize> {
    let first = random.below(LANE_COUNT as u64) as usize;
    let count = if random.once_in(3) { LANE_COUNT } else { 1 };
    (first..first + count).map(|lane| lane % LANE_COUNT).collect()
}
