//! A loaded declaration: its layouts, the files of its replicas, and cached plans for moving bytes between them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace::{Element, Object, Store};
use terrace_views::convert::{Elements, Plan, Stored};
use terrace_views::layout::{Layout, of_replica, of_view};
use terrace_views::model::{Primitive, Sizes, View};

use crate::declared::Declared;
use crate::sizes::SizeVariable;
use crate::stored::{StoredFile, StoredReplica};
use crate::ways::{FileRate, Ways};
use crate::{Error, Result, keys};

/// The ways to read are discarded after this time, because the speed of devices changes.
const WAYS_LIFETIME: Duration = Duration::from_secs(10);
/// Read rate in bytes per second of a replica that has not been measured: all such replicas rank equally.
const DEFAULT_READ_RATE: f64 = 1e9;

/// A dataset with one version of its declaration and one set of array lengths.
pub struct Loaded {
    pub name: String,
    /// The declaration's object.
    pub object: Object,
    pub declared: Declared,
    pub sizes: Sizes,
    /// The variables that hold array lengths.
    pub varying: Vec<SizeVariable>,
    pub replicas: Vec<StoredReplica>,
    /// All files of all replicas.
    pub files: Vec<StoredFile>,
    /// The layout of each view.
    pub views: Vec<Layout>,
    ways: Mutex<HashMap<(Projection, Vec<bool>), CachedWays>>,
    /// The plans that read a projection from one replica alone.
    lone_plans: Mutex<HashMap<(Projection, usize), Arc<Plan>>>,
    elements: Mutex<HashMap<usize, Arc<Elements>>>,
    /// Caches [`Loaded::has_all`].
    coverage: Mutex<HashMap<(Projection, Vec<bool>), bool>>,
    write_plans: Mutex<HashMap<(usize, usize), Arc<Plan>>>,
}

/// A sequence of bytes that can be read from the dataset's replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Projection {
    /// A view's bytes.
    View(usize),
    /// A replica's file, built from the other replicas.
    File(usize),
    /// A view's elements in row-major order, whatever the view's arrangement.
    Plain(usize),
    /// One leaf of [`Projection::Plain`] alone.
    Leaf(usize, usize),
}

struct CachedWays {
    ways: Arc<Ways>,
    made: Instant,
}

impl Loaded {
    pub fn new(name: &str, object: Object, declared: Declared, sizes: Sizes) -> Result<Loaded> {
        let misfit = |misfit| Error::Size { dataset: name.to_owned(), misfit };
        let model = &declared.model;
        let (mut replicas, mut files) = (Vec::new(), Vec::new());
        for ((number, replica), when) in model.replicas.iter().enumerate().zip(declared.update_times()) {
            let layout = of_replica(replica, &model.views, &model.dataset, &sizes).map_err(misfit)?;
            let (first_file, count) = (files.len(), layout.files.len());
            files.extend((0..count).map(|file| {
                let own = layout.of_file(file);
                let element = uniform_element(&own);
                StoredFile {
                    replica: number,
                    key: keys::file_key(name, replica, file, count > 1),
                    layout: own,
                    element,
                }
            }));
            replicas.push(StoredReplica { layout, first_file, when });
        }
        let views: std::result::Result<Vec<Layout>, _> =
            model.views.iter().map(|view| of_view(view, &model.dataset, &sizes)).collect();
        let views = views.map_err(misfit)?;
        let varying = SizeVariable::of(model, &files);
        let name = name.to_owned();
        let (ways, lone_plans, elements, coverage, write_plans) = Default::default();
        Ok(Loaded {
            name,
            object,
            declared,
            sizes,
            varying,
            replicas,
            files,
            views,
            ways,
            lone_plans,
            elements,
            coverage,
            write_plans,
        })
    }

