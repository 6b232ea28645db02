//! Random datasets, written and read through random views while replicas are deleted, added and removed, and compared
//! with values in memory. `TERRACE_DATASETS` sets their number, `TERRACE_SEED` the first one.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
#[path = "../../views/tests/support/mod.rs"]
mod support;

use support::{Random, declare, oracle};
use terrace::Store;
use terrace_datasets::{Dataset, Datasets, Declared, Error};
use terrace_views::layout::{of_replica, of_view};
use terrace_views::model::{Model, Sizes};

struct Case<'a> {
    store: &'a Store,
    dataset: Dataset,
    text: String,
    model: Model,
    sizes: Sizes,
    memory: oracle::Memory,
    steps: Vec<String>,
}

/// Makes a declaration whose replicas follow at once or later, with a view of the variable part.
fn declaration(r: &mut Random) -> String {
    let mut text = String::new();
    let made = declare::declaration(r);
    for (number, line) in made.lines().enumerate() {
        text.push_str(line);
        text.push('\n');
        if line.starts_with("replica") {
            let when = r.of(&["sync", "sync", "async 20ms", "async 10s", "on-close"]);
            text.push_str(&format!("    consistency {when}\n"));
            text.push_str(r.of(&["", "", "    codec \"zstd\"\n", "    tier disk\n", "    requirement min_storage\n"]));
            let as_hdf5 =
                format!("{text}    backend hdf5\n{}", made.lines().skip(number + 1).collect::<Vec<_>>().join("\n"));
            if r.chance(30) && Declared::parse(&as_hdf5).is_ok() {
                text.push_str("    backend hdf5\n");
            }
        }
    }
    if made.contains("var n uint32") {
        text.push_str("view lengths { var n = n }\n");
    }
    let Ok(declared) = Declared::parse(&text) else { return text };
    for leaf in declared.model.dataset.leaves.iter().filter(|leaf| leaf.path != "n") {
        let fill = format!("dataset {{ fill {} = {} }}\n", leaf.path, 1 + r.below(100));
        // Some types have no fill value.
        if r.chance(25) && Declared::parse(&format!("{text}{fill}")).is_ok() {
            text.push_str(&fill);
        }
    }
    text
}

