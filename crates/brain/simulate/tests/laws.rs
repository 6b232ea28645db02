//! Laws of every simulation, and results that can be computed by hand.

use proptest::prelude::*;
use terrace_codec::Encoding;
use terrace_cost::Expected;
use terrace_plan::policy::{Ack, Policy};
use terrace_simulate::{
    Cluster, ClusterError, Error, Even, Job, Kind, Knows, Link, Outcome, Phase, Place, Planner, Tier, simulate,
};

const BYTES_PER_MIB: u64 = 1 << 20;

fn tier(name: &str, place: Place, targets: usize, speed: f64) -> Tier {
    Tier {
        name: name.into(),
        place,
        targets,
        write: speed,
        read: speed,
        latency: 0.0,
        lanes: 64,
        capacity: None,
        persistent: true,
        watts: 5.0,
        price: 10.0,
        link: None,
    }
}

fn cluster(nodes: usize, processes: usize, tiers: Vec<Tier>) -> Cluster {
    Cluster { nodes, cores: 2, core_watts: 10.0, processes, tiers, links: Vec::new() }
}

#[derive(Debug)]
struct Asked {
    work: Even,
    phases: Vec<Phase>,
    under_way: usize,
    replicas: u8,
    costs: Vec<(Encoding, Expected)>,
    knows: Knows,
}

impl Asked {
    fn plain(objects: usize, replicas: u8, ack: Ack) -> Asked {
        Asked {
            work: Even { steps: 1, objects, blocks: 1, kinds: vec![BYTES_PER_MIB] },
            phases: vec![Phase::Write { ack, computing: 0.0 }],
            under_way: 1,
            replicas,
            costs: Vec::new(),
            knows: Knows::Begun,
        }
    }

    fn of(&self, cluster: &Cluster) -> Result<Outcome, Error> {
        let ack = self.phases.iter().find_map(|p| if let Phase::Write { ack, .. } = p { Some(*ack) } else { None });
        let policy = Policy { replicas: self.replicas, ack: ack.unwrap_or_default(), ..Policy::default() };
        let kinds = self.work.kinds.iter().map(|bytes| Kind { bytes: *bytes, costs: self.costs.clone() }).collect();
        let job = Job { cluster, work: &self.work, phases: &self.phases, under_way: self.under_way, knows: self.knows };
        simulate(&job, &mut Planner::new(policy, 1.0, kinds, None))
    }
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-6 * b.abs().max(1e-9), "{a} is not {b}");
}

#[test]
fn one_process_on_one_target_takes_the_sum_of_its_parts() {
    let mut disk = tier("disk", Place::Shared, 1, 100e6);
    (disk.latency, disk.lanes) = (0.01, 1);
    let mut asked = Asked::plain(7, 1, Ack::Placed);
    asked.phases.push(Phase::Read(3));
    let outcome = asked.of(&cluster(1, 1, vec![disk])).expect("runs");
    let each = BYTES_PER_MIB as f64 / 100e6 + 0.01;
    close(outcome.phases[0].seconds, 7.0 * each);
    close(outcome.phases[1].seconds, 21.0 * each);
    close(outcome.joules, 28.0 * each * 5.0);
    close(outcome.cost, 7.0 * BYTES_PER_MIB as f64 * 10.0 / 1e12);
}

#[test]
fn latencies_overlap_in_lanes_and_bytes_do_not() {
    let mut disk = tier("disk", Place::Shared, 1, 100e6);
    (disk.latency, disk.lanes) = (0.1, 4);
    let asked = Asked { under_way: 4, ..Asked::plain(4, 1, Ack::Placed) };
    let outcome = asked.of(&cluster(1, 1, vec![disk])).expect("runs");
    close(outcome.seconds(), 4.0 * BYTES_PER_MIB as f64 / 100e6 + 0.1);
}

#[test]
fn a_core_encodes_then_the_target_writes_less() {
    let zstd: Encoding = "zstd-1".parse().expect("an encoding");
    let costs = vec![(zstd, Expected::from_speeds(200e6, 400e6, 2.0))];
    let mut asked = Asked { costs, ..Asked::plain(3, 1, Ack::Placed) };
    asked.phases.push(Phase::Read(1));
    let outcome = asked.of(&cluster(1, 1, vec![tier("disk", Place::Shared, 1, 10e6)])).expect("runs");
    let bytes = 3.0 * BYTES_PER_MIB as f64;
    close(outcome.phases[0].seconds, bytes / 200e6 + bytes / 2.0 / 10e6);
    close(outcome.phases[1].seconds, bytes / 400e6 + bytes / 2.0 / 10e6);
    close(outcome.stored(), bytes / 2.0);
}