    /// Returns the number of the view of this name.
    pub fn view(&self, name: &str) -> Result<usize> {
        let views = &self.declared.model.views;
        views.iter().position(|view| view.name == name).ok_or_else(|| Error::NoView {
            dataset: self.name.clone(),
            view: name.to_owned(),
            known: views.iter().map(|view| view.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Names a projection, for messages.
    pub fn describe_projection(&self, projection: Projection) -> String {
        match projection {
            Projection::View(view) | Projection::Plain(view) | Projection::Leaf(view, _) => {
                format!("the view {:?}", self.declared.model.views.get(view).map_or("", |view| &view.name))
            }
            Projection::File(file) => {
                self.files.get(file).map_or_else(String::new, |file| String::from_utf8_lossy(&file.key).into())
            }
        }
    }

    /// Returns the numbers of the replicas that are used, as the model numbers them.
    fn used_numbers(used: &[bool]) -> Vec<usize> {
        used.iter().enumerate().filter(|(_, used)| **used).map(|(number, _)| number).collect()
    }

    /// Returns whether the replicas in `used` together store every byte of the projection.
    pub fn has_all(&self, projection: Projection, used: &[bool]) -> bool {
        // All replicas together store every byte that a view shows.
        if !matches!(projection, Projection::File(_)) && used.iter().all(|used| *used) {
            return true;
        }
        *self.coverage.lock().entry((projection, used.to_vec())).or_insert_with(|| self.covers(projection, used))
    }

    fn covers(&self, projection: Projection, used: &[bool]) -> bool {
        let model = &self.declared.model;
        let numbers = Self::used_numbers(used);
        match projection {
            Projection::View(view) | Projection::Plain(view) | Projection::Leaf(view, _) => {
                model.views.get(view).is_some_and(|view| model.shown_by(view, &numbers))
            }
            Projection::File(file) => {
                let replica = self.files.get(file).and_then(|file| model.replicas.get(file.replica));
                replica.is_some_and(|replica| model.made_of(replica, &numbers))
            }
        }
    }

    /// Returns the layout of a projection.
    pub fn layout(&self, projection: Projection) -> Result<Layout> {
        Ok(match projection {
            Projection::View(view) => self.views.get(view).cloned().unwrap_or_default(),
            Projection::File(file) => self.files.get(file).map(|file| file.layout.clone()).unwrap_or_default(),
            Projection::Plain(view) => {
                let model = &self.declared.model;
                let misfit = |misfit| Error::Size { dataset: self.name.clone(), misfit };
                let plain = |view: &View| of_view(&view.plain(), &model.dataset, &self.sizes).map_err(misfit);
                model.views.get(view).map(plain).transpose()?.unwrap_or_default()
            }
            Projection::Leaf(view, leaf) => self.layout(Projection::Plain(view))?.of_leaf(leaf),
        })
    }

    /// Returns the plan that reads a projection from the replicas in `used`. The plan reads each part from the replica
    /// that delivers it soonest, given its rate and the bytes it must read.
    pub fn read_plan(&self, store: &Store, projection: Projection, used: &[bool]) -> Result<Arc<Plan>> {
        Ok(self.ways(store, projection, used)?.mixed.clone())
    }

    /// Returns the ways to read a projection from the replicas in `used`.
    pub fn ways(&self, store: &Store, projection: Projection, used: &[bool]) -> Result<Arc<Ways>> {
        let key = (projection, used.to_vec());
        if let Some(known) = self.ways.lock().get(&key).filter(|known| known.made.elapsed() < WAYS_LIFETIME) {
            return Ok(known.ways.clone());
        }
        let mut rates = vec![DEFAULT_READ_RATE; self.replicas.len()];
        for ((replica, rate), _) in self.replicas.iter().zip(&mut rates).zip(used).filter(|(_, used)| **used) {
            let first = self.files.get(replica.first_file).map_or(&[][..], |file| &file.key);
            *rate = match store.reading_rate(first) {
                Ok(rate) => rate.unwrap_or(DEFAULT_READ_RATE),
                Err(terrace::Error::NotFound { .. }) => DEFAULT_READ_RATE,
                Err(error) => return Err(error.into()),
            };
        }
        let ways = Arc::new(self.ways_at(projection, used, &rates)?);
        self.ways.lock().insert(key, CachedWays { ways: ways.clone(), made: Instant::now() });
        Ok(ways)
    }

    /// Returns the ways to read a projection from the replicas in `used`, if each replica is read at its rate in bytes per second.
    pub fn ways_at(&self, projection: Projection, used: &[bool], rates: &[f64]) -> Result<Ways> {
        let layout = self.layout(projection)?;
        let numbers = Self::used_numbers(used);
        let rate_of = |number: usize| rates.get(number).copied().unwrap_or(DEFAULT_READ_RATE);
        let stored = |number: &usize| {
            let replica = self.replicas.get(*number)?;
            Some(Stored { layout: &replica.layout, first_file: replica.first_file, rate: rate_of(*number) })
        };
        let all: Vec<Stored> = numbers.iter().filter_map(stored).collect();
        let mixed = Arc::new(Plan::reading(&layout, &all));
        let mut lone = Vec::new();
        if numbers.len() > 1 && matches!(projection, Projection::View(_)) {
            for number in &numbers {
                let only: Vec<bool> = (0..self.replicas.len()).map(|other| other == *number).collect();
                if self.has_all(projection, &only) {
                    // The rate does not matter to a plan with one source.
                    let made = || Plan::reading(&layout, &stored(number).into_iter().collect::<Vec<_>>());
                    let mut known = self.lone_plans.lock();
                    lone.push(known.entry((projection, *number)).or_insert_with(|| Arc::new(made())).clone());
                }
            }
        }
        let files = self.files.iter().map(|file| FileRate { rate: rate_of(file.replica), length: file.length() });
        Ok(Ways::new(mixed, lone, files.collect()))
    }

    /// Returns the elements that each byte of a view shows.
    pub fn elements(&self, view: usize) -> Option<Arc<Elements>> {
        let layout = self.views.get(view)?;
        let made = || Arc::new(Elements::new(layout, &self.declared.model.dataset, &self.sizes));
        Some(self.elements.lock().entry(view).or_insert_with(made).clone())
    }

    /// Returns the plan that writes a view's bytes into a replica.
    pub fn write_plan(&self, view: usize, replica: usize) -> Arc<Plan> {
        let made = || match (self.views.get(view), self.replicas.get(replica)) {
            (Some(layout), Some(stored)) => Plan::writing(
                layout,
                Stored { layout: &stored.layout, first_file: stored.first_file, rate: DEFAULT_READ_RATE },
            ),
            _ => Plan::default(),
        };
        self.write_plans.lock().entry((view, replica)).or_insert_with(|| Arc::new(made())).clone()
    }
}

/// Returns the element type of a layout, if all its elements have the same type and encodings know it.
fn uniform_element(layout: &Layout) -> Option<Element> {
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
