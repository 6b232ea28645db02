//! Power cuts on real file systems: real commands work on a disk that records what is written to it, and what a power cut
//! may leave of it is mounted and looked at with the same commands. The first tier is in memory, which a cut of the machine's
//! power empties, and a cut of the disk's alone does not.
//! `TERRACE_POWER` is the share that is run, in percent (`make soak`: 100); `TERRACE_SEED` repeats the commands of a run, but
//! not when the kernel writes.
//!
//! The engine's own test of power losses pretended the boot mark and dropped the catalog, so it could not see that a store
//! which was closed and then lost power trusted a catalog that named commits and frames which were gone. This one named a
//! new boot at each cut, so it could not see what a disk loses while the machine runs on. It damaged nothing, and restored no
//! store's directory, so it could not see that the findings of a scrub and the notes on targets were not durable.

#![allow(clippy::unwrap_used, clippy::panic)]

mod damaged;
mod emptied;
mod machine;
mod model;
mod restored;

use std::io;

use machine::Machine;
use model::{Objects, Step, Task, draw_tasks, may_hold};
use terrace_testkit::disk::{DiskFormat, DiskImage, DiskRecord, RecordedDisk};
use terrace_testkit::{Random, skip};

terrace_testkit::disk_server!();

const DISK_BYTES: u64 = 96 << 20;
/// Commands between two restarts of a machine.
const TASKS_BETWEEN_CUTS: usize = 12;
/// Cuts after which the machine goes on working, recorded again.
const CUTS_OF_MACHINE: usize = 3;
/// Images that are looked at for each of them.
const IMAGES_PER_CUT: usize = 6;

#[derive(Default)]
struct Counts {
    commands: u64,
    cuts: u64,
    images: u64,
    lost: usize,
    torn: usize,
    /// Images that their file system did not recover from.
    unmountable: u64,
    /// Restored directories that were refused, and rebuilt.
    refused: u64,
}

impl Counts {
    /// Mounts what a cut at this position may leave. None if its file system does not recover from it.
    fn image_at<'a>(
        &mut self,
        record: &'a mut DiskRecord,
        position: usize,
        random: &mut Random,
    ) -> Option<DiskImage<'a>> {
        let image = record.image_at(position, random);
        if is_refused(&image) {
            self.unmountable += 1;
            return None;
        }
        let image = image.unwrap();
        self.images += 1;
        self.lost += image.losses().lost;
        self.torn += image.losses().torn;
        Some(image)
    }
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// A moment of a run: when a command has just returned, so that what it promised must be there; before a flush, when
/// most can be lost; or any.
fn draw_position(steps: &[Step], record: &DiskRecord, random: &mut Random) -> usize {
    let first = steps[0].begun;
    let any = first + random.below((record.length() - first + 1) as u64) as usize;
    match random.below(3) {
        0 => random.pick(steps).returned,
        1 => record.next_flush(any),
        _ => any,
    }
}

/// Positions at which images are looked at, in order, which is quickest.
fn draw_positions(count: usize, steps: &[Step], record: &DiskRecord, random: &mut Random) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..count).map(|_| draw_position(steps, record, random)).collect();
    positions.sort_unstable();
    positions
}

/// Carries tasks out, one after the other.
fn carry_out(tasks: impl IntoIterator<Item = Task>, machine: &Machine, disk: &RecordedDisk) -> Vec<Step> {
    let run = |task| {
        let begun = disk.position().unwrap();
        machine.carry_out(&task);
        Step { task, begun, returned: disk.position().unwrap() }
    };
    tasks.into_iter().map(run).collect()
}

/// Whether a command ran when the record was at this position.
fn is_amid_step(steps: &[Step], position: usize) -> bool {
    steps.iter().any(|step| step.begun < position && position < step.returned)
}

/// The contents that were put by tasks which had returned: their files were synced before.
fn owned(steps: &[Step], position: usize) -> Vec<u64> {
    let returned = steps.iter().filter(|step| step.returned <= position);
    returned
        .filter_map(
            |step| if let Task::Put { content, is_adopted: true, .. } = step.task { Some(content) } else { None },
        )
        .collect()
}

/// Whether the system refuses to mount what a power cut left. XFS does not recover from each torn block of its own directories: its
/// checksum of the block is wrong then.
fn is_refused<T>(disk: &io::Result<T>) -> bool {
    disk.as_ref().is_err_and(|error| error.to_string().contains("corrupted filesystem"))
}

