//! The received requests of each producer, collected from the pages and from the producers' records.

use std::collections::{BTreeMap, HashMap, HashSet};

use terrace::{Attributes, Store};

use super::pages::Page;
use crate::request::{Framed, Name, Origin, escape};
use crate::window::Window;
use crate::{Error, Result};

const PRODUCERS_FOLDER: &[u8] = b"/producers/";
const WINDOW_ATTRIBUTE: &str = "window";

/// The sequences of a page's requests, by producer.
pub type SequencesByProducer = BTreeMap<Name, Vec<u64>>;

/// Groups the sequences of these requests by producer.
pub fn group_by_producer(requests: &[Framed]) -> SequencesByProducer {
    let mut came = SequencesByProducer::new();
    for Origin { producer, sequence } in requests.iter().filter_map(|framed| framed.origin.as_ref()) {
        match came.get_mut(producer) {
            Some(sequences) => sequences.push(*sequence),
            None => drop(came.insert(producer.clone(), vec![*sequence])),
        }
    }
    came
}

/// The received requests of all producers, as far as this process has seen.
#[derive(Default)]
pub struct Origins {
    windows: HashMap<Name, Window>,
    /// Producers whose record is merged into their window.
    current: HashSet<Name>,
    /// Pages that have not been read yet.
    unread: Vec<Page>,
}

impl Origins {
    /// Invalidates the windows because the producers' records have changed: pages were removed.
    pub fn records_changed(&mut self) {
        self.current.clear();
    }

    /// Adds a page to read later.
    pub fn unread(&mut self, page: Page) {
        self.unread.push(page);
    }

    /// Reads the pages added so far. The requests of a page that was removed are in the producers' records.
    pub fn read(&mut self, requests: impl Fn(&Page) -> Result<Vec<Framed>>) -> Result<()> {
        while let Some(page) = self.unread.last() {
            match requests(page) {
                Ok(requests) => self.add(&group_by_producer(&requests)),
                Err(Error::Engine(terrace::Error::NotFound { .. })) => self.records_changed(),
                Err(e) => return Err(e),
            }
            self.unread.pop();
        }
        Ok(())
    }

    fn add(&mut self, came: &SequencesByProducer) {
        for (producer, sequences) in came {
            let window = self.windows.entry(producer.clone()).or_default();
            sequences.iter().for_each(|sequence| window.add(*sequence));
        }
    }

    /// Returns a producer's window, merged with its record.
    pub fn window(&mut self, producer: &Name, store: &Store, folder: &[u8]) -> Result<&mut Window> {
        if !self.current.contains(producer) {
            if let Some(recorded) = record(producer, store, folder)? {
                self.windows.entry(producer.clone()).or_default().merge(&recorded);
            }
            self.current.insert(producer.clone());
        }
        Ok(self.windows.entry(producer.clone()).or_default())
    }

    /// Saves the windows of these producers, for [`restore`](Self::restore).
    pub fn keep<'a>(&self, producers: impl IntoIterator<Item = &'a Name>) -> Vec<(Name, Option<Window>)> {
        let producers: HashSet<&Name> = producers.into_iter().collect();
        producers.into_iter().map(|producer| (producer.clone(), self.windows.get(producer).cloned())).collect()
    }

    /// Restores windows that [`keep`](Self::keep) saved.
    pub fn restore(&mut self, kept: Vec<(Name, Option<Window>)>) {
        for (producer, window) in kept {
            self.current.remove(&producer);
            match window {
                Some(window) => drop(self.windows.insert(producer, window)),
                None => drop(self.windows.remove(&producer)),
            }
        }
    }
}

fn key(producer: &Name, folder: &[u8]) -> Vec<u8> {
    [folder, PRODUCERS_FOLDER, &escape(producer)].concat()
}

fn record(producer: &Name, store: &Store, folder: &[u8]) -> Result<Option<Window>> {
    let object = match store.stat(&key(producer, folder)) {
        Ok(object) => object,
        Err(terrace::Error::NotFound { .. }) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let window = object.attributes.user.get(WINDOW_ATTRIBUTE).and_then(|text| Window::parse(text));
    let what = || format!("the record of producer {:?}", String::from_utf8_lossy(producer));
    window.map(Some).ok_or_else(|| Error::damaged(what(), "it tells no window"))
}

/// Returns the records of producers after these requests leave the log: key, attributes, and whether the record is new.
pub fn records(gone: &[SequencesByProducer], store: &Store, folder: &[u8]) -> Result<Vec<(Vec<u8>, Attributes, bool)>> {
    let mut windows: BTreeMap<&Name, (Window, bool)> = BTreeMap::new();
    for (producer, sequences) in gone.iter().flatten() {
        if !windows.contains_key(producer) {
            let recorded = record(producer, store, folder)?;
            let is_new = recorded.is_none();
            windows.insert(producer, (recorded.unwrap_or_default(), is_new));
        }
        if let Some((window, _)) = windows.get_mut(producer) {
            sequences.iter().for_each(|sequence| window.add(*sequence));
        }
    }
    let record = |(producer, (window, is_new)): (&Name, (Window, bool))| {
        let mut attributes = Attributes::now();
        attributes.user.insert(WINDOW_ATTRIBUTE.into(), window.to_string());
        (key(producer, folder), attributes, is_new)
    };
    Ok(windows.into_iter().map(record).collect())
}