#[test]
fn threads_that_wait_for_a_core_plan_once_they_have_one() {
    let zstd: Encoding = "zstd-1".parse().expect("an encoding");
    let costs = vec![(zstd, Expected::from_speeds(200e6, 400e6, 2.0))];
    let asked = Asked { costs, under_way: 8, ..Asked::plain(8, 1, Ack::Placed) };
    let eight = Cluster { cores: 1, ..cluster(1, 1, vec![tier("disk", Place::Shared, 8, 10e6)]) };
    // Each process knows the writes of those before it, and uses a target of its own.
    let bytes = BYTES_PER_MIB as f64;
    close(asked.of(&eight).expect("runs").seconds(), 8.0 * bytes / 200e6 + bytes / 2.0 / 10e6);
}

#[test]
fn replicas_on_one_tier_are_read_from_all_its_targets() {
    let mut asked = Asked { under_way: 2, ..Asked::plain(40, 2, Ack::Replicated) };
    asked.phases.push(Phase::Read(1));
    let outcome = asked.of(&cluster(1, 1, vec![tier("disk", Place::Shared, 2, 10e6)])).expect("runs");
    close(outcome.phases[1].seconds, 20.0 * BYTES_PER_MIB as f64 / 10e6);
}

#[test]
fn pending_replicas_are_made_while_writes_go_on() {
    let tiers = vec![tier("fast", Place::Shared, 1, 100e6), tier("slow", Place::Shared, 1, 10e6)];
    let bytes = 5.0 * BYTES_PER_MIB as f64;
    let placed = Asked::plain(5, 2, Ack::Placed).of(&cluster(1, 1, tiers.clone())).expect("runs");
    close(placed.seconds(), bytes / 100e6);
    close(placed.phases[0].settled, BYTES_PER_MIB as f64 / 100e6 + bytes / 10e6);
    let replicated = Asked::plain(5, 2, Ack::Replicated).of(&cluster(1, 1, tiers)).expect("runs");
    close(replicated.seconds(), bytes / 100e6 + bytes / 10e6);
}

#[test]
fn targets_behind_a_link_share_it() {
    let link = Link { name: "ethernet".into(), speed: 50e6, latency: 0.0, place: Place::Shared };
    let mut pfs = tier("pfs", Place::Shared, 4, 1e9);
    pfs.link = Some(0);
    let cluster = Cluster { links: vec![link], ..cluster(2, 8, vec![pfs]) };
    let outcome = Asked::plain(10, 1, Ack::Placed).of(&cluster).expect("runs");
    let least = 80.0 * BYTES_PER_MIB as f64 / 50e6;
    assert!(outcome.seconds() >= least && outcome.seconds() < 1.02 * least + 0.01, "{}", outcome.seconds());
}

/// 40 nodes with a disk of their own, and those of the others behind a link.
#[test]
fn replicas_go_to_the_own_node_and_then_to_all_peers() {
    let link = Link { name: "ethernet".into(), speed: 1e9, latency: 1e-4, place: Place::Node };
    let own = Tier { capacity: Some(100 * BYTES_PER_MIB), ..tier("own", Place::Node, 2, 2e9) };
    let peers = Tier { link: Some(0), capacity: None, ..tier("peers", Place::Peers(0), 0, 2e9) };
    let cluster = Cluster { links: vec![link], ..cluster(40, 40, vec![own, peers]) };
    assert_eq!(cluster.snapshot().expect("a snapshot").targets().len(), 2 + 39 * 2);
    let mut asked = Asked::plain(8, 2, Ack::Replicated);
    asked.phases.push(Phase::Read(1));
    let outcome = asked.of(&cluster).expect("runs");
    let bytes = 40 * 8 * BYTES_PER_MIB;
    assert_eq!(outcome.tiers, [bytes, bytes], "one replica on the own node, the other on another one");
    // Both replicas of a block end on disks; its own node's is read, at the speed of one disk or better.
    assert!(outcome.phases[1].seconds <= 8.0 * BYTES_PER_MIB as f64 / 2e9 * 1.01, "{:?}", outcome.phases);
    // More than two peers' disks would have to wait for each other if all nodes chose the same ones.
    assert!(outcome.phases[0].seconds < 5.0 * 8.0 * BYTES_PER_MIB as f64 / 1e9, "{:?}", outcome.phases);
    // The peers' disks are those of the nodes, so that their space is one.
    let full = Asked::plain(500, 1, Ack::Placed).of(&cluster).expect_err("no room");
    assert!(matches!(full, Error::NoRoom { .. }), "{full}");
}