/// A machine with a store: it works, loses power, and works on.
fn try_machine(disk: RecordedDisk, seed: u64, counts: &mut Counts) {
    let mut random = Random::new(seed);
    let mut machine = Machine::new(&disk.path(), &mut random);
    machine.init();
    let (mut disk, mut objects, mut number) = (disk, Objects::new(), seed << 20);
    for cut in 0..CUTS_OF_MACHINE {
        let tasks = draw_tasks(&objects, TASKS_BETWEEN_CUTS, number, &mut random);
        number += tasks.len() as u64;
        let steps = carry_out(tasks, &machine, &disk);
        counts.commands += steps.len() as u64;
        let mut record = disk.power_off().unwrap();
        let last = draw_position(&steps, &record, &mut random);
        for position in draw_positions(IMAGES_PER_CUT, &steps, &record, &mut random) {
            let Some(image) = counts.image_at(&mut record, position, &mut random) else { continue };
            let losses = image.losses();
            let at = format!("seed {seed}, cut {cut}, at {position}, {losses:?}: {objects:?}, then {steps:#?}");
            machine.lose_power(&mut random);
            machine.may_seem_older = is_amid_step(&steps, position);
            let found = machine.objects(&at);
            assert!(may_hold(&objects, &steps, position, &found), "found {found:?}, {at}");
            machine.check_owned(&owned(&steps, position), &at);
            machine.work_on(&found, &at);
            machine.check_owned(&owned(&steps, position), &at);
            image.unmount().unwrap();
        }
        let restarted = record.restart_at(last, &mut random);
        if is_refused(&restarted) {
            counts.unmountable += 1;
            return;
        }
        let (restarted, losses) = restarted.unwrap();
        let at = format!("seed {seed}, restart {cut}, at {last}, {losses:?}: {objects:?}, then {steps:#?}");
        counts.cuts += 1;
        machine.lose_power(&mut random);
        machine.may_seem_older = is_amid_step(&steps, last);
        let found = machine.objects(&at);
        assert!(may_hold(&objects, &steps, last, &found), "found {found:?}, {at}");
        (disk, objects) = (restarted, found);
    }
}

/// Tries machines with a disk of this format each.
fn try_machines(format: DiskFormat, machines: u64, shows: &str, try_machine: fn(RecordedDisk, u64, &mut Counts)) {
    let mut counts = Counts::default();
    let seed = setting("TERRACE_SEED", 1);
    for seed in seed..seed + machines {
        match RecordedDisk::create(format, DISK_BYTES) {
            Ok(disk) => try_machine(disk, seed, &mut counts),
            Err(missing) => return skip("power cuts on a real file system", &missing),
        }
    }
    let Counts { commands, cuts, images, lost, torn, unmountable, refused } = counts;
    assert!(unmountable <= 1 + images / 20, "{unmountable} images beside {images} were no file systems");
    println!(
        "{}: {images} images and {cuts} restarts checked after {commands} commands ({lost} writes lost, {torn} torn, \
         {unmountable} images that the system refused, {refused} directories refused as older): {shows}",
        format.name()
    );
}

const DURABLE_IS_THERE: &str = "what was acknowledged was there";
const FINDINGS_ARE_KNOWN: &str = "what a scrub had found was known";

#[test]
fn what_was_durable_survives_a_power_cut_on_ext4() {
    try_machines(DiskFormat::Ext4, setting("TERRACE_POWER", 10).div_ceil(5), DURABLE_IS_THERE, try_machine);
}

#[test]
fn what_was_durable_survives_a_power_cut_on_xfs() {
    try_machines(DiskFormat::Xfs, setting("TERRACE_POWER", 10) / 10, DURABLE_IS_THERE, try_machine);
}

#[test]
fn what_was_durable_survives_a_power_cut_on_btrfs() {
    try_machines(DiskFormat::Btrfs, setting("TERRACE_POWER", 10) / 10, DURABLE_IS_THERE, try_machine);
}

/// ext4 writes the bytes of a file that takes the name of another one before this name, which XFS does not.
#[test]
fn what_a_scrub_found_is_known_after_a_power_cut_on_xfs() {
    try_machines(DiskFormat::Xfs, setting("TERRACE_POWER", 10).div_ceil(4), FINDINGS_ARE_KNOWN, damaged::try_machine);
}

#[test]
fn what_a_scrub_found_is_known_after_a_power_cut_on_ext4() {
    try_machines(DiskFormat::Ext4, setting("TERRACE_POWER", 10).div_ceil(5), FINDINGS_ARE_KNOWN, damaged::try_machine);
}

#[test]
fn an_older_store_directory_loses_nothing_after_a_power_cut() {
    let shows = "what was acknowledged was there, with an older directory of the store";
    try_machines(DiskFormat::Ext4, setting("TERRACE_POWER", 10).div_ceil(5), shows, restored::try_machine);
}

#[test]
fn replicas_on_a_replaced_disk_stay_gone_after_a_power_cut() {
    let shows = "replicas on a replaced disk were pending";
    try_machines(DiskFormat::Ext4, setting("TERRACE_POWER", 10).div_ceil(5), shows, emptied::try_machine);
}
