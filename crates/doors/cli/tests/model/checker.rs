//! Rounds of commands, some of them killed, and checks of the results.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::commands::{Chooser, Effect, Shows, Step, lanes};
use super::model::{Change, Loss, Model, World};
use super::place::{Fate, Place, Ran, Shape};
use super::power::Moment;
use terrace_testkit::Random;
use terrace_testkit::disk::RecordedDisk;

use super::versions::bytes_of;

/// Where processes may be told to die: points that many commands pass, and those of some.
const FAIL_POINTS: [&str; 6] =
    ["opening", "commit:logged", "mover:copied", "mover:committed", "plain:written", "plain:committed"];
const PUT_POINTS: [&str; 4] = ["put:written", "put:committed", "put:staged", "segment:torn"];
const SYNC_POINTS: [&str; 6] =
    ["sync:frames", "sync:log", "snapshot:written", "snapshot:named", "snapshot:trimmed", "reap:freed"];

/// The counts of everything that was tried.
#[derive(Default, Debug)]
pub struct Counts {
    pub commands: u64,
    pub kills: u64,
    pub fail_points: BTreeMap<String, u64>,
    pub faults: BTreeMap<String, u64>,
}

impl Counts {
    pub fn add(&mut self, other: Counts) {
        self.commands += other.commands;
        self.kills += other.kills;
        other.fail_points.into_iter().for_each(|(name, count)| *self.fail_points.entry(name).or_default() += count);
        other.faults.into_iter().for_each(|(name, count)| *self.faults.entry(name).or_default() += count);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { commands, kills, fail_points, faults } = self;
        write!(f, "{commands} commands, {kills} kills, ends at fail points {fail_points:?}, faults {faults:?}")
    }
}

pub struct Checker {
    pub place: Place,
    pub model: Model,
    pub random: Random,
    pub counts: Counts,
    pub chooser: Chooser,
    /// Of a store whose power may be cut: what was there since it was switched on.
    pub moments: Vec<Moment>,
}

impl Checker {
    pub fn new(shape: Shape, seed: u64, disk: Option<RecordedDisk>) -> Checker {
        let place = Place::new(shape, disk);
        let (model, random, chooser) = (Model::new(), Random::new(seed), Chooser::new());
        Checker { place, model, random, counts: Counts::default(), chooser, moments: Vec::new() }
    }

    /// Runs a few commands at once, and compares what is there afterwards.
    pub fn round(&mut self) -> Result<(), String> {
        let mut steps = Vec::new();
        for lane in lanes(&mut self.random) {
            steps.push(self.chooser.of_lane(lane, &mut self.random, &mut self.place, &mut self.model));
        }
        if self.model.is_vague() {
            steps = vec![self.sync_step()];
        } else if self.random.once_in(4) {
            steps.push(self.chooser.of_all(&mut self.random));
        }
        if steps.iter().any(|step| matches!(step.effect, Effect::Thins)) {
            steps.iter_mut().for_each(Step::may_be_thinned);
        }
        let kills = self.random.once_in(4);
        let fates: Vec<Fate> = steps.iter().map(|step| self.fate(kills, step)).collect();
        let from = self.place.position()?;
        let runs = steps.iter().zip(fates.iter().cloned());
        let runs = runs.map(|(step, fate)| self.place.start(&step.words, step.input.as_deref(), fate)).collect();
        let all = self.place.wait(runs);
        self.counts.commands += all.len() as u64;
        let during = self.place.has_disk().then(|| self.model_during(&steps));
        // What was synced or repaired is what was there when all began.
        for (step, _) in steps.iter().zip(&all).filter(|(_, ran)| ran.code == Some(0)) {
            match step.effect {
                Effect::Syncs => self.model.synced(),
                Effect::Repairs => self.model.note_thinned(false),
                Effect::Nothing | Effect::Thins => {}
            }
        }
        let mut killed = false;
        for ((step, ran), fate) in steps.iter().zip(&all).zip(&fates) {
            killed |= ran.code.is_none();
            self.took(step, ran, fate)?;
        }
        if let Some(during) = during {
            self.note_moment(from, during)?;
        }
        match killed || self.random.once_in(10) {
            true if self.random.once_in(3) => self.read(Loss::Processes),
            _ => self.look(Loss::Processes),
        }
    }

