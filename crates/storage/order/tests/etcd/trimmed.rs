//! A log that is trimmed while a node lags.

use std::time::Duration;

use terrace_catalog::Catalog;
use terrace_order::{Answer, Etcd, OfferedSnapshot, Order, Records};

use crate::fence::append;
use crate::node::{open_catalog, options};
use crate::{cluster, servers};

fn follow(order: &Etcd, catalog: &Catalog, to: u64) {
    loop {
        let slot = catalog.followed().unwrap().slot;
        if slot >= to {
            return;
        }
        match order.read(slot, (to - slot) as usize).unwrap() {
            Records::Next(records) if records.is_empty() => order.wait(slot, Duration::from_secs(1)).unwrap(),
            Records::Next(records) => drop(catalog.follow(slot + 1, &records).unwrap()),
            Records::Trimmed => panic!("the log is trimmed beyond {slot}"),
        }
    }
}

#[test]
fn a_node_that_lags_loads_a_snapshot_and_stale_appends_are_not_carried_out() {
    let Some((cluster, _only)) = cluster("a trimmed log") else { return };
    let folder = tempfile::tempdir().unwrap();
    let servers = servers(&cluster);
    Etcd::make(&options(&servers, "a")).unwrap();
    let open = |name: &str| Etcd::open(options(&servers, name)).unwrap();
    let (a, b, late) = (open("a"), open("b"), open("late"));
    let [first, other] = [a.join(None).unwrap(), b.join(None).unwrap()];
    let catalogs = ["a", "b", "late", "later"].map(|name| open_catalog(&folder.path().join(name)));
    // Two incarnations take turns: slots 1, 3, ... and 2, 4, ...
    for number in 0..15 {
        assert_eq!(a.append(&append(first, number)), Ok(Answer::At(number * 2 + 1)));
        assert_eq!(b.append(&append(other, number)), Ok(Answer::At(number * 2 + 2)));
    }
    follow(&a, &catalogs[0], 30);
    follow(&late, &catalogs[2], 10);
    let snapshot = folder.path().join("snapshot");
    catalogs[0].write_snapshot(&snapshot).unwrap();
    a.trim(20).unwrap();

    // It has a list, and some of its records are gone. Who begins is told, too.
    assert_eq!(late.read(10, 64), Ok(Records::Trimmed));
    assert_eq!(open("later").read(0, 64), Ok(Records::Trimmed));
    assert!(catalogs[3].load_snapshot(&snapshot).unwrap());
    assert_eq!(a.append(&append(first, 15)), Ok(Answer::At(31)));
    follow(&late, &catalogs[3], 31);
    follow(&a, &catalogs[0], 31);
    assert_eq!(catalogs[3].followed().unwrap(), catalogs[0].followed().unwrap());
    assert!(catalogs[3].dump().unwrap() == catalogs[0].dump().unwrap());
    // What is behind the trimmed slot is all there.
    let Ok(Records::Next(records)) = open("later").read(20, 64) else { panic!("trimmed too far") };
    assert_eq!(records[..2], [append(first, 10).record, append(other, 10).record]);

    // Stale copies: of a trimmed record, of one that is there and whose revision is compacted, and of none.
    let check = || {
        assert_eq!(b.append(&append(other, 3)), Ok(Answer::Trimmed));
        assert_eq!(b.append(&append(other, 12)), Ok(Answer::At(26)));
    };
    check();
    b.leave(other).unwrap();
    check();
    assert_eq!(b.append(&append(other, 15)), Ok(Answer::Fenced));
    a.trim(31).unwrap();
    a.trim(5).unwrap();
    assert_eq!(b.append(&append(other, 12)), Ok(Answer::Trimmed));
    assert_eq!(b.append(&append(other, 15)), Ok(Answer::Fenced));
    assert_eq!(a.append(&append(first, 15)), Ok(Answer::Trimmed));
    assert_eq!(a.append(&append(first, 16)), Ok(Answer::At(32)));
    follow(&late, &catalogs[3], 32);
    assert!(a.trim(33).is_err());
}

#[test]
fn nodes_offer_snapshots_and_one_of_them_is_the_keeper() {
    let Some((cluster, _only)) = cluster("a log with a keeper") else { return };
    let servers = servers(&cluster);
    Etcd::make(&options(&servers, "a")).unwrap();
    let open = |name: &str| Etcd::open(options(&servers, name)).unwrap();
    let (a, b) = (open("a"), open("b"));
    let offer = |slot| OfferedSnapshot { slot, chain: 7, length: 9, place: "somewhere".into() };
    assert!(b.snapshots().unwrap().is_empty());
    for (order, slot) in [(&a, 1), (&b, 2), (&a, 3)] {
        order.offer_snapshot(&offer(slot)).unwrap();
    }
    assert_eq!(b.snapshots().unwrap(), [("a".into(), offer(3)), ("b".into(), offer(2))].into());

    assert_eq!(a.keep(1), Ok(false), "it has no fence");
    let [first, other] = [a.join(None).unwrap(), b.join(None).unwrap()];
    assert_eq!(b.fences().unwrap(), [("a".into(), first), ("b".into(), other)].into());
    assert_eq!([a.keep(first), b.keep(other), a.keep(first)], [Ok(true), Ok(false), Ok(true)]);
    a.leave(first).unwrap();
    assert_eq!(b.fences().unwrap(), [("b".into(), other)].into());
    assert_eq!([a.keep(first), b.keep(other)], [Ok(false), Ok(true)]);
    let second = a.join(None).unwrap();
    assert_eq!([a.keep(second), b.keep(other)], [Ok(false), Ok(true)]);
}