#[test]
fn computing_is_not_waiting() {
    let mut asked = Asked::plain(2, 1, Ack::Placed);
    (asked.work.steps, asked.phases) = (3, vec![Phase::Write { ack: Ack::Placed, computing: 10.0 }]);
    let outcome = asked.of(&cluster(1, 1, vec![tier("disk", Place::Shared, 1, 100e6)])).expect("runs");
    close(outcome.seconds(), 6.0 * BYTES_PER_MIB as f64 / 100e6);
    close(outcome.phases[0].elapsed, 20.0 + 6.0 * BYTES_PER_MIB as f64 / 100e6);
}

#[test]
fn full_tiers_overflow_and_a_full_last_tier_is_an_error() {
    let mut tiers = vec![tier("fast", Place::Node, 1, 1e9), tier("slow", Place::Shared, 1, 1e8)];
    tiers[0].capacity = Some(3 * BYTES_PER_MIB);
    let outcome = Asked::plain(5, 1, Ack::Placed).of(&cluster(2, 2, tiers.clone())).expect("runs");
    assert!(outcome.tiers[0] <= 6 * BYTES_PER_MIB && outcome.tiers[0] > 4 * BYTES_PER_MIB, "{:?}", outcome.tiers);
    assert_eq!(outcome.tiers.iter().sum::<u64>(), 10 * BYTES_PER_MIB);
    tiers[1].capacity = Some(BYTES_PER_MIB);
    let error = Asked::plain(5, 1, Ack::Placed).of(&cluster(2, 2, tiers)).expect_err("is full");
    assert!(matches!(error, Error::NoRoom { step: 0, .. }) && error.to_string().contains("capacity"), "{error}");
}

#[test]
fn min_energy_draws_less_than_any_single_encoding() {
    let encodings = [("lz4", 700e6, 2.5e9, 1.3), ("zstd-3", 250e6, 900e6, 1.9)];
    let of = |(name, compress, decompress, ratio): (&str, f64, f64, f64)| {
        (name.parse().expect("an encoding"), Expected::from_speeds(compress, decompress, ratio))
    };
    let costs: Vec<(Encoding, Expected)> = encodings.into_iter().map(of).collect();
    // Sixteen processes wait for the first tier at a time. Waiting draws no power, encoding does.
    let nvme = Tier { watts: 8.0, ..tier("nvme", Place::Shared, 1, 2e9) };
    let tiers = vec![nvme, Tier { watts: 9.0, ..tier("disk", Place::Shared, 4, 180e6) }];
    let cluster = Cluster { cores: 16, core_watts: 6.0, ..cluster(1, 8, tiers) };
    let phases = [Phase::Write { ack: Ack::Placed, computing: 0.0 }, Phase::Read(1)];
    let work = Even { steps: 2, objects: 4, blocks: 8, kinds: vec![16 * BYTES_PER_MIB] };
    let job = Job { cluster: &cluster, work: &work, phases: &phases, under_way: 2, knows: Knows::Begun };
    let joules = |energy: bool, only: Option<Encoding>| {
        let policy = Policy { replicas: 2, energy, ..Policy::default() };
        let kinds = vec![Kind { bytes: 16 * BYTES_PER_MIB, costs: costs.clone() }];
        simulate(&job, &mut Planner::new(policy, 1.0, kinds, only)).expect("runs").joules
    };
    let ours = joules(true, None);
    for only in costs.iter().map(|(encoding, _)| *encoding).chain([Encoding::NONE]) {
        assert!(ours <= joules(false, Some(only)) * 1.001, "{ours} J, {} J by {only}", joules(false, Some(only)));
    }
}

#[test]
fn invalid_clusters_are_refused_with_a_message() {
    let good = cluster(1, 1, vec![tier("disk", Place::Shared, 1, 1e8)]);
    let of = |change: &dyn Fn(&mut Cluster)| {
        let mut cluster = good.clone();
        change(&mut cluster);
        cluster.check().expect_err("cannot be")
    };
    assert_eq!(of(&|c| c.processes = 0), ClusterError::None("processes".into()));
    assert!(of(&|c| c.tiers[0].targets = 70_000).to_string().contains("one target"));
    assert!(of(&|c| c.tiers[0].write = f64::NAN).to_string().contains("\"disk\""));
    assert!(of(&|c| c.tiers[0].price = -1.0).to_string().contains("at least 0"));
    assert_eq!(of(&|c| c.tiers[0].link = Some(3)), ClusterError::NoLink("disk".into()));
    assert_eq!(of(&|c| c.tiers[0].place = Place::Peers(0)), ClusterError::NoPeers("disk".into()));
    assert!(of(&|c| c.tiers.clear()).to_string().contains("tiers"));
}

