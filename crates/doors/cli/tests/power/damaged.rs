//! A disk rots, a scrub finds it, and then the power is cut: what the scrub has found must still be known, until the object is put again.

use terrace_testkit::Random;
use terrace_testkit::disk::RecordedDisk;

use crate::machine::Machine;
use crate::model::{Objects, Task, apply, content, draw_tasks, may_hold};
use crate::{Counts, carry_out, draw_positions, is_amid_step};

/// The object whose replicas are damaged.
const HURT_KEY: &str = "hurt";
/// So that the bytes of a frame that are damaged are not those of its header.
const MIN_CONTENT_BYTES: usize = 40_000;
/// Commands before the damage, and after the scrub.
const TASK_COUNT: usize = 4;
const IMAGES_PER_STORE: usize = 6;

/// The damage of a machine.
struct Damage {
    tiers: &'static [&'static str],
    scrub: &'static [&'static str],
    finding: &'static str,
}

const ALL_DAMAGE: [Damage; 3] = [
    Damage { tiers: &["ram", "disk"], scrub: &["scrub"], finding: "LOST" },
    Damage { tiers: &["ram", "disk"], scrub: &["scrub", HURT_KEY], finding: "LOST" },
    // With the next restart of the machine, its last good replica is gone.
    Damage { tiers: &["disk"], scrub: &["scrub"], finding: "BAD_REPLICAS" },
];

pub fn try_machine(disk: RecordedDisk, seed: u64, counts: &mut Counts) {
    let mut random = Random::new(seed);
    let mut machine = Machine::new(&disk.path(), &mut random);
    machine.init();
    let (first, mut objects) = (seed << 20, Objects::new());
    let mut tasks = draw_tasks(&objects, TASK_COUNT, first, &mut random);
    tasks.iter().for_each(|task| apply(&mut objects, task));
    tasks.push(Task::Sync);
    counts.commands += carry_out(tasks, &machine, &disk).len() as u64;

    // Not by a task: the file stays as it is, so that a `put` of it changes nothing as long as its object is not known to be lost.
    let number = (first + TASK_COUNT as u64..).find(|number| content(*number).len() >= MIN_CONTENT_BYTES).unwrap();
    let file = machine.in_memory(HURT_KEY);
    std::fs::write(&file, content(number)).unwrap();
    let put = ["put", "--ack", "durable", &file.display().to_string(), HURT_KEY];
    machine.terrace(&put, "before damage");
    objects.insert(HURT_KEY.to_owned(), number);
    machine.terrace(&["sync"], "before damage");
    let Damage { tiers, scrub, finding } = &ALL_DAMAGE[seed as usize % ALL_DAMAGE.len()];
    machine.damage(HURT_KEY, tiers);
    machine.terrace_up_to(1, scrub, "after damage");
    // Before another command, which may happen to make durable what the scrub did not.
    let scrubbed = disk.position().unwrap();
    let is_known = |machine: &Machine, at: &str| machine.findings(at).iter().any(|code| code == finding);
    assert!(is_known(&machine, "after the scrub"), "seed {seed}: {finding} is no finding");

    let mut later = draw_tasks(&Objects::new(), TASK_COUNT, number + 1, &mut random);
    // Others find the damage again, or fail because of it.
    later.retain(|task| matches!(task, Task::Put { .. } | Task::WriteBack));
    later.push(Task::WriteBack);
    let steps = carry_out(later, &machine, &disk);
    counts.commands += steps.len() as u64;
    let mut record = disk.power_off().unwrap();
    let mut positions = draw_positions(IMAGES_PER_STORE - 2, &steps, &record, &mut random);
    positions.splice(0..0, [scrubbed, steps[0].begun]);
    for position in positions {
        let Some(image) = counts.image_at(&mut record, position, &mut random) else { continue };
        let at = format!("seed {seed}, {finding}, at {position}, {:?}: {objects:?}, then {steps:#?}", image.losses());
        machine.lose_power(&mut random);
        machine.may_seem_older = is_amid_step(&steps, position);
        assert!(is_known(&machine, &at), "{finding} is no finding any more, {at}");
        if *finding != "LOST" {
            machine.terrace_up_to(1, &["repair"], &at);
        }
        machine.terrace(&put, &at);
        assert!(!is_known(&machine, &at), "{finding} is a finding of what was put again, {at}");
        let found = machine.objects(&at);
        assert!(may_hold(&objects, &steps, position, &found), "found {found:?}, {at}");
        machine.work_on(&found, &at);
        image.unmount().unwrap();
    }
}