    /// The possible contents while commands run.
    fn model_during(&self, steps: &[Step]) -> Model {
        let mut model = self.model.clone();
        for step in steps {
            let lane = step.lane.into_iter().flat_map(|lane| step.changes.iter().map(move |change| (lane, change)));
            lane.for_each(|(lane, change)| model.apply(lane, change, None));
        }
        model
    }

    fn sync_step(&mut self) -> Step {
        loop {
            let step = self.chooser.of_all(&mut self.random);
            if matches!(step.effect, Effect::Syncs) {
                return step;
            }
        }
    }

    fn fate(&mut self, kills: bool, step: &Step) -> Fate {
        match self.random.below(4) {
            _ if !kills => Fate::Lives,
            0 => Fate::Lives,
            1 | 2 => {
                let most = *self.random.pick(&[3_000, 15_000, 50_000, 150_000]);
                Fate::Killed(Duration::from_micros(self.random.below(most)))
            }
            _ => {
                let own: &[&str] = match step.words[0].as_str() {
                    "put" => &PUT_POINTS,
                    "sync" => &SYNC_POINTS,
                    _ => &FAIL_POINTS,
                };
                let points = if self.random.once_in(2) { own } else { &FAIL_POINTS };
                let point = *self.random.pick(points);
                Fate::FailPoint(format!("{point}@{}", 1 + self.random.below(2)))
            }
        }
    }

    /// Takes in what a command has done.
    pub fn took(&mut self, step: &Step, ran: &Ran, fate: &Fate) -> Result<(), String> {
        let words = step.words.join(" ");
        if ran.err.contains("panicked") {
            return Err(format!("`{words}` panicked: {}", ran.err));
        }
        match (ran.code, fate) {
            (Some(code), _) if !step.codes.contains(&code) => {
                return Err(format!("`{words}` ended with exit code {code}: {}", ran.err));
            }
            (None, Fate::Lives) => return Err(format!("`{words}` was ended by a signal: {}", ran.err)),
            (None, Fate::FailPoint(point)) => {
                let name = point.split('@').next().unwrap_or_default();
                *self.counts.fail_points.entry(name.to_owned()).or_default() += 1;
            }
            (None, Fate::Killed(_)) => self.counts.kills += 1,
            _ => {}
        }
        if let Some(lane) = step.lane {
            let holds = ran.code.map(|_| step.holds);
            step.changes.iter().for_each(|change| self.model.apply(lane, change, holds));
        }
        self.doubt(&step.changes, ran.code.is_none());
        let says_so = || String::from_utf8_lossy(&ran.out).contains("fewer replicas than wanted");
        if step.may_lack(ran.code) || matches!(step.effect, Effect::Thins) && (ran.code.is_none() || says_so()) {
            self.model.note_thinned(true);
        }
        match &step.shows {
            Shows::Stdout(version, start, end) if ran.code == Some(0) => {
                let bytes = bytes_of(*version, self.model.versions[version].length);
                if ran.out != bytes[*start as usize..*end as usize] {
                    return Err(format!("`{words}` printed {} wrong bytes", ran.out.len()));
                }
            }
            Shows::File(path, version) if ran.code == Some(0) => self.is_version(path, *version)?,
            _ => {}
        }
        Ok(())
    }

