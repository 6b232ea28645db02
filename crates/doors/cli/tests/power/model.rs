//! The commands of a run, and what the store must hold after a power cut behind any part of them.

use std::collections::BTreeMap;
use std::fmt;

use terrace_testkit::Random;

/// Objects by key; their bytes by number, see [`content`].
pub type Objects = BTreeMap<String, u64>;

const ALL_KEYS: [&str; 4] = ["a", "b", "d/e", "d/f"];
const CONTENT_BYTES: [usize; 6] = [100, 700, 5_000, 40_000, 300_000, 1_200_000];
/// Between two syncs at most this many commands may be lost one by one: every subset of them is tried.
const MAX_UNSYNCED: usize = 8;

#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    Put {
        key: String,
        content: u64,
        ack: &'static str,
        /// Whether it is a file on the disk that becomes an object without a copy, where the store's layout allows that.
        is_adopted: bool,
    },
    Move {
        from: String,
        to: String,
    },
    Remove {
        key: String,
    },
    Sync,
    /// A command that changes no object.
    Care(&'static [&'static str]),
    /// Not a command: the kernel writes its caches, as it does now and then.
    WriteBack,
}

/// Commands that change no object.
const CARE_COMMANDS: [&[&str]; 6] = [
    &["evict", "/", "--tier", "ram"],
    &["ls"],
    &["scrub"],
    &["rebuild"],
    &["repair"],
    &["stage", "/", "--tier", "disk"],
];

/// A task that was carried out, and where the disk's record was before and after.
pub struct Step {
    pub task: Task,
    pub begun: usize,
    pub returned: usize,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{} {:?}", self.begun, self.returned, self.task)
    }
}

/// The bytes of this number, which they begin with; number 0 has none. Some are hard to shrink.
pub fn content(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let length = if number == 0 { 0 } else { *random.pick(&CONTENT_BYTES) };
    let mut bytes = match random.once_in(2) {
        true => random.bytes(length),
        false => (0..length as u64).map(|at| (number + at / 97) as u8).collect(),
    };
    bytes.iter_mut().zip(number.to_le_bytes()).for_each(|(byte, part)| *byte = part);
    bytes
}

/// A task that succeeds on these objects.
fn draw_task(objects: &Objects, number: u64, random: &mut Random) -> Task {
    let key = |random: &mut Random| (*random.pick(&ALL_KEYS)).to_owned();
    let held: Vec<&String> = objects.keys().collect();
    match random.below(20) {
        10..13 if !held.is_empty() => {
            let (from, to) = ((*random.pick(&held)).clone(), key(random));
            if from == to { Task::Sync } else { Task::Move { from, to } }
        }
        13 | 14 if !held.is_empty() => Task::Remove { key: (*random.pick(&held)).clone() },
        15 => Task::Sync,
        16 | 17 => Task::Care(random.pick::<&[&str]>(&CARE_COMMANDS)),
        18 => Task::WriteBack,
        kind => Task::Put {
            key: key(random),
            content: if kind == 0 { 0 } else { number },
            ack: random.pick::<&str>(&["placed", "replicated", "durable"]),
            is_adopted: random.once_in(2),
        },
    }
}

/// Tasks for a run on a store that holds these objects. Contents are numbered from `first`.
pub fn draw_tasks(objects: &Objects, count: usize, first: u64, random: &mut Random) -> Vec<Task> {
    let (mut tasks, mut objects, mut unsynced) = (Vec::new(), objects.clone(), 0);
    while tasks.len() < count {
        let task = match unsynced {
            MAX_UNSYNCED => Task::Sync,
            _ => draw_task(&objects, first + tasks.len() as u64, random),
        };
        unsynced = match &task {
            Task::Sync => 0,
            task => unsynced + usize::from(changes(task)),
        };
        apply(&mut objects, &task);
        tasks.push(task);
    }
    tasks
}

fn changes(task: &Task) -> bool {
    matches!(task, Task::Put { .. } | Task::Move { .. } | Task::Remove { .. })
}

/// Carries a task out on the slow, obvious store.
pub fn apply(objects: &mut Objects, task: &Task) {
    match task {
        Task::Put { key, content, .. } => {
            objects.insert(key.clone(), *content);
        }
        Task::Move { from, to } => {
            if let Some(content) = objects.remove(from) {
                objects.insert(to.clone(), content);
            }
        }
        Task::Remove { key } => {
            objects.remove(key);
        }
        Task::Sync | Task::Care(_) | Task::WriteBack => {}
    }
}

/// Whether a store that held `before` may hold `found` after a power cut at this position of the disk's record: all that
/// returned before the last sync that had returned, all that had returned as durable since, and any of the other tasks that
/// had begun.
pub fn may_hold(before: &Objects, steps: &[Step], position: usize, found: &Objects) -> bool {
    let synced = |step: &Step| step.task == Task::Sync && step.returned <= position;
    let synced = steps.iter().rposition(synced).map_or(0, |at| at + 1);
    let mut certain = before.clone();
    steps[..synced].iter().for_each(|step| apply(&mut certain, &step.task));
    let open: Vec<&Step> =
        steps[synced..].iter().filter(|step| step.begun <= position && changes(&step.task)).collect();
    (0u64..1 << open.len()).any(|subset| {
        let mut objects = certain.clone();
        for (bit, step) in open.iter().enumerate() {
            let durable = matches!(step.task, Task::Put { ack: "durable", .. }) && step.returned <= position;
            if durable || subset >> bit & 1 == 1 {
                apply(&mut objects, &step.task);
            }
        }
        objects == *found
    })
}
