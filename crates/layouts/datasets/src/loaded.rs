//! A declaration at work: layouts, the files of replicas, and plans for moving bytes between them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace::{Element, Object, Store};
use terrace_views::convert::{Plan, Stored};
use terrace_views::layout::{Layout, of_replica, of_view};
use terrace_views::model::{Primitive, Sizes, View};

use crate::declared::{Declared, When};
use crate::sizes::SizeVariable;
use crate::{Error, Result, keys};

/// A plan is made anew after this time, since devices become slower or quicker.
const FRESH: Duration = Duration::from_secs(10);
/// Without a measurement replicas are equally quick.
const USUAL_RATE: f64 = 1e9;

/// A dataset as it was declared at one time, with arrays of certain sizes.
pub struct Loaded {
    pub name: String,
    /// The declaration's object.
    pub object: Object,
    pub declared: Declared,
    pub sizes: Sizes,
    /// The variables that say how long arrays are.
    pub varying: Vec<SizeVariable>,
    pub replicas: Vec<StoredReplica>,
    /// All files of all replicas.
    pub files: Vec<StoredFile>,
    /// The views' layouts.
    pub views: Vec<Layout>,
    reading: Mutex<HashMap<(Seen, Vec<bool>), Reading>>,
    /// Whether replicas have all that is wanted.
    having: Mutex<HashMap<(Seen, Vec<bool>), bool>>,
    writing: Mutex<HashMap<(usize, usize), Arc<Plan>>>,
}

/// A replica.
pub struct StoredReplica {
    pub layout: Layout,
    /// The number of its first file among all.
    pub first_file: usize,
    pub when: When,
}

/// A file of a replica.
pub struct StoredFile {
    pub replica: usize,
    pub key: Vec<u8>,
    pub layout: Layout,
    /// What all its elements are, where they are alike.
    pub element: Option<Element>,
}

/// What bytes are wanted of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Seen {
    /// A view.
    View(usize),
    /// A replica's file, as others make it up.
    File(usize),
    /// A view's elements one after the other, whatever its arrangement is.
    Plain(usize),
    /// A leaf of that by itself.
    Leaf(usize, usize),
}

struct Reading {
    plan: Arc<Plan>,
    made: Instant,
}

impl StoredFile {
    /// Its length.
    pub fn length(&self) -> u64 {
        self.layout.files.first().copied().unwrap_or(0)
    }
}

impl StoredReplica {
    /// The numbers of its files.
    pub fn files(&self) -> std::ops::Range<usize> {
        self.first_file..self.first_file + self.layout.files.len()
    }
}

impl Loaded {
    pub fn new(name: &str, object: Object, declared: Declared, sizes: Sizes) -> Result<Loaded> {
        let misfit = |misfit| Error::Size { dataset: name.to_owned(), misfit };
        let model = &declared.model;
        let (mut replicas, mut files) = (Vec::new(), Vec::new());
        for ((number, replica), when) in model.replicas.iter().enumerate().zip(declared.when()) {
            let layout = of_replica(replica, &model.views, &model.dataset, &sizes).map_err(misfit)?;
            let (first_file, count) = (files.len(), layout.files.len());
            files.extend((0..count).map(|file| {
                let own = layout.of_file(file);
                let element = element(&own);
                StoredFile { replica: number, key: keys::file(name, replica, file, count > 1), layout: own, element }
            }));
            replicas.push(StoredReplica { layout, first_file, when });
        }
        let views: std::result::Result<Vec<Layout>, _> =
            model.views.iter().map(|view| of_view(view, &model.dataset, &sizes)).collect();
        let views = views.map_err(misfit)?;
        let varying = SizeVariable::of(model, &files);
        let name = name.to_owned();
        let (reading, having, writing) = Default::default();
        Ok(Loaded { name, object, declared, sizes, varying, replicas, files, views, reading, having, writing })
    }

