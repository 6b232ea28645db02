//! The assumed speed of a target: the mean of its tier, or of those targets of its tier that are equally far away.
//!
//! A target's measured speed depends on its load at that time. If the plan used each target's last measurement, all writers
//! would go to the same target, and leave it at the same time.

use smallvec::SmallVec;

use super::device::Device;

/// A target whose time is more than this multiple of the fastest one's time is an outlier.
const OUTLIER_FACTOR: f64 = 8.0;
/// A time up to this, in seconds, may come from waiting for other operations, so it makes no target an outlier.
pub const MAX_QUEUE_SECONDS: f64 = 1e-3;
/// Targets behind a network are equally far away if the times over their links differ by less than this factor.
const LINK_FACTOR: f64 = 2.0;

/// The assumed times of the targets of a tier.
pub struct AssumedTimes<'a, N, L> {
    peers: &'a [Device],
    /// The measured time of a target.
    need: N,
    /// The time over a target's link.
    link: L,
    /// A time up to this is never an outlier.
    brief: f64,
    /// The time over the quickest link.
    nearest: f64,
    /// The assumed times at each distance that was asked for.
    known: SmallVec<[(i32, Usual); 2]>,
}

impl<'a, N: Fn(&Device) -> f64, L: Fn(&Device) -> Option<f64>> AssumedTimes<'a, N, L> {
    /// `need` is the measured time of a target, `link` the time over its link if it is known, both in seconds.
    pub fn new(peers: &'a [Device], need: N, link: L, brief: f64) -> Self {
        let nearest = peers.iter().filter_map(&link).fold(f64::INFINITY, f64::min);
        AssumedTimes { peers, need, link, brief, nearest, known: SmallVec::new() }
    }

    /// Returns the assumed time of one of the targets.
    pub fn seconds(&mut self, device: &Device) -> f64 {
        let distance = self.distance(device);
        let own = (self.need)(device);
        if let Some((_, usual)) = self.known.iter().find(|(known, _)| *known == distance) {
            return usual.seconds(own);
        }
        let alike = self.peers.iter().filter(|peer| self.distance(peer) == distance);
        let usual = Usual::of(alike.map(&self.need), self.brief);
        self.known.push((distance, usual));
        usual.seconds(own)
    }

    /// Returns a number for the distance of a target. One whose link is not known counts as near, so that it is used, and
    /// thereby measured.
    fn distance(&self, device: &Device) -> i32 {
        let time = (self.link)(device).unwrap_or(self.nearest);
        if time > self.nearest { (time / self.nearest).log(LINK_FACTOR).min(64.0) as i32 } else { 0 }
    }
}

/// The usual time of some targets: the mean without outliers.
#[derive(Clone, Copy)]
struct Usual {
    mean: f64,
    /// Longer times are outliers.
    most: f64,
}

impl Usual {
    fn of(all: impl Iterator<Item = f64> + Clone, brief: f64) -> Usual {
        let least = all.clone().fold(f64::INFINITY, f64::min);
        let most = (OUTLIER_FACTOR * least).max(brief);
        let usual = all.filter(|need| *need <= most);
        let (sum, count) = usual.fold((0.0, 0.0), |(sum, count), need| (sum + need, count + 1.0));
        Usual { mean: sum / count, most }
    }

    /// Returns the assumed time of a target with this measured time.
    fn seconds(&self, own: f64) -> f64 {
        if own <= self.most { self.mean } else { own }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use xxhash_rust::xxh3::xxh3_64_with_seed;

    use super::*;
    use crate::config::Config;
    use crate::{PutOptions, Store};

    #[test]
    fn targets_of_a_tier_are_alike_but_for_odd_ones() {
        let usual_seconds = |own, all: &[f64], brief| Usual::of(all.iter().copied(), brief).seconds(own);
        let of = |all: &[f64]| all.iter().map(|own| usual_seconds(*own, all, 0.0)).collect::<Vec<_>>();
        assert_eq!(of(&[1.0, 2.0, 6.0]), [3.0, 3.0, 3.0]);
        assert_eq!(of(&[1.0, 3.0, 9.0]), [2.0, 2.0, 9.0]);
        assert_eq!(usual_seconds(9.0, &[1.0, 9.0], 10.0), 5.0);
        assert!(of(&[0.0, 0.0]) == [0.0, 0.0] && of(&[f64::INFINITY]) == [f64::INFINITY]);
    }

    #[test]
    fn writes_go_to_all_targets_though_some_were_busy_when_they_were_measured() {
        let dir = tempfile::tempdir().expect("a folder");
        let targets: Vec<String> = (0..4).map(|i| format!("'{}/{i}'", dir.path().display())).collect();
        let text = format!(
            "[store]\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'pfs'\nkind = 'directory'\ncapacity = '1GiB'\ntargets = [{}]\n",
            targets.join(", ")
        );
        let config = Config::parse(&text, "test").expect("a configuration");
        let store = Store::init(&dir.path().join("store"), &config).expect("a store");
        let rate = store.engine.tiers.devices[0].writing.rate();
        for device in &store.engine.tiers.devices[..2] {
            for _ in 0..30 {
                device.reading.note(1 << 20, Duration::from_secs_f64(4.0 * f64::from(1 << 20) / rate));
                device.writing.note(1 << 20, Duration::from_secs_f64(4.0 * f64::from(1 << 20) / rate));
            }
        }
        let mut counts = BTreeMap::<String, u32>::new();
        for number in 0..40_u64 {
            let key = format!("object {number}");
            // Bytes that no encoding shrinks, so that writes go to the target with the most free space.
            let random = (0..40_000).map(|at| xxh3_64_with_seed(&[], number * 40_000 + at)).collect::<Vec<_>>();
            let bytes = random.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
            store.put_bytes(key.as_bytes(), &bytes, &PutOptions::default()).expect("puts");
            let location = store.locate(key.as_bytes()).expect("a location");
            for replica in location.extents.iter().flat_map(|extent| &extent.replicas) {
                *counts.entry(replica.target.clone()).or_default() += 1;
            }
        }
        assert!(counts.len() == 4 && counts.values().all(|count| *count >= 5), "{counts:?}");
    }
}
