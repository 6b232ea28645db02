//! Keeps the steps of a simulation: in memory and on a disk, and the last one, from which the next run begins, durably on both disks. Then it
//! reads a step, frees the memory, and prints where the bytes are.

use std::error::Error;
use std::path::Path;

use terrace::{Ack, Config, Element, PutOptions, Store};

const STEP_COUNT: usize = 4;
const CELL_COUNT: usize = 100_000;

/// Returns the configuration of a store with a tier in memory above one of two disks. The directories stand for disks here.
fn configuration(dir: &Path) -> String {
    format!(
        "[store]\nreplicas = {{ default = 2 }}\n\
         [[tier]]\nname = 'memory'\nkind = 'directory'\npersistent = false\ntargets = ['{0}/memory']\n\
         [[tier]]\nname = 'disks'\nkind = 'directory'\ntargets = ['{0}/disk-a', '{0}/disk-b']\n",
        dir.display()
    )
}

/// Returns the state of all cells after a step, as bytes.
fn simulate(step: usize) -> Vec<u8> {
    (0..CELL_COUNT).flat_map(|cell| ((cell as f64 / 1000.0).sin() * (step + 1) as f64).to_le_bytes()).collect()
}

fn key(step: usize) -> Vec<u8> {
    format!("runs/a/step-{step}").into_bytes()
}

fn print_places(store: &Store, step: usize) -> Result<(), Box<dyn Error>> {
    let location = store.locate(&key(step))?;
    let tiers: Vec<&str> = location.extents.iter().flat_map(|e| &e.replicas).map(|r| r.tier.as_str()).collect();
    println!("step {step} is on {}", tiers.join(", "));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let config = Config::parse(&configuration(dir.path()), "keep-runs")?;
    let store = Store::init(&dir.path().join("store"), &config)?;

    let usual = PutOptions { element: Some(Element::F64), ..PutOptions::default() };
    let last = PutOptions { ack: Some(Ack::Durable), ..usual.clone() };
    for step in 0..STEP_COUNT {
        let options = if step + 1 == STEP_COUNT { &last } else { &usual };
        let mut receipt = store.put_bytes(&key(step), &simulate(step), options)?;
        // A put may return while replicas are still pending.
        store.wait(&mut receipt, Ack::Replicated)?;
        print_places(&store, step)?;
    }

    assert_eq!(store.get(&key(2))?, simulate(2));
    let mut cell = [0; 8];
    store.read_at(&key(2), 8 * 42, &mut cell)?;
    println!("cell 42 of step 2 is {:.3}", f64::from_le_bytes(cell));

    let moved = store.evict(b"runs/a", "memory")?;
    println!("{} replicas left memory, and {} were made elsewhere", moved.dropped, moved.made);
    for step in 0..STEP_COUNT {
        print_places(&store, step)?;
        assert_eq!(store.get(&key(step))?, simulate(step));
    }
    store.close()?;
    Ok(())
}