impl Case<'_> {
    fn check(&mut self, r: &mut Random) {
        for _ in 0..12 {
            match r.below(12) {
                0..=4 => self.write(r),
                5 => self.resize(r),
                6 => self.delete(r),
                7 => self.dataset.repair(false).map(drop).unwrap(),
                8 => self.change(r),
                9 => self.settled(),
                _ => self.read(r),
            }
        }
        self.settled();
        self.write(r);
        self.write(r);
        self.deleted_while_behind(r);
    }

    /// Whatever is deleted, a read returns correct bytes or an error.
    fn deleted_while_behind(&mut self, r: &mut Random) {
        let (name, keys, _) =
            self.dataset.replicas().unwrap().remove(r.below(self.model.replicas.len() as u64) as usize);
        self.steps.push(format!("delete {name} while others are behind"));
        for key in keys {
            self.store.remove(key.as_bytes()).unwrap();
        }
        for again in [false, true] {
            for number in 0..self.model.views.len() {
                let right = self.memory.render(&self.image(number));
                let Ok(view) = self.dataset.view(&self.model.views[number].name) else { continue };
                let mut out = vec![0xee; right.len()];
                match view.read_at(0, &mut out) {
                    Ok(length) if length == right.len() => {
                        assert!(out == right, "{} is taken back, settled: {again}", self.model.views[number].name)
                    }
                    Ok(_) | Err(Error::Lost { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            self.dataset.settle().unwrap();
        }
    }

    fn image(&self, view: usize) -> oracle::Image {
        oracle::view(&self.model.views[view], &self.model, &self.sizes)
    }

    fn write(&mut self, r: &mut Random) {
        let number = r.below(self.model.views.len() as u64) as usize;
        let view = &self.model.views[number];
        if view.name == "lengths" {
            return;
        }
        let image = self.image(number);
        let offset = r.below(image.len() as u64 + 1);
        let most = if r.chance(50) { 40 } else { image.len() as u64 };
        let length = r.below((image.len() as u64 - offset).min(most) + 1);
        self.steps.push(format!("write {offset}..{} of {}", offset + length, view.name));
        let bytes: Vec<u8> = (0..length).map(|_| r.next() as u8).collect();
        let open = self.dataset.view(&view.name).unwrap();
        open.write_at(offset, &bytes).unwrap();
        self.memory.absorb(&image, offset as usize, &bytes);
        if r.chance(30) {
            open.close().unwrap();
        }
        assert!(matches!(open.write_at(image.len() as u64, &[1]), Err(Error::Beyond { .. })));
    }

    fn resize(&mut self, r: &mut Random) {
        let Some(n) = self.model.dataset.variable("n") else { return };
        let size = r.below(7);
        self.steps.push(format!("n = {size}"));
        self.sizes.insert(n, size);
        self.dataset.view("lengths").unwrap().write_at(0, &(size as u32).to_le_bytes()).unwrap();
        self.memory.resize(&self.model, &self.sizes);
        let leaf = self.model.dataset.variables[n].leaf;
        let image: oracle::Image = (0..4).map(|byte| Some((leaf, 0, byte))).collect();
        self.memory.absorb(&image, 0, &(size as u32).to_le_bytes());
    }

    fn read(&mut self, r: &mut Random) {
        for number in 0..self.model.views.len() {
            let name = self.model.views[number].name.clone();
            let right = self.memory.render(&self.image(number));
            let view = self.dataset.view(&name).unwrap();
            assert_eq!(view.length().unwrap(), right.len() as u64);
            let offset = r.below(right.len() as u64 + 1) as usize;
            let mut out = vec![0xee; r.below(right.len() as u64 + 10) as usize];
            let length = view.read_at(offset as u64, &mut out).unwrap();
            assert_eq!(length, out.len().min(right.len() - offset));
            assert!(out[..length] == right[offset..offset + length], "bytes from {offset} on of {name}");
        }
    }

    /// Deletes a replica, if the others have all of its elements.
    fn delete(&mut self, r: &mut Random) {
        let number = r.below(self.model.replicas.len() as u64) as usize;
        let others: Vec<usize> = (0..self.model.replicas.len()).filter(|other| *other != number).collect();
        if !self.model.made_of(&self.model.replicas[number], &others) {
            return;
        }
        // A replica that lags behind would hold the only copy.
        self.dataset.settle().unwrap();
        let (name, keys, _) = self.dataset.replicas().unwrap().remove(number);
        self.steps.push(format!("delete {name}"));
        for key in keys {
            self.store.remove(key.as_bytes()).unwrap();
        }
    }

    /// Adds a replica, or removes the last one.
    fn change(&mut self, r: &mut Random) {
        let view = &self.model.views[r.below(self.model.views.len() as u64) as usize].name;
        let extra = format!("replica extra complete {{\n    view {view}\n}}\n");
        let text = match self.text.find("replica extra") {
            Some(at) => self.text[..at].to_owned(),
            None => format!("{}{extra}", self.text),
        };
        let Ok(declared) = Declared::parse(&text) else { return };
        self.dataset.settle().unwrap();
        self.dataset.change(&declared).unwrap();
        self.steps.push(format!("changed to have {} replicas", declared.model.replicas.len()));
        (self.text, self.model) = (text, declared.model);
    }

    /// Checks that all replicas have the right bytes.
    fn settled(&mut self) {
        self.steps.push("settle".into());
        self.dataset.settle().unwrap();
        for (replica, (name, keys, behind)) in self.model.replicas.iter().zip(self.dataset.replicas().unwrap()) {
            assert!(!behind, "{name} is behind");
            let layout = of_replica(replica, &self.model.views, &self.model.dataset, &self.sizes).unwrap();
            for (image, key) in oracle::replica(replica, &self.model, &self.sizes).iter().zip(keys) {
                let found = self.store.get(key.as_bytes()).unwrap();
                let right = [layout.head.clone(), self.memory.render(image)].concat();
                let wrong: Vec<usize> =
                    (0..right.len().max(found.len())).filter(|i| found.get(*i) != right.get(*i)).collect();
                assert!(
                    wrong.is_empty(),
                    "{key}: bytes {:?} of {} are wrong",
                    &wrong[..wrong.len().min(20)],
                    right.len()
                );
            }
        }
    }
}

/// Runs a case. Returns whether its declaration was valid.
fn case(store: &Store, datasets: &Datasets, seed: u64) -> bool {
    let mut r = Random::new(seed);
    let text = declaration(&mut r);
    let Ok(declared) = Declared::parse(&text) else { return false };
    let sizes: Sizes = declared.model.dataset.variable("n").map(|n| (n, 0)).into_iter().collect();
    if declared.model.views.iter().any(|view| of_view(view, &declared.model.dataset, &sizes).is_err()) {
        return false;
    }
    let name = format!("d{seed}");
    let dataset = datasets.add(&name, &text).unwrap();
    let memory = oracle::Memory::unwritten(&declared.model, &sizes);
    let mut case = Case { store, dataset, text, model: declared.model, sizes, memory, steps: Vec::new() };
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.check(&mut r)));
    assert!(done.is_ok(), "TERRACE_SEED={seed} shows it: {:#?}\n{}", case.steps, case.text);
    datasets.remove(&name).unwrap();
    assert!(store.list(format!("datasets/{name}").as_bytes(), None, 1).unwrap().is_empty());
    true
}

#[test]
fn random_datasets_equal_values_in_memory() {
    let wanted: u64 = std::env::var("TERRACE_DATASETS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let first: u64 = std::env::var("TERRACE_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let datasets = Datasets::new(&store);
    let good = (first..first + wanted).filter(|seed| case(&store, &datasets, *seed)).count();
    println!("{good} datasets; {} more made no sense", wanted - good as u64);
    assert!(wanted < 10 || good as u64 > wanted / 2);
}