fn anything() -> impl Strategy<Value = (Cluster, Asked)> {
    let a_tier = (any_place(), 1usize..4, 1e6f64..1e9, 0.0f64..0.01, 1u16..9);
    let tiers = prop::collection::vec(a_tier, 1..4);
    let sizes = (1usize..4, 1usize..7, 1usize..4, 1usize..9, 1usize..3, 1usize..5);
    (tiers, sizes, 1u8..4, prop::bool::ANY, 0usize..3).prop_map(|(tiers, sizes, replicas, waits, reads)| {
        let (nodes, processes, steps, objects, blocks, under_way) = sizes;
        let tiers = tiers.into_iter().enumerate().map(|(at, (place, targets, speed, latency, lanes))| Tier {
            latency,
            lanes,
            ..tier(&format!("t{at}"), place, targets, speed)
        });
        let ack = if waits { Ack::Replicated } else { Ack::Placed };
        let work = Even { steps, objects, blocks, kinds: vec![BYTES_PER_MIB, BYTES_PER_MIB / 2, 5000] };
        let phases = vec![Phase::Write { ack, computing: 0.0 }, Phase::Read(reads)];
        (
            cluster(nodes, processes, tiers.collect()),
            Asked { work, phases, under_way, replicas, costs: Vec::new(), knows: Knows::Begun },
        )
    })
}

fn any_place() -> impl Strategy<Value = Place> {
    prop_oneof![Just(Place::Node), Just(Place::Shared)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn time_is_between_full_overlap_and_no_overlap((cluster, asked) in anything()) {
        let outcome = asked.of(&cluster).expect("runs");
        prop_assert_eq!(&outcome, &asked.of(&cluster).expect("runs again"));
        let replicas = outcome.stored() / outcome.raw;
        prop_assert!((replicas - outcome.replicas).abs() < 1e-6, "{replicas} of {}", outcome.replicas);
        let (mut least, mut all) = (0.0f64, 0.0);
        for (tier, bytes) in cluster.tiers.iter().zip(&outcome.tiers) {
            let targets = tier.targets * if tier.place == Place::Node { cluster.nodes } else { 1 };
            least = least.max(*bytes as f64 / tier.write / targets as f64);
            let operations = asked.work.steps * asked.work.objects * asked.work.blocks * cluster.processes;
            all += *bytes as f64 / tier.write + (operations * usize::from(asked.replicas)) as f64 * tier.latency;
        }
        let writing = outcome.phases[0];
        prop_assert!(writing.settled >= least * (1.0 - 1e-6), "{} under {least}", writing.settled);
        prop_assert!(writing.settled <= all * (1.0 + 1e-6), "{} above {all}", writing.settled);
        prop_assert!(writing.seconds <= writing.elapsed * (1.0 + 1e-9) && writing.elapsed <= writing.settled);
        let Phase::Read(times) = asked.phases[1] else { unreachable!() };
        prop_assert!((outcome.phases[1].seconds > 0.0) == (times > 0));
    }

    #[test]
    fn threads_that_wait_for_cores_write_everything((cluster, asked) in anything(), cores in 1usize..4) {
        let raw = asked.of(&cluster).expect("runs").raw;
        let lz4: Encoding = "lz4".parse().expect("an encoding");
        let costs = vec![(lz4, Expected::from_speeds(1e9, 2e9, 1.5))];
        let outcome = Asked { costs, ..asked }.of(&Cluster { cores, ..cluster }).expect("runs");
        prop_assert_eq!(outcome.raw, raw);
    }

    #[test]
    fn more_lanes_are_not_slower((cluster, asked) in anything()) {
        let mut more = cluster.clone();
        more.tiers.iter_mut().for_each(|tier| tier.lanes *= 4);
        // The learned speeds change placements.
        let asked = Asked { knows: Knows::All, ..asked };
        let (few, many) = (asked.of(&cluster).expect("runs"), asked.of(&more).expect("runs"));
        let longest = cluster.tiers.iter().map(|tier| BYTES_PER_MIB as f64 / tier.write + tier.latency).fold(0.0, f64::max);
        let (few, many) = (few.phases[0].settled, many.phases[0].settled);
        // With more servers, work in another order may take longer, but never twice as long (Graham, 1966).
        prop_assert!(many <= few * 2.0 + 4.0 * longest, "{many} after {few}");
    }

    #[test]
    fn more_targets_are_not_slower((cluster, asked) in anything()) {
        let mut one = cluster.clone();
        one.tiers.truncate(1);
        let mut more = one.clone();
        more.tiers[0].targets *= 3;
        let asked = Asked { replicas: 1, knows: Knows::All, ..asked };
        let (few, many) = (asked.of(&one).expect("runs"), asked.of(&more).expect("runs"));
        let longest = BYTES_PER_MIB as f64 / one.tiers[0].write + one.tiers[0].latency;
        let (few, many) = (few.phases[0].settled, many.phases[0].settled);
        prop_assert!(many <= few * 1.1 + 4.0 * longest, "{many} after {few}");
    }
}
