//! Rules that change again and again, beside commands, some of them killed. In the end each object has as many replicas as the rules want, on
//! the tiers that they allow.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use terrace_testkit::Random;

use super::place::{Fate, Place, Run, Shape};
use super::versions::bytes_of;

/// Commands between two looks at all objects.
pub const COMMANDS_PER_STORE: u64 = 40;
const ALL_KEYS: [&str; 9] = ["a/1", "a/2", "a/x/1", "a/x/2", "b/1", "b/2", "c/y/1", "e/1", "g"];
const ALL_PREFIXES: [&str; 4] = ["a/x", "a", "b", "c"];
/// Tiers that a rule may allow, and the most replicas that fit there.
const ALL_TIERS: [(&str, u64); 5] = [
    ("", 4),
    ("tiers = ['disk']", 2),
    ("tiers = ['ram', 'disk']", 3),
    ("tiers = ['disk', 'archive']", 3),
    ("tiers = ['ram', 'disk']\nvolatile = true", 3),
];
const USUAL_REPLICAS: u64 = 2;
const ALL_LENGTHS: [u64; 4] = [100, 70_000, 300_000, 1_200_000];

struct Rule {
    prefix: &'static str,
    replicas: u64,
    tiers: &'static str,
}

#[derive(Clone)]
struct Stored {
    version: u64,
    length: u64,
    /// Copies of one write share frames, which have as many replicas as any of them has ever wanted.
    is_shared: bool,
}

struct Rules {
    place: Place,
    random: Random,
    /// `terrace.toml` before and behind its rules.
    around: (String, String),
    rules: Vec<Rule>,
    objects: BTreeMap<String, Stored>,
    versions: u64,
    running: Vec<Run>,
}

/// Runs commands on a store of its own.
///
/// # Panics
/// If an object is not as the rules want.
pub fn check(seed: u64) {
    let mut place = Place::new(Shape::default(), None);
    let text = fs::read_to_string(place.root("store").join("terrace.toml")).unwrap();
    let before = text[..text.find("[[rule]]").unwrap()].to_owned();
    let after = text[text.find("[[tier]]").unwrap()..].to_owned();
    place.note(format!("seed {seed}"));
    let mut rules = Rules {
        place,
        random: Random::new(seed),
        around: (before, after),
        rules: Vec::new(),
        objects: BTreeMap::new(),
        versions: 0,
        running: Vec::new(),
    };
    rules.change_rules();
    for key in ALL_KEYS {
        rules.put(key.to_owned());
    }
    for _ in 0..COMMANDS_PER_STORE {
        rules.do_something();
    }
    let wrong = rules.find_wrong();
    if !wrong.is_empty() {
        let folder = rules.place.keep().display().to_string();
        panic!("seed {seed}: {}\nthe store and trace.sh are in {folder}", wrong.join("\n"));
    }
}

impl Rules {
    fn do_something(&mut self) {
        match self.random.below(100) {
            0..30 => self.change_rules(),
            30..45 => {
                let key = self.pick_key();
                self.put(key);
            }
            45..60 => self.rename_or_copy(),
            60..75 => {
                let after = Duration::from_millis(20 + self.random.below(300));
                let word = *self.random.pick(&["sync", "status", "health", "ls"]);
                let run = self.place.start(&[word.to_owned()], None, Fate::Killed(after));
                self.place.wait(vec![run]);
            }
            75..88 => {
                let words = *self.random.pick(&["sync", "scrub", "tune --all"]);
                let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
                let run = self.place.start(&words, None, Fate::Lives);
                self.running.push(run);
            }
            _ => drop(self.place.run(&["sync"])),
        }
    }

    fn pick_key(&mut self) -> String {
        (*self.random.pick(&ALL_KEYS)).to_owned()
    }

    fn change_rules(&mut self) {
        self.rules.clear();
        for prefix in ALL_PREFIXES {
            if self.random.once_in(2) {
                let (tiers, most) = *self.random.pick(&ALL_TIERS);
                self.rules.push(Rule { prefix, replicas: 1 + self.random.below(most), tiers });
            }
        }
        let rules = self.rules.iter().map(|rule| {
            format!("[[rule]]\nprefix = '{}'\nreplicas = {}\n{}\n\n", rule.prefix, rule.replicas, rule.tiers)
        });
        let text = format!("{}{}{}", self.around.0, rules.collect::<String>(), self.around.1);
        let file = self.place.root("store").join("terrace.toml");
        let new = self.place.path("rules");
        fs::write(&new, text).unwrap();
        // In one step, as an editor does it.
        fs::copy(&new, file.with_extension("new")).unwrap();
        fs::rename(file.with_extension("new"), file).unwrap();
        let said: Vec<String> =
            self.rules.iter().map(|rule| format!("{} {} {}", rule.prefix, rule.replicas, rule.tiers)).collect();
        self.place.note(format!("rules: {}", said.join(", ")));
    }

    fn put(&mut self, key: String) {
        self.versions += 1;
        let length = *self.random.pick(&ALL_LENGTHS);
        let file = self.place.source("file", self.versions, length);
        let done = self.place.run(&["put", &file.display().to_string(), &key]);
        assert_eq!(done.code, Some(0), "put {key}: {}", done.err);
        self.objects.insert(key, Stored { version: self.versions, length, is_shared: false });
    }

    fn rename_or_copy(&mut self) {
        let from = self.pick_key();
        let to = self.pick_key();
        if from == to || !self.objects.contains_key(&from) {
            return;
        }
        let is_copy = self.random.once_in(2);
        let done = self.place.run(&[if is_copy { "cp" } else { "mv" }, &from, &to]);
        assert_eq!(done.code, Some(0), "{from} to {to}: {}", done.err);
        let mut object = self.objects[&from].clone();
        object.is_shared |= is_copy;
        match is_copy {
            true => self.objects.insert(from, object.clone()),
            false => self.objects.remove(&from),
        };
        self.objects.insert(to, object);
    }

    /// Returns what is not as the rules want, once all commands have ended and a sync has succeeded.
    fn find_wrong(&mut self) -> Vec<String> {
        let running = std::mem::take(&mut self.running);
        self.place.wait(running);
        let synced = self.place.run(&["sync"]);
        let mut wrong = Vec::new();
        if synced.code != Some(0) {
            wrong.push(synced.err);
        }
        for (key, object) in self.objects.clone() {
            let rule = self.rules.iter().find(|rule| key.starts_with(&format!("{}/", rule.prefix)));
            let (wanted, tiers) = rule.map_or((USUAL_REPLICAS, ""), |rule| (rule.replicas, rule.tiers));
            for extent in self.place.run(&["locate", &key, "--json"]).json()["extents"].as_array().unwrap() {
                let replicas = extent["replicas"].as_array().unwrap();
                let on: Vec<&str> = replicas.iter().map(|replica| replica["tier"].as_str().unwrap()).collect();
                let count = on.len() as u64;
                let is_allowed = !tiers.contains("tiers") || on.iter().all(|tier| tiers.contains(&format!("'{tier}'")));
                let outlives = tiers.contains("volatile") || on.iter().any(|tier| *tier != "ram");
                let is_enough = count == wanted || object.is_shared && count > wanted;
                if !is_allowed || !outlives || !is_enough {
                    wrong.push(format!("{key}, {wanted} wanted {tiers}: {on:?} at {}", extent["offset"]));
                }
            }
            if self.place.run(&["cat", &key]).out != bytes_of(object.version, object.length) {
                wrong.push(format!("{key} has other bytes"));
            }
        }
        wrong
    }
}
