//! Chooses the replica to read.

use smallvec::SmallVec;
use terrace_catalog::{Extent, Replica};
use xxhash_rust::xxh3::xxh3_64;

use crate::Result;
use crate::devices::{AssumedTimes, Device, MAX_QUEUE_SECONDS, TierList};
use crate::report::TierState;

/// Returns an extent's replicas in the order in which they should be read: the fastest first, and those on devices that are
/// away last. Devices of one tier that are equally far away count as equally fast. Of these, the device with the lowest load comes first. If loads are
/// equal, each process has its own order for each extent, so that many readers of the same bytes do not all use one device,
/// and a second read of the same bytes uses the same device.
pub fn nearest(tiers: &TierList, extent: &Extent) -> Result<SmallVec<[Replica; 3]>> {
    if extent.replicas.len() < 2 {
        return Ok(extent.replicas.clone());
    }
    let mut timed = SmallVec::<[(bool, f64, f64, Replica); 3]>::new();
    for replica in &extent.replicas {
        let device = tiers.device(replica.target)?;
        let time = |device: &Device| device.reading.time(replica.stored as usize);
        let link = |device: &Device| device.reading.link_time(replica.stored as usize);
        let seconds = AssumedTimes::new(tiers.peers(device), time, link, MAX_QUEUE_SECONDS).seconds(device);
        timed.push((device.state() == TierState::Away, seconds, device.load(), *replica));
    }
    let turn = |of: &Replica| {
        let own = [extent.write, extent.frame_offset(), of.target.into(), std::process::id().into()];
        xxh3_64(own.map(u64::to_le_bytes).as_flattened())
    };
    timed.sort_by(|a, b| {
        let order = a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2));
        order.then_with(|| turn(&a.3).cmp(&turn(&b.3)))
    });
    Ok(timed.into_iter().map(|(.., replica)| replica).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use xxhash_rust::xxh3::xxh3_64_with_seed;

    use super::*;
    use crate::config::Config;
    use crate::{Ack, PutOptions, Store};

    #[test]
    fn reads_go_to_all_targets_of_a_tier_though_some_were_busy_when_they_were_measured() {
        let dir = tempfile::tempdir().expect("a folder");
        let targets: Vec<String> = (0..3).map(|i| format!("'{}/{i}'", dir.path().display())).collect();
        let text = format!(
            "[store]\nreplicas = {{ default = 3 }}\n[[tier]]\nname = 'pfs'\nkind = 'directory'\ntargets = [{}]\n",
            targets.join(", ")
        );
        let config = Config::parse(&text, "test").expect("a configuration");
        let store = Store::init(&dir.path().join("store"), &config).expect("a store");
        let random = (0..(60 << 17)).map(|at| xxh3_64_with_seed(&[], at)).collect::<Vec<u64>>();
        let bytes = random.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        let replicated = PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() };
        store.put_bytes(b"k", &bytes, &replicated).expect("puts");
        store.sync().expect("syncs");
        let devices = &store.engine.tiers.devices;
        let took = |device: &Device, seconds| {
            (0..200).for_each(|_| device.reading.note(1 << 20, Duration::from_secs_f64(seconds)));
        };
        devices.iter().for_each(|device| took(device, 0.01));
        let was_slower = |times| took(&devices[0], 0.01 * times);
        was_slower(3.0);
        let (_, extents) = store.engine.catalog.locate(b"k", 0, u64::MAX).expect("looks").expect("an object");
        let mut counts = BTreeMap::<u16, usize>::new();
        for extent in &extents {
            let first = nearest(&store.engine.tiers, extent).expect("replicas")[0];
            assert_eq!(
                nearest(&store.engine.tiers, extent).expect("replicas")[0].target,
                first.target,
                "read where it was"
            );
            *counts.entry(first.target).or_default() += 1;
        }
        assert!(counts.len() == 3 && counts.values().all(|count| *count >= 4), "{counts:?} of {}", extents.len());
        // A target that is far slower than the others is not used.
        was_slower(99.0);
        let to_odd = |extent| nearest(&store.engine.tiers, extent).expect("replicas")[0].target == devices[0].id;
        assert!(!extents.iter().any(to_odd));
    }

    /// Three buckets in one tier. The mean of a bucket's times hid a distance of less than a factor of eight, as it should
    /// hide that a bucket is busy.
    #[cfg(feature = "services-memory")]
    #[test]
    fn reads_take_the_nearer_targets_of_a_tier_though_they_are_busy() {
        let dir = tempfile::tempdir().expect("a folder");
        let text = "[store]\nreplicas = { default = 3 }\n[[tier]]\nname = 'peers'\nkind = 'object'\nservice = 'memory'\n\
                    targets = ['/a', '/b', '/c']\n";
        let config = Config::parse(text, "test").expect("a configuration");
        let store = Store::init(&dir.path().join("store"), &config).expect("a store");
        let replicated = PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() };
        store.put_bytes(b"k", &terrace_testkit::noise(60 << 20, 1), &replicated).expect("puts");
        let devices = &store.engine.tiers.devices;
        let (_, extents) = store.engine.catalog.locate(b"k", 0, u64::MAX).expect("looks").expect("an object");
        // The times of reads on each target, in milliseconds. Returns how many reads each gets first.
        let counts = |times: [&[f64]; 3]| {
            for (device, times) in devices.iter().zip(times) {
                device.reading.forget_link();
                for _ in 0..100 {
                    times.iter().for_each(|time| device.reading.note(1 << 20, Duration::from_secs_f64(time / 1e3)));
                }
            }
            let mut counts = [0; 3];
            for extent in &extents {
                counts[usize::from(nearest(&store.engine.tiers, extent).expect("replicas")[0].target)] += 1;
            }
            counts
        };
        let all = counts([&[10.0], &[10.0], &[10.0]]);
        assert!(all.iter().all(|count| *count >= 4), "{all:?}");
        let busy = counts([&[10.0, 70.0], &[10.0], &[10.0]]);
        assert!(busy.iter().all(|count| *count >= 4), "busy at times, not distant: {busy:?}");
        let distant = counts([&[30.0], &[10.0], &[10.0]]);
        assert!(distant[0] == 0 && distant[1] >= 4 && distant[2] >= 4, "{distant:?}");
    }
}
