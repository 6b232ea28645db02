//! Changes the files of replicas when arrays grow or shrink.

use terrace_views::convert::{Plan, Stored};
use terrace_views::model::Sizes;

use crate::attempt::Attempt;
use crate::filled::{has_fills, write_fills};
use crate::loaded::Loaded;
use crate::owed::Owed;
use crate::stored::StoredFile;
use crate::touch::find_touched_parts;
use crate::writer::Writer;

/// A file's elements move in steps of this size.
const MOVE_STEP_BYTES: usize = 1 << 20;

/// Returns whether new elements of a file lie behind all others: no index moves in several steps, as it does in tiles.
fn grows_at_end(file: &StoredFile) -> bool {
    file.layout.leaves.iter().flat_map(|placed| &placed.loops).all(|walk| walk.digits.len() <= 1)
}

impl Writer<'_> {
    /// Records the size variables that a write to a file contains. A partial write of a variable is completed with its
    /// stored bytes.
    pub fn record_sizes(&mut self, file: usize, at: u64, bytes: &[u8]) -> Attempt<()> {
        let loaded = self.loaded;
        for place in loaded.varying.iter().flat_map(|one| &one.places).filter(|place| place.file == file) {
            let (start, end) =
                (place.offset.max(at), (place.offset + place.size() as u64).min(at + bytes.len() as u64));
            if start >= end {
                continue;
            }
            let known = self.written.iter().position(|(known, offset, _)| (*known, *offset) == (file, place.offset));
            let mut value = match known {
                Some(known) => self.written.remove(known).2,
                None => vec![0; place.size()],
            };
            if known.is_none() {
                self.require_unchanged(std::iter::once(file));
                self.shared.fetch_bytes(loaded, self.state, file, place.offset, &mut value)?;
            }
            let into = value.get_mut((start - place.offset) as usize..(end - place.offset) as usize);
            if let (Some(into), Some(from)) = (into, bytes.get((start - at) as usize..(end - at) as usize)) {
                into.copy_from_slice(from);
            }
            self.written.push((file, place.offset, value));
        }
        Ok(())
    }

    /// Gives every file the length that the written size variables require, and moves elements whose place changes.
    pub fn resize_files(&mut self) -> Attempt<()> {
        let mut sizes: Sizes = self.loaded.sizes.clone();
        for one in &self.loaded.varying {
            let written = one.places.iter().find_map(|place| {
                let own = self.written.iter().find(|(file, offset, _)| (*file, *offset) == (place.file, place.offset));
                own.map(|(_, _, bytes)| place.value(bytes))
            });
            if let Some(value) = written {
                sizes.insert(one.variable, value);
            }
        }
        if sizes == self.loaded.sizes {
            return Ok(());
        }
        let shrinks =
            sizes.iter().any(|(variable, size)| self.loaded.sizes.get(variable).is_some_and(|old| old > size));
        let (object, declared) = (self.loaded.object.clone(), self.loaded.declared.clone());
        let next = Loaded::new(&self.shared.name, object, declared, sizes)?;
        for (file, (old, new)) in self.loaded.files.iter().zip(&next.files).enumerate() {
            let (same, stays) = (old.layout.is_same(&new.layout), old.layout.lies_as(&new.layout));
            if same || self.state.object(file).is_none() {
                if self.made.get(file) == Some(&true) {
                    self.batch.set_length(&old.key, new.length());
                }
                continue;
            }
            self.require_unchanged(std::iter::once(file));
            let dataset = &self.loaded.declared.model.dataset;
            if shrinks || !stays || has_fills(old, dataset) && !grows_at_end(new) {
                self.move_file(file, &next)?;
            } else if let Some(object) = self.state.object(file) {
                write_fills(&mut self.batch, old, &new.layout, object.id, dataset, old.length()..new.length())?;
            }
            self.batch.set_length(&old.key, new.length());
        }
        Ok(())
    }

    /// Moves a file's elements to their places in the new layout.
    fn move_file(&mut self, file: usize, next: &Loaded) -> Attempt<()> {
        let (Some(old), Some(new)) = (self.loaded.files.get(file), next.files.get(file)) else { return Ok(()) };
        let Some(object) = self.state.object(file) else { return Ok(()) };
        let stored = Stored { layout: &old.layout, first_file: file, rate: 1.0 };
        let plan = Plan::reading(&new.layout, &[stored]);
        let mut at = 0;
        while at < new.length() {
            let mut piece = vec![0; MOVE_STEP_BYTES.min((new.length() - at) as usize)];
            new.layout.fill(&next.declared.model.dataset, at, &mut piece);
            self.shared.read_with_plan(self.loaded, self.state, &plan, at, &mut piece, true)?;
            self.batch.write(&old.key, object.id, at, &piece, old.element)?;
            at += piece.len() as u64;
        }
        for (_, offset, bytes) in self.written.iter().filter(|(written, ..)| *written == file) {
            self.batch.write(&old.key, object.id, *offset, bytes, old.element)?;
        }
        // The elements that the file lacks have moved, too, so translate its owed ranges.
        let known = self.owed.get(file).and_then(Option::as_ref).or(self.state.owed(file));
        let lacked = known.map(|owed| owed.ranges().to_vec()).unwrap_or_default();
        if !lacked.is_empty() {
            let places = Plan::writing(&old.layout, Stored { layout: &new.layout, first_file: file, rate: 1.0 });
            let head = 0..new.layout.head.len() as u64;
            let mut lies = vec![head];
            for range in lacked {
                let end = range.end.min(old.length());
                if range.start < end {
                    lies.extend(
                        find_touched_parts(&places, range.start, end - range.start, 0)?
                            .into_iter()
                            .map(|part| part.bytes),
                    );
                }
            }
            self.update_owed(file, |owed| {
                *owed = Owed::default();
                lies.into_iter().for_each(|bytes| owed.add(bytes));
            });
        }
        Ok(())
    }
}
