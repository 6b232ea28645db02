//! Versions flow to a bucket of a server of S3 (moto).

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use common::site::{RANK_NODES, Site, each_chunk_flows_once};
use terrace::tier::{Blobs, NamedBlobs, ServiceAddress};
use terrace_dump::Result;
use terrace_testkit::{Moto, skip};

/// Starts a server, and returns a site whose versions flow there. None, and a counted skip, where it is not installed.
fn start(test: &str) -> Option<(Moto, Site)> {
    let server = Moto::start().map_err(|missing| skip(test, &missing)).ok()?;
    let mut site = Site::new();
    site.address = format!("s3://{}/dumped", Moto::BUCKET_NAME);
    site.options = server.options().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    Some((server, site))
}

/// Returns the files of the place, behind its back.
fn blobs(site: &Site) -> Blobs {
    Blobs::new(&ServiceAddress::parse(site.address.as_ref()).unwrap().service(&site.options).unwrap()).unwrap()
}

#[test]
fn each_chunk_flows_once_to_a_bucket() {
    let Some((_server, site)) = start("dumps that flow to a bucket") else { return };
    each_chunk_flows_once(site);
}

#[test]
fn a_damaged_blob_is_noticed_and_sent_again() {
    let Some((_server, mut site)) = start("damaged dumps in a bucket") else { return };
    site.dump(0);
    site.flow(None);
    let blobs = blobs(&site);
    let list = |folder: &str| blobs.list(&format!("dumps/state/{folder}/")).unwrap();
    let before = list("packs");
    site.dump(9);
    site.flow(None);
    let pack = list("packs").into_iter().find(|pack| !before.contains(pack)).unwrap();
    // A record that is made again has another name, since its chunks are in other packs.
    let record = |rank: usize| list("ranks/0000000001").swap_remove(rank);
    let complete = "dumps/state/complete/0000000001".to_owned();
    for (name, is_deleted) in [(pack.clone(), false), (pack.clone(), true), (record(0), false), (complete, true)] {
        let mut bytes = blobs.read(&name).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        match is_deleted {
            true => blobs.delete(vec![name.clone()]).unwrap(),
            false => blobs.replace(&name, bytes).unwrap(),
        }
        site.without_stores(|site| {
            assert_eq!(site.restore(&RANK_NODES, 0), (0, true), "{name}: the version before is whole");
            assert!(site.restored_on(&RANK_NODES, Some(1)).iter().all(Result::is_err));
        });
        let mended = site.flow(None);
        assert!(name != pack || mended.sent == 1, "only the damaged pack is sent again: {mended:?}");
        site.without_stores(|site| assert_eq!(site.restore(&[0, 1], 9), (1, true)));
    }
}

#[test]
fn only_the_newest_versions_stay_in_a_bucket() {
    let Some((_server, mut site)) = start("old dumps in a bucket") else { return };
    let blobs = blobs(&site);
    // Left by flows that were never completed.
    let left =
        ["packs/0123", "packs/.0123.terrace-part", "ranks/0000000077/0"].map(|name| format!("dumps/state/{name}"));
    for round in 0..3 {
        site.dump(round * 3);
        assert_eq!(site.flow(Some(2)).dropped, u32::from(round == 2));
        for name in &left {
            blobs.replace(name, b"left".to_vec()).unwrap();
        }
    }
    assert_eq!(site.flow(Some(2)).dropped, 0);
    let names = blobs.list("dumps/state/").unwrap();
    let is_in = |folder: &str| names.iter().filter(|name| name.starts_with(&format!("dumps/state/{folder}/"))).count();
    assert_eq!((is_in("complete"), is_in("ranks"), is_in("claims")), (2, 16, 0), "{names:?}");
    assert!(!left.iter().any(|name| names.contains(name)), "{names:?}");
    site.lose_all_stores();
    assert_eq!(site.restore(&RANK_NODES, 6), (2, true));
    assert!(site.restored_on(&RANK_NODES, Some(1)).iter().all(Result::is_ok));
}

/// The other job rewrites its claim, and ends without removing it.
#[test]
fn one_job_at_a_time_changes_a_dump_in_a_bucket() {
    let Some((_server, mut site)) = start("claims on dumps in a bucket") else { return };
    site.dump(0);
    let claim = "dumps/state/claims/0123";
    let (work, end) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let other = thread::spawn({
        let blobs = blobs(&site);
        move || {
            for renewal in 0.. {
                blobs.replace(claim, format!("process 1 on elsewhere, renewal {renewal}").into_bytes()).unwrap();
                // Ignoring the error is safe: the test waits for the first one only.
                let _ = begun.send(());
                if end.recv_timeout(Duration::from_millis(300)) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        }
    });
    begins.recv().unwrap();
    let refused = site.try_flow(&RANK_NODES, None, Some(1)).unwrap_err().to_string();
    assert!(refused.contains("another job, process 1 on elsewhere"), "{refused}");
    drop(work);
    other.join().unwrap();
    let blobs = blobs(&site);
    assert_eq!(blobs.list("dumps/state/").unwrap(), [claim], "nothing is sent, and the refused job leaves nothing");
    blobs.delete(vec![claim.into()]).unwrap();
    site.flow(Some(1));
    site.lose_all_stores();
    assert_eq!(site.restore(&RANK_NODES, 0), (0, true));
}

/// The record that makes a version exist is made by this alone.
#[test]
fn a_blob_is_put_only_if_there_is_none() {
    let Some((_server, site)) = start("blobs that are put if absent") else { return };
    let blobs = blobs(&site);
    assert!(blobs.write_new("record", b"first".to_vec()).unwrap());
    assert!(!blobs.write_new("record", b"second".to_vec()).unwrap());
    assert_eq!(blobs.read("record").unwrap(), b"first");
}
