//! The conformance suite.

#![allow(clippy::unwrap_used)]

use std::fs;

use sqlite_target::SqliteMap;
use terrace::tier::conformance::{self, Outage, Site};
use terrace::tier::{MapKind, TargetSettings};

/// A site on a folder `disk`, which may vanish.
fn site() -> Site {
    let folder = tempfile::tempdir().unwrap();
    let (disk, stores) = (folder.path().join("disk"), folder.path().join("stores"));
    fs::create_dir(&disk).unwrap();
    fs::create_dir(&stores).unwrap();
    Site { settings: TargetSettings::at(disk.join("frames.sqlite")), stores, guard: Box::new(folder) }
}

#[test]
fn it_passes_the_conformance_suite() {
    conformance::check(&MapKind::<SqliteMap>::default(), site);
}

#[test]
fn it_survives_that_its_disk_vanishes_for_a_while() {
    let site = site();
    let disk = site.settings.path.parent().unwrap().to_owned();
    let elsewhere = disk.with_extension("elsewhere");
    conformance::check_outage(&MapKind::<SqliteMap>::default(), site, |outage| match outage {
        Outage::Begins => fs::rename(&disk, &elsewhere).unwrap(),
        Outage::Ends => fs::rename(&elsewhere, &disk).unwrap(),
    });
}