    /// The number of a view.
    pub fn view(&self, name: &str) -> Result<usize> {
        let views = &self.declared.model.views;
        views.iter().position(|view| view.name == name).ok_or_else(|| Error::NoView {
            dataset: self.name.clone(),
            view: name.to_owned(),
            known: views.iter().map(|view| view.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// What bytes are wanted of, in words.
    pub fn words(&self, seen: Seen) -> String {
        match seen {
            Seen::View(view) | Seen::Plain(view) | Seen::Leaf(view, _) => {
                format!("the view {:?}", self.declared.model.views.get(view).map_or("", |view| &view.name))
            }
            Seen::File(file) => {
                self.files.get(file).map_or_else(String::new, |file| String::from_utf8_lossy(&file.key).into())
            }
        }
    }

    /// The replicas that are used, as the language's model numbers them.
    fn numbers(used: &[bool]) -> Vec<usize> {
        used.iter().enumerate().filter(|(_, used)| **used).map(|(number, _)| number).collect()
    }

    /// Whether some replicas have all that is wanted.
    pub fn has_all(&self, seen: Seen, used: &[bool]) -> bool {
        // All of them have all that views show.
        if !matches!(seen, Seen::File(_)) && used.iter().all(|used| *used) {
            return true;
        }
        *self.having.lock().entry((seen, used.to_vec())).or_insert_with(|| self.covers(seen, used))
    }

    fn covers(&self, seen: Seen, used: &[bool]) -> bool {
        let model = &self.declared.model;
        let numbers = Self::numbers(used);
        match seen {
            Seen::View(view) | Seen::Plain(view) | Seen::Leaf(view, _) => {
                model.views.get(view).is_some_and(|view| model.shown_by(view, &numbers))
            }
            Seen::File(file) => {
                let replica = self.files.get(file).and_then(|file| model.replicas.get(file.replica));
                replica.is_some_and(|replica| model.made_of(replica, &numbers))
            }
        }
    }

    /// How what is wanted is laid out.
    pub fn layout(&self, seen: Seen) -> Result<Layout> {
        Ok(match seen {
            Seen::View(view) => self.views.get(view).cloned().unwrap_or_default(),
            Seen::File(file) => self.files.get(file).map(|file| file.layout.clone()).unwrap_or_default(),
            Seen::Plain(view) => {
                let model = &self.declared.model;
                let misfit = |misfit| Error::Size { dataset: self.name.clone(), misfit };
                let plain = |view: &View| of_view(&view.plain(), &model.dataset, &self.sizes).map_err(misfit);
                model.views.get(view).map(plain).transpose()?.unwrap_or_default()
            }
            Seen::Leaf(view, leaf) => self.layout(Seen::Plain(view))?.of_leaf(leaf),
        })
    }

    /// How to read from some replicas: each part from where the fewest bytes come soonest.
    pub fn reading(&self, store: &Store, seen: Seen, used: &[bool]) -> Result<Arc<Plan>> {
        let key = (seen, used.to_vec());
        if let Some(known) = self.reading.lock().get(&key).filter(|known| known.made.elapsed() < FRESH) {
            return Ok(known.plan.clone());
        }
        let layout = self.layout(seen)?;
        let mut stored = Vec::new();
        for (replica, _) in self.replicas.iter().zip(used).filter(|(_, used)| **used) {
            let first = self.files.get(replica.first_file).map_or(&[][..], |file| &file.key);
            let rate = match store.reading_rate(first) {
                Ok(rate) => rate.unwrap_or(USUAL_RATE),
                Err(terrace::Error::NotFound { .. }) => USUAL_RATE,
                Err(error) => return Err(error.into()),
            };
            stored.push(Stored { layout: &replica.layout, first_file: replica.first_file, rate });
        }
        let plan = Arc::new(Plan::reading(&layout, &stored));
        self.reading.lock().insert(key, Reading { plan: plan.clone(), made: Instant::now() });
        Ok(plan)
    }

    /// How to write what is seen into a replica.
    pub fn writing(&self, view: usize, replica: usize) -> Arc<Plan> {
        let made = || match (self.views.get(view), self.replicas.get(replica)) {
            (Some(layout), Some(stored)) => Plan::writing(
                layout,
                Stored { layout: &stored.layout, first_file: stored.first_file, rate: USUAL_RATE },
            ),
            _ => Plan::default(),
        };
        self.writing.lock().entry((view, replica)).or_insert_with(|| Arc::new(made())).clone()
    }
}

/// What elements are, as far as encodings know such.
fn element(layout: &Layout) -> Option<Element> {
    let mut all = layout.leaves.iter().map(|leaf| leaf.primitive);
    let first = all.next()?;
    if layout.leaves.iter().any(|leaf| leaf.big) || all.any(|other| other != first) {
        return None;
    }
    Some(match first {
        Primitive::Int16 => Element::I16,
        Primitive::Int32 => Element::I32,
        Primitive::Int64 => Element::I64,
        Primitive::Uint16 | Primitive::Float16 => Element::U16,
        Primitive::Uint32 => Element::U32,
        Primitive::Uint64 => Element::U64,
        Primitive::Float32 | Primitive::Complex64 => Element::F32,
        Primitive::Float64 | Primitive::Complex128 => Element::F64,
        _ => return None,
    })
}
