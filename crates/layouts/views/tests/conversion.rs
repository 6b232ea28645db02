//! Random datasets, views and requests, compared with the oracle. `TERRACE_CONVERSIONS` sets the number of cases.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use support::{Random, declare, oracle};
use terrace_views::convert::{Elements, Gathered, Plan, Stored, Touched, Window, WindowMut};
use terrace_views::layout::{Layout, of_replica, of_view};
use terrace_views::model::{Model, Sizes, View};
use terrace_views::{Diagnostics, language};

/// Returns the model of a declaration, if it is valid.
fn model(text: &str) -> Option<Model> {
    let mut diagnostics = Diagnostics::default();
    let parsed = language::parse(text, 0, &mut diagnostics);
    assert!(!diagnostics.failed(), "{:#?}\n{text}", diagnostics.sorted());
    let model = Model::of(&parsed.file, &mut diagnostics);
    (!diagnostics.failed()).then_some(model)
}

struct Case {
    text: String,
    model: Model,
    sizes: Sizes,
    replicas: Vec<Layout>,
    images: Vec<Vec<oracle::Image>>,
}

impl Case {
    fn new(r: &mut Random) -> Option<Case> {
        let text = declare::declaration(r);
        let model = model(&text)?;
        let sizes: Sizes = (0..model.dataset.variables.len()).map(|variable| (variable, r.below(6))).collect();
        let replicas: Result<Vec<Layout>, _> =
            model.replicas.iter().map(|one| of_replica(one, &model.views, &model.dataset, &sizes)).collect();
        let images = model.replicas.iter().map(|one| oracle::replica(one, &model, &sizes)).collect();
        Some(Case { text, replicas: replicas.unwrap(), images, model, sizes })
    }

    /// Returns the replicas' files, one after the other.
    fn files(&self, memory: &mut oracle::Memory) -> Vec<Vec<u8>> {
        self.images.iter().flatten().map(|image| memory.render(image)).collect()
    }

    fn stored(&self) -> Vec<Stored<'_>> {
        let mut first_file = 0;
        let stored = self.replicas.iter().map(|layout| {
            let one = Stored { layout, first_file, rate: 1.0 };
            first_file += layout.files.len();
            one
        });
        stored.collect()
    }

    /// Makes requests through each view. Returns their number.
    fn check(&self, r: &mut Random) -> u64 {
        let mut memory = oracle::Memory::random(r, &self.model, &self.sizes);
        let mut requests = 0;
        for view in &self.model.views {
            let layout = of_view(view, &self.model.dataset, &self.sizes).unwrap();
            let image = oracle::view(view, &self.model, &self.sizes);
            assert_eq!(layout.files, [image.len() as u64], "{} in\n{}", view.name, self.text);
            let stored = self.stored();
            let reading = Plan::reading(&layout, &stored);
            let elements = Elements::new(&layout, &self.model.dataset, &self.sizes);
            for turn in 0..4 {
                requests += 1;
                let offset = if turn == 0 { 0 } else { r.below(image.len() as u64 + 1) };
                let left = image.len() as u64 - offset;
                let most = if r.chance(50) { left.min(40) } else { left };
                let length = if turn == 0 { left } else { r.below(most + 1) };
                let range = offset as usize..(offset + length) as usize;
                if turn == 2 {
                    self.shown(&elements, &layout, &image, range.clone(), &view.name);
                }
                let files = self.files(&mut memory);
                let windows: Vec<Window> = files.iter().map(|file| file.as_slice().into()).collect();
                let mut out = vec![0xee; length as usize];
                reading.read(offset, &mut out, &windows).unwrap();
                let right = memory.render(&image);
                let gap = r.of(&[0, 3, 50, 1000]);
                let scattered = gathered(&reading.touches(offset, length, gap).unwrap(), &files);
                let mut again = vec![0xee; length as usize];
                reading.read_gathered(offset, &mut again, &scattered).unwrap();
                assert!(again == out, "reading {range:?} of {} from parts in\n{}", view.name, self.text);
                compare(&out, &right[range.clone()], || {
                    format!("reading {range:?} of {} in\n{}", view.name, self.text)
                });
                if turn % 2 == 1 {
                    let bytes: Vec<u8> = (0..length).map(|_| r.next() as u8).collect();
                    self.write(view, &layout, range, &bytes, &mut memory);
                }
            }
        }
        requests
    }

    /// The slabs of a request have all of its elements, no other leaf, and of a single element no other.
    fn shown(&self, elements: &Elements, view: &Layout, image: &oracle::Image, range: Range<usize>, name: &str) {
        let slabs = elements.shown(range.start as u64..range.end as u64).unwrap();
        let shown: HashSet<(usize, u64)> = image[range.clone()].iter().flatten().map(|o| (o.0, o.1)).collect();
        let context = || format!("{slabs:?} for {range:?} of {name} in\n{}", self.text);
        let mut counts: HashMap<usize, u64> = HashMap::new();
        shown.iter().for_each(|(leaf, _)| *counts.entry(*leaf).or_default() += 1);
        for (leaf, element) in &shown {
            let slab = slabs.iter().find(|slab| slab.leaf == *leaf).unwrap_or_else(|| panic!("{leaf}: {}", context()));
            let single = slab.indices.iter().all(|indices| indices.end - indices.start == 1);
            assert!(counts[leaf] > 1 || !view.is_regular() || single, "{leaf} {element}: {}", context());
            let mut left = *element;
            let lengths = self.model.dataset.leaves[*leaf].lengths.iter().map(|length| length.at(&self.sizes));
            for (length, indices) in lengths.collect::<Vec<_>>().into_iter().zip(&slab.indices).rev() {
                assert!(indices.contains(&(left % length)), "{leaf} {element}: {}", context());
                left /= length;
            }
        }
        // Elements of irregular leaves are not looked at one by one.
        let leaves: HashSet<usize> = shown.iter().map(|(leaf, _)| *leaf).collect();
        assert!(!view.is_regular() || slabs.len() == leaves.len(), "{}", context());
    }

    /// Writes to all replicas through a view.
    fn write(&self, view: &View, layout: &Layout, range: Range<usize>, bytes: &[u8], memory: &mut oracle::Memory) {
        let image = oracle::view(view, &self.model, &self.sizes);
        let mut files = self.files(memory);
        for one in self.stored() {
            let mut windows: Vec<WindowMut> = files.iter_mut().map(|file| file.as_mut_slice().into()).collect();
            let plan = Plan::writing(layout, one);
            plan.write(range.start as u64, bytes, &mut windows).unwrap();
            let touched = plan.touches(range.start as u64, bytes.len() as u64, 0).unwrap();
            self.scattered(&plan, range.start as u64, bytes, &files, memory);
            self.touched(&image[range.clone()], one, &touched, &view.name);
        }
        memory.absorb(&image, range.start, bytes);
        let right = self.files(memory);
        for (file, (ours, right)) in files.iter().zip(&right).enumerate() {
            compare(ours, right, || format!("file {file}, writing {range:?} of {} in\n{}", view.name, self.text));
        }
    }
}