    /// Nobody has said that what a killed command put has its replicas, nor that a copy of a plain file, which is another file, has them.
    fn doubt(&mut self, changes: &[Change], is_killed: bool) {
        let is_plain = |key: &String| key.contains("/plain/");
        for change in changes {
            let doubted = match change {
                Change::Put(_, version) if is_killed => vec![*version],
                Change::Copy(from, to) if is_plain(from) || is_plain(to) => self.model.versions_at(to),
                _ => Vec::new(),
            };
            for version in doubted {
                if let Some(version) = self.model.versions.get_mut(&version) {
                    version.replicated = false;
                }
            }
        }
    }

    pub fn is_version(&self, path: impl AsRef<Path>, version: u64) -> Result<(), String> {
        let path = self.place.path(path);
        let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        match bytes == bytes_of(version, self.model.versions[&version].length) {
            true => Ok(()),
            false => Err(format!("{} is not version {version}: {} bytes", path.display(), bytes.len())),
        }
    }

    /// Files that were read have the time of those that were put.
    fn has_its_time(&self, path: &Path, version: u64) -> Result<(), String> {
        let modified = fs::metadata(self.place.path(path)).and_then(|metadata| metadata.modified());
        let is_right = modified.is_ok_and(|time| time == Place::time_of(version));
        match is_right || self.model.versions[&version].is_stdin {
            true => Ok(()),
            false => Err(format!("{} does not have the time of version {version}", path.display())),
        }
    }

    /// Compares what is listed with what may be there after a loss.
    pub fn look(&mut self, loss: Loss) -> Result<(), String> {
        let ran = self.place.run(&["ls", "--json"]);
        let found = self.listed(&ran)?;
        self.model.observe(loss, &found)
    }

    /// The versions that `ls --json` lists.
    pub fn listed(&self, ran: &Ran) -> Result<World, String> {
        if ran.code != Some(0) {
            return Err(format!("`ls` failed: {}", ran.err));
        }
        let list = ran.json();
        let list = list.as_array().ok_or("`ls --json` printed no list")?;
        let version_of = |entry: &serde_json::Value| {
            let length = entry["length"].as_u64()?;
            let by_time = entry["mtime"].as_i64().and_then(Place::version_of);
            let of_stdin =
                || self.model.versions.iter().find(|(_, v)| v.is_stdin && v.length == length).map(|(n, _)| *n);
            by_time.or_else(of_stdin).filter(|version| self.model.versions[version].length == length)
        };
        let name = |entry: &serde_json::Value| {
            let version = version_of(entry).ok_or_else(|| format!("{entry} is no version that was put"))?;
            Ok((entry["key"].as_str().unwrap_or_default().to_owned(), version))
        };
        list.iter().map(name).collect()
    }

    /// The same, and reads all of it.
    pub fn read(&mut self, loss: Loss) -> Result<(), String> {
        self.look(loss)?;
        let (ran, missing) = self.read_all()?;
        match missing.is_empty() && (ran.code == Some(0) || self.model.all().is_empty()) {
            true => Ok(()),
            false => Err(format!("{missing:?} cannot be read: {}", ran.err)),
        }
    }

    /// Reads everything and returns the keys without a file. No file may have wrong bytes.
    pub fn read_all(&mut self) -> Result<(Ran, Vec<String>), String> {
        let out = self.place.path("out");
        fs::remove_dir_all(&out).map_err(|e| e.to_string())?;
        fs::create_dir(&out).map_err(|e| e.to_string())?;
        let all = self.model.all();
        let ran = self.place.run(&["get", "", "out/all"]);
        self.counts.commands += 1;
        let mut missing = Vec::new();
        for (key, version) in &all {
            let path = Path::new("out/all").join(key);
            match self.place.path(&path).exists() {
                true => {
                    self.is_version(&path, *version)?;
                    self.has_its_time(&path, *version)?;
                }
                false => missing.push(key.clone()),
            }
        }
        // Where there is nothing to get, that is an error.
        if !all.is_empty() && missing.is_empty() != (ran.code == Some(0)) {
            return Err(format!("exit code {:?}, and {missing:?} were not read: {}", ran.code, ran.err));
        }
        Ok((ran, missing))
    }
}
