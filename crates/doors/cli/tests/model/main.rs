//! A model checker of the whole command line: random commands, several at once, some of them killed, with faults
//! between them, beside a slow, obvious store. `TERRACE_STEPS` sets how many commands (`make soak`); `TERRACE_SEED` repeats a run.

#![allow(clippy::unwrap_used, clippy::panic)]

mod catalogs;
mod checker;
mod commands;
mod damage;
mod faults;
mod full;
mod logs;
mod model;
mod place;
mod power;
mod rules;
mod versions;

use checker::{Checker, Counts};
use faults::Fault;
use place::Shape;
use terrace_testkit::disk::{DiskFormat, RecordedDisk};
use terrace_testkit::skip;

terrace_testkit::disk_server!();

/// Commands on one store, before the next one begins with nothing.
const STORE_COMMANDS: u64 = 150;
/// The faults between the commands.
const ALL_FAULTS: [Fault; 10] = [
    Fault::Reboot,
    Fault::Damage,
    Fault::DamageTwice,
    Fault::Emptied,
    Fault::Catalog,
    Fault::CutCatalog,
    Fault::BootMark,
    Fault::Log,
    Fault::AllLogs,
    Fault::LogCopies,
];
/// Bytes of the disk whose power is cut.
const DISK_BYTES: u64 = 96 << 20;

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Runs one store for its number of commands; returns what was tried.
fn check(checker: Checker, seed: u64, next: impl FnMut(&mut Checker) -> Result<(), String>) -> Counts {
    check_for(STORE_COMMANDS, checker, seed, next)
}

/// The same for this number of commands.
fn check_for(
    commands: u64,
    mut checker: Checker,
    seed: u64,
    mut next: impl FnMut(&mut Checker) -> Result<(), String>,
) -> Counts {
    while checker.counts.commands < commands {
        if let Err(wrong) = next(&mut checker) {
            let folder = checker.place.keep().display().to_string();
            let (shape, trace) = (checker.place.shape, checker.place.trace.join("\n"));
            panic!("{wrong}\nseed {seed}, {shape:?}; the store and trace.sh are in {folder}; what was done:\n{trace}");
        }
    }
    checker.counts
}

/// A shape for each number.
fn shape(number: u64) -> Shape {
    Shape { tight: number % 3 == 2, small: number % 2 == 1, ..Shape::default() }
}

#[test]
fn what_was_acknowledged_survives_kills_and_damage() {
    let (steps, seed) = (setting("TERRACE_STEPS", 600), setting("TERRACE_SEED", 1));
    let (mut total, mut stores) = (Counts::default(), 0);
    println!("seed {seed}");
    let chosen = std::env::var("TERRACE_FAULTS").unwrap_or_default();
    let is_chosen = |fault: &Fault| chosen.is_empty() || chosen.split(',').any(|name| name == format!("{fault:?}"));
    let faults: Vec<Fault> = ALL_FAULTS.into_iter().filter(is_chosen).collect();
    while total.commands < steps {
        let checker = Checker::new(shape(stores), seed + stores, None);
        total.add(check(checker, seed + stores, |checker| {
            checker.round()?;
            if checker.random.once_in(12) {
                let fault = *checker.random.pick(&faults);
                checker.suffer(fault)?;
            }
            Ok(())
        }));
        stores += 1;
    }
    println!("{total} on {stores} stores: nothing was lost without a word");
}

#[test]
fn what_was_durable_survives_power_cuts() {
    let (steps, seed) = (setting("TERRACE_STEPS", 600) / 2, setting("TERRACE_SEED", 1));
    let (mut total, mut stores) = (Counts::default(), 0);
    println!("seed {seed}");
    while total.commands < steps {
        let format = DiskFormat::ALL[(stores % 3) as usize];
        let disk = match RecordedDisk::create(format, DISK_BYTES) {
            Ok(disk) => disk,
            Err(missing) => {
                skip(&format!("power cuts under the command line, on {}", format.name()), &missing);
                if format == DiskFormat::Ext4 {
                    return;
                }
                stores += 1;
                continue;
            }
        };
        let checker = Checker::new(shape(stores), seed + stores, Some(disk));
        total.add(check(checker, seed + stores, |checker| {
            checker.round()?;
            if checker.random.once_in(12) { checker.cut_power() } else { Ok(()) }
        }));
        stores += 1;
    }
    println!("{total} on {stores} stores: what was durable was there");
}

#[test]
fn a_full_disk_loses_nothing_and_gives_room_back() {
    let (steps, seed) = (setting("TERRACE_STEPS", 600) / 4, setting("TERRACE_SEED", 1));
    let disk = match RecordedDisk::create(DiskFormat::Ext4, 0) {
        Ok(disk) => disk,
        Err(missing) => return skip("full disks under the command line", &missing),
    };
    let checker = Checker::new(Shape { scarce: true, ..Shape::default() }, seed, Some(disk));
    let counts = check_for(steps, checker, seed, Checker::fill_and_clear);
    println!("{counts}: nothing was lost, and room came back");
}

#[test]
fn objects_are_as_changing_rules_want() {
    let (steps, seed) = (setting("TERRACE_STEPS", 600) / 4, setting("TERRACE_SEED", 1));
    let stores = steps.div_ceil(rules::COMMANDS_PER_STORE);
    println!("seed {seed}");
    (seed..seed + stores).for_each(rules::check);
    println!("{steps} commands on {stores} stores: all objects were as the rules want");
}