/// Reads parts of files.
fn gathered(touched: &[Touched], files: &[Vec<u8>]) -> Gathered {
    let mut parts = Gathered::new(touched.to_vec());
    let copy = |part: &Touched, into: &mut [u8]| {
        into.copy_from_slice(&files[part.file][part.bytes.start as usize..part.bytes.end as usize]);
        Ok::<(), ()>(())
    };
    parts.fill(copy).unwrap();
    parts
}

impl Case {
    /// Writing to parts of files has the same effect as writing to the files. Parts that are overwritten completely
    /// need not be read first.
    fn scattered(&self, plan: &Plan, offset: u64, bytes: &[u8], written: &[Vec<u8>], memory: &mut oracle::Memory) {
        let before = self.files(memory);
        for gap in [0, 7, 300] {
            let touched = plan.touches(offset, bytes.len() as u64, gap).unwrap();
            let mut parts = Gathered::new(touched);
            let fill = |part: &Touched, into: &mut [u8]| {
                match part.whole {
                    true => into.fill(0xdd),
                    false => {
                        into.copy_from_slice(&before[part.file][part.bytes.start as usize..part.bytes.end as usize])
                    }
                }
                Ok::<(), ()>(())
            };
            parts.fill(fill).unwrap();
            plan.write_gathered(offset, bytes, &mut parts).unwrap();
            for (part, now) in parts.parts() {
                let right = &written[part.file][part.bytes.start as usize..part.bytes.end as usize];
                assert!(now == right, "{part:?} with gaps of {gap} in\n{}", self.text);
            }
        }
    }

    /// The bytes of a replica that contain written elements are exactly the touched bytes.
    fn touched(&self, written: &[Option<oracle::Origin>], one: Stored, touched: &[Touched], view: &str) {
        let written: HashSet<oracle::Origin> = written.iter().flatten().copied().collect();
        for (file, image) in self.images.iter().flatten().enumerate().skip(one.first_file).take(one.layout.files.len())
        {
            let mut ours = vec![false; image.len()];
            for own in touched.iter().filter(|own| own.file == file) {
                ours[own.bytes.start as usize..own.bytes.end as usize].fill(true);
            }
            let right: Vec<bool> = image.iter().map(|origin| origin.is_some_and(|o| written.contains(&o))).collect();
            assert!(ours == right, "what a write through {view} touches in file {file} of\n{}", self.text);
        }
    }
}

fn compare(ours: &[u8], right: &[u8], what: impl Fn() -> String) {
    let wrong: Vec<usize> = (0..right.len()).filter(|i| ours[*i] != right[*i]).take(20).collect();
    assert!(wrong.is_empty(), "bytes {wrong:?} are wrong, {}", what());
}

#[test]
fn conversions_equal_the_oracle() {
    let wanted: u64 = std::env::var("TERRACE_CONVERSIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let first: u64 = std::env::var("TERRACE_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let (mut seed, mut requests, mut useless) = (first, 0, 0);
    while requests < wanted {
        let mut r = Random::new(seed);
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            Case::new(&mut r).map(|case| case.check(&mut r))
        })) {
            Ok(Some(done)) => requests += done,
            Ok(None) => useless += 1,
            Err(_) => panic!("TERRACE_SEED={seed} shows it"),
        }
        seed += 1;
    }
    println!("{requests} requests through {} declarations; {useless} more made no sense", seed - first - useless);
    assert!(useless < seed - first - useless, "most declarations make no sense");
}
