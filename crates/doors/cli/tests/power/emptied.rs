//! A disk of a store is replaced by an empty one, a command finds that, and then the power is cut: the replicas that are gone must not
//! count as there again.

use terrace_testkit::Random;
use terrace_testkit::disk::RecordedDisk;

use crate::machine::Machine;
use crate::model::{Objects, Task, content, draw_tasks, may_hold};
use crate::{Counts, carry_out, draw_positions, is_amid_step};

/// Objects before the disk is replaced, and commands after it.
const OBJECT_COUNT: u64 = 4;
const TASK_COUNT: usize = 4;
const IMAGES_PER_STORE: usize = 6;

pub fn try_machine(disk: RecordedDisk, seed: u64, counts: &mut Counts) {
    let mut random = Random::new(seed);
    let mut machine = Machine::new(&disk.path(), &mut random);
    machine.targets = &["one", "two"];
    machine.init();
    let (first, mut objects, file) = (seed << 20, Objects::new(), machine.in_memory("put"));
    for number in first..first + OBJECT_COUNT {
        std::fs::write(&file, content(number)).unwrap();
        let key = format!("kept/{number}");
        machine.terrace(
            &["put", "--constraint", "tiers=disk", "--ack", "durable", &file.display().to_string(), &key],
            "at first",
        );
        objects.insert(key, number);
    }
    machine.terrace(&["sync"], "before the disk is replaced");
    machine.replace("one");
    machine.terrace(&["tiers", "renew", "disk"], "after the disk is replaced");
    machine.terrace(&["ls"], "after the disk is replaced");
    let found = disk.position().unwrap();

    let number = first + OBJECT_COUNT;
    let mut tasks = draw_tasks(&Objects::new(), TASK_COUNT, number, &mut random);
    tasks.retain(|task| matches!(task, Task::Put { is_adopted: false, .. } | Task::WriteBack));
    tasks.push(Task::WriteBack);
    let steps = carry_out(tasks, &machine, &disk);
    counts.commands += steps.len() as u64;
    let mut record = disk.power_off().unwrap();
    let mut positions = draw_positions(IMAGES_PER_STORE - 2, &steps, &record, &mut random);
    positions.splice(0..0, [found, steps[0].begun]);
    for position in positions {
        let Some(image) = counts.image_at(&mut record, position, &mut random) else { continue };
        let at = format!("seed {seed}, at {position}, {:?}: {objects:?}, then {steps:#?}", image.losses());
        machine.lose_power(&mut random);
        machine.may_seem_older = is_amid_step(&steps, position);
        let kept = machine.terrace_up_to(1, &["scrub", "kept", "--json"], &at);
        assert!(kept.contains("\"bad\":0") && kept.contains("\"lost\":0"), "{kept}, {at}");
        let found = machine.objects(&at);
        assert!(may_hold(&objects, &steps, position, &found), "found {found:?}, {at}");
        machine.work_on(&found, &at);
        image.unmount().unwrap();
    }
}
