//! Plans for a store that is not ours: shelves of boxes, each shelf with its own speed.
//!
//! The store describes itself as plain data, asks in plain words, and does what the plan says in its own way; what that
//! really took goes back, and the next plan is a better one.

use std::error::Error;

use terrace_codec::Encoding;
use terrace_cost::{Costs, Expected};
use terrace_plan::explain::explain;
use terrace_plan::plan::{Memo, Piece, Want, plan};
use terrace_plan::policy::{Ask, Replicas, resolve};
use terrace_plan::snapshot::{Snapshot, Target, Tier};

/// A shelf of the toy store.
struct Shelf {
    name: &'static str,
    lasts: bool,
    bytes_per_second: f64,
    latency: f64,
    free: u64,
}

/// The store: shelves and what was put on them.
struct Boxes {
    shelves: Vec<Shelf>,
    boxes: Vec<(usize, Encoding, u64)>,
}

impl Boxes {
    fn describe(&self) -> Result<Snapshot, Box<dyn Error>> {
        let tier = |shelf: &Shelf| Tier { name: shelf.name.into(), persistent: shelf.lasts, watts: 8.0 };
        let target = |(index, shelf): (usize, &Shelf)| Target {
            tier: index as u8,
            domain: index as u32,
            read: shelf.bytes_per_second,
            write: shelf.bytes_per_second,
            latency: shelf.latency,
            free: shelf.free,
            reserved: 0,
            load: 0.0,
            lanes: 1,
            plain: false,
            near: false,
            up: true,
        };
        let tiers = self.shelves.iter().map(tier).collect();
        Ok(Snapshot::new(tiers, self.shelves.iter().enumerate().map(target).collect(), 10.0)?)
    }

    /// Puts a piece in a box, and says what that really took: this data shrinks to two thirds, whatever was expected.
    fn put(&mut self, piece: &Piece) -> Expected {
        let raw = u64::from(piece.pages) * 4096;
        let shrinks = piece.encoding != Encoding::NONE;
        let stored = if shrinks { raw * 2 / 3 } else { raw };
        self.shelves[usize::from(piece.target)].free -= stored;
        self.boxes.push((piece.target.into(), piece.encoding, stored));
        Expected::from_speeds(2.0e8, f64::NAN, raw as f64 / stored as f64)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let shelf = |name, lasts, bytes_per_second, latency, free| Shelf { name, lasts, bytes_per_second, latency, free };
    let shelves = vec![
        shelf("desk", false, 3e9, 1e-6, 24 << 20),
        shelf("cabinet", true, 4e8, 1e-4, 256 << 20),
        shelf("cellar", true, 6e7, 1e-2, 4 << 30),
    ];
    let mut store = Boxes { shelves, boxes: Vec::new() };

    // What is wanted, in words, and what came of it.
    let ask = Ask { requirements: vec!["min_read_latency".parse()?, "min_storage".parse()?], ..Ask::default() };
    let (policy, why) = resolve(&ask, &Ask::default(), &Ask::default(), Replicas::default());
    why.iter().for_each(|resolution| println!("{resolution}"));

    // What the store's two ways to pack are believed to do.
    let mut beliefs: Vec<(Encoding, Expected)> = vec![
        ("lz4".parse()?, Expected::from_speeds(7e8, 2.5e9, 1.45)),
        ("zstd-3".parse()?, Expected::from_speeds(2.5e8, 9e8, 3.0)),
    ];
    let mut memo = Memo::default();
    let want = Want::bytes(4 << 20);
    for round in 0..12 {
        let (snapshot, costs) = (store.describe()?, Costs::new(beliefs.clone()));
        let plan = plan(&want, &snapshot, &policy, &costs, &mut memo)?;
        if round == 0 {
            print!("{}", explain(&want, &snapshot, &policy, &costs, &why, Some(plan)));
        }
        let expected = plan.stored();
        let before: usize = store.boxes.len();
        for piece in plan.replicas.iter().flatten() {
            let measured = store.put(piece);
            if let Some((_, belief)) = beliefs.iter_mut().find(|(encoding, _)| *encoding == piece.encoding) {
                *belief = belief.learn(&measured, 0.3);
            }
        }
        let really: u64 = store.boxes[before..].iter().map(|(_, _, stored)| stored).sum();
        let on = |(shelf, encoding, _): &(usize, Encoding, u64)| format!("{} {encoding}", store.shelves[*shelf].name);
        let places: Vec<String> = store.boxes[before..].iter().map(on).collect();
        println!("{round:>2}: {} ({really} bytes, {expected} expected)", places.join(", "));
    }
    println!("{} of {} plans were remembered", memo.hits, memo.hits + memo.misses);
    Ok(())
}
