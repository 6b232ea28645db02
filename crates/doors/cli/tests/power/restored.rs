//! After a power cut, the store's directory is replaced by an older copy of itself, as by one from a backup. What was durable on the
//! targets must not be missing without a word: the next command refuses, and a rebuild takes it from there, or it is there at once.

use terrace_testkit::Random;
use terrace_testkit::disk::RecordedDisk;

use crate::machine::Machine;
use crate::model::{Objects, Task, draw_tasks, may_hold};
use crate::{Counts, carry_out, draw_positions, owned};

/// Commands on a store, before the copy and after it.
const TASK_COUNT: usize = 12;
const IMAGES_PER_STORE: usize = 6;

pub fn try_machine(disk: RecordedDisk, seed: u64, counts: &mut Counts) {
    let mut random = Random::new(seed);
    let mut machine = Machine::new(&disk.path(), &mut random);
    machine.init();
    let mut tasks = draw_tasks(&Objects::new(), TASK_COUNT, seed << 20, &mut random);
    let mut later = tasks.split_off(1 + random.below(TASK_COUNT as u64 / 2) as usize);
    if random.once_in(2) {
        tasks.push(Task::Sync);
    }
    later.push(Task::Put {
        key: "last".into(),
        content: (seed << 20) + TASK_COUNT as u64,
        ack: "durable",
        is_adopted: false,
    });
    let mut steps = carry_out(tasks, &machine, &disk);
    machine.back_up();
    let copied = steps.len();
    steps.extend(carry_out(later, &machine, &disk));
    counts.commands += steps.len() as u64;
    machine.may_seem_older = true;
    let mut record = disk.power_off().unwrap();
    for position in draw_positions(IMAGES_PER_STORE, &steps[copied..], &record, &mut random) {
        let Some(image) = counts.image_at(&mut record, position, &mut random) else { continue };
        let at = format!("seed {seed}, at {position}, {:?}: copied after {copied} of {steps:#?}", image.losses());
        machine.lose_power(&mut random);
        machine.restore();
        if machine.run(&["ls"]).is_refused_as_older() {
            counts.refused += 1;
            machine.terrace(&["rebuild"], &at);
        }
        let found = machine.objects(&at);
        assert!(may_hold(&Objects::new(), &steps, position, &found), "found {found:?}, {at}");
        machine.check_owned(&owned(&steps, position), &at);
        machine.work_on(&found, &at);
        machine.check_owned(&owned(&steps, position), &at);
        image.unmount().unwrap();
    }
}
