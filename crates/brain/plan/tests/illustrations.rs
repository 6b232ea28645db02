//! HReplica's illustration in Figure 3 and measurement in Figure 6b, as plans.

mod storage;

use storage::{BYTES_PER_MIB, expected, policy, storage};
use terrace_codec::{ALL_ENCODINGS, Encoding};
use terrace_cost::Costs;
use terrace_plan::plan::{Memo, Plan, Want, plan};
use terrace_plan::policy::{Ack, Ask, Budget, Policy, Replicas};
use terrace_plan::snapshot::Snapshot;

fn planned(bytes: u64, reads: f64, snapshot: &Snapshot, policy: &Policy, costs: &Costs) -> Plan {
    plan(&Want { reads, ..Want::bytes(bytes) }, snapshot, policy, costs, &mut Memo::default()).expect("room").clone()
}

fn no_codec() -> Costs {
    Costs::new([])
}

#[test]
fn most_fault_tolerance_in_the_same_space() {
    let disks = storage(&[("disks", true, 6, 100e6, 1e-4, 1024)]);
    let heavy =
        Costs::new([(ALL_ENCODINGS[1], expected(2e9, 4e9, 1.2)), (ALL_ENCODINGS[2], expected(500e6, 900e6, 2.6))]);
    let wait = || Ask { ack: Some(Ack::Replicated), ..Ask::default() };
    let two = policy(&[], Ask { replicas: Some(2), ..wait() }, Replicas::default());
    let most = policy(&["max_read_availability"], Ask { budget: Some(Budget(2.0)), ..wait() }, Replicas::default());
    let before = planned(BYTES_PER_MIB, 0.0, &disks, &two, &no_codec());
    let after = planned(BYTES_PER_MIB, 0.0, &disks, &most, &heavy);
    assert_eq!((before.replicas.len(), after.replicas.len()), (2, 5), "2.5x the replicas");
    assert!(after.stored() <= before.stored(), "{} bytes instead of {}", after.stored(), before.stored());
    let dearer = after.cost.first as f64 / before.cost.first as f64;
    assert!((1.0..=1.6).contains(&dearer), "{dearer}x the cost of the write");
}

#[test]
fn best_latency_and_less_storage() {
    let levels =
        [("ram", false, 1, 2e9, 1e-6, 2), ("nvme", true, 2, 1e9, 1e-4, 64), ("pfs", true, 4, 100e6, 5e-3, 4096)];
    let codecs =
        Costs::new([(ALL_ENCODINGS[1], expected(800e6, 2e9, 1.3)), (ALL_ENCODINGS[2], expected(200e6, 600e6, 1.8))]);
    let range = Replicas::default();
    let fast = Policy { replicas: 3, ..policy(&["min_read_latency"], Ask::default(), range) };
    let both = policy(&["min_read_latency", "min_storage"], Ask::default(), range);
    let (mut stored, mut before) = (0, 0);
    let (mut full, mut dense) = (storage(&levels), storage(&levels));
    // Three blocks, hottest first. Each one reduces the space for the next.
    for reads in [40.0, 10.0, 1.0] {
        let raw = planned(BYTES_PER_MIB, reads, &full, &fast, &no_codec());
        let mixed = planned(BYTES_PER_MIB, reads, &dense, &both, &codecs);
        assert_eq!(mixed.replicas.len(), 3);
        assert!(mixed.replicas[0].iter().all(|piece| piece.encoding == Encoding::NONE), "one replica is raw");
        assert!(
            mixed.replicas[1..].iter().flatten().all(|piece| piece.encoding == ALL_ENCODINGS[2]),
            "the others are dense"
        );
        assert_eq!(mixed.replicas[0], raw.replicas[0], "what is read is where it was");
        (stored, before) = (stored + mixed.stored(), before + raw.stored());
        for (plan, snapshot) in [(raw, &mut full), (mixed, &mut dense)] {
            for piece in plan.replicas.iter().flatten() {
                let target = usize::from(piece.target);
                snapshot.set_space(target, snapshot.targets()[target].free - piece.stored, 0);
            }
        }
    }
    assert!(stored * 10 <= before * 9, "{stored} bytes are not a tenth less than {before}");
}

#[test]
fn the_papers_model_keeps_one_replica_raw_by_its_weights_alone() {
    let disks = storage(&[("nvme", true, 3, 1e9, 1e-4, 64)]);
    let codecs =
        Costs::new([(ALL_ENCODINGS[1], expected(800e6, 2e9, 1.3)), (ALL_ENCODINGS[2], expected(200e6, 600e6, 1.8))]);
    let both = policy(&["min_read_latency", "min_storage"], Ask::default(), Replicas::default());
    let paper = Policy { model: terrace_cost::Model::Paper, raw_first: false, ..both };
    let plan = planned(BYTES_PER_MIB, 1.0, &disks, &paper, &codecs);
    let encodings: Vec<Encoding> = plan.replicas.iter().map(|pieces| pieces[0].encoding).collect();
    assert_eq!(encodings, [Encoding::NONE, ALL_ENCODINGS[2], ALL_ENCODINGS[2]]);
}

#[test]
fn nine_replicas_in_the_space_of_three() {
    let levels = [
        ("nvme", true, 2, 60e6, 1e-4, 1024),
        ("burst", true, 4, 3.1e6, 1e-3, 4096),
        ("pfs", true, 6, 1e6, 8e-3, 1 << 20),
    ];
    let tiers = storage(&levels);
    let kernel = Costs::new([
        (ALL_ENCODINGS[1], expected(700e6, 2e9, 1.9)),
        (ALL_ENCODINGS[2], expected(400e6, 1e9, 2.6)),
        (ALL_ENCODINGS[3], expected(150e6, 700e6, 3.4)),
        (ALL_ENCODINGS[4], expected(40e6, 600e6, 3.8)),
    ]);
    let range = Replicas { max: 9, ..Replicas::default() };
    let most = policy(&["max_read_availability"], Ask { budget: Some(Budget(3.0)), ..Ask::default() }, range);
    let three = policy(&[], Ask { replicas: Some(3), ..Ask::default() }, range);
    let plain = planned(BYTES_PER_MIB, 0.0, &tiers, &three, &no_codec());
    let plan = planned(BYTES_PER_MIB, 0.0, &tiers, &most, &kernel);
    assert_eq!((plain.replicas.len(), plan.replicas.len()), (3, 9));
    assert!(plan.stored() <= plain.stored());
    assert!(plan.cost.first <= plain.cost.first, "{:?} instead of {:?}", plan.cost, plain.cost);
    let less = planned(BYTES_PER_MIB, 0.0, &tiers, &Policy { budget: Some(Budget(2.0)), ..most }, &kernel);
    assert_eq!(less.replicas.len(), 7, "as many as the budget pays: 2.0 x 3.8");
}
