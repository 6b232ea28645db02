//! Datasets: bytes that are stored in several layouts, and read and written in any of them.

use std::ffi::{c_char, c_void};

use crate::failure::guard;
use crate::store::{Store, find_store};
use crate::{Failure, Status};
use terrace_foreign::Handles;
use terrace_foreign::{caller_buffer, caller_bytes, required_text, write_out, write_out_text};

static OPEN_DATASETS: Handles<Dataset> = Handles::new("dataset");

/// An open dataset. Many threads may use one at once.
pub struct Dataset {
    dataset: datasets::Dataset,
}

/// Adds a dataset, filled with zeros, and opens it. `declaration` is a text in the language of datasets.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dataset_add(
    store: *const Store,
    name: *const c_char,
    declaration: *const c_char,
    dataset: *mut *mut Dataset,
) -> Status {
    guard(|| {
        let (name, declaration) = (required_text(name, "the name")?, required_text(declaration, "the declaration")?);
        open_into(dataset, || Ok(find_store(store)?.datasets.add(name, declaration)?))
    })
}

/// Opens a dataset.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dataset_open(store: *const Store, name: *const c_char, dataset: *mut *mut Dataset) -> Status {
    guard(|| {
        let name = required_text(name, "the name")?;
        open_into(dataset, || Ok(find_store(store)?.datasets.open(name)?))
    })
}

/// Opens a dataset, keeps it for the calls that follow, and writes its handle to the caller's place.
fn open_into(
    place: *mut *mut Dataset,
    open: impl FnOnce() -> Result<datasets::Dataset, Failure>,
) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::Invalid("the place for the dataset is null".into()));
    }
    write_out(place, OPEN_DATASETS.keep(Dataset { dataset: open()? }));
    Ok(())
}

/// Closes a dataset. Closing null does nothing. Closing a dataset twice is an error that does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dataset_close(dataset: *mut Dataset) -> Status {
    guard(|| {
        if !dataset.is_null() {
            OPEN_DATASETS.take(dataset)?;
        }
        Ok(())
    })
}

/// Removes a dataset with all its replicas.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dataset_remove(store: *const Store, name: *const c_char) -> Status {
    guard(|| Ok(find_store(store)?.datasets.remove(required_text(name, "the name")?)?))
}

/// Returns the names of a dataset's views as a list in JSON. The caller passes the text to `terrace_free`.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dataset_views(dataset: *const Dataset, json: *mut *mut c_char) -> Status {
    guard(|| {
        let views = OPEN_DATASETS.find(dataset)?.dataset.views()?;
        Ok(write_out_text(json, serde_json::to_string(&views).map_err(|e| Failure::Internal(e.to_string()))?)?)
    })
}

/// Returns the length of a view in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dataset_length(dataset: *const Dataset, view: *const c_char, length: *mut u64) -> Status {
    guard(|| {
        write_out(length, OPEN_DATASETS.find(dataset)?.dataset.view(required_text(view, "the view")?)?.length()?);
        Ok(())
    })
}

/// Reads a view from byte `offset` on into `out`; `read` gets the number of bytes, which is less than `length` only at the view's end. The
/// bytes are those of one moment.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dataset_read(
    dataset: *const Dataset,
    view: *const c_char,
    offset: u64,
    out: *mut c_void,
    length: usize,
    read: *mut usize,
) -> Status {
    guard(|| {
        let view = OPEN_DATASETS.find(dataset)?.dataset.view(required_text(view, "the view")?)?;
        write_out(read, view.read_at(offset, caller_buffer(out, length)?)?);
        Ok(())
    })
}

/// Writes bytes of a view at `offset`. All other views show them at once.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dataset_write(
    dataset: *const Dataset,
    view: *const c_char,
    offset: u64,
    bytes: *const c_void,
    length: usize,
) -> Status {
    guard(|| {
        let view = OPEN_DATASETS.find(dataset)?.dataset.view(required_text(view, "the view")?)?;
        Ok(view.write_at(offset, caller_bytes(bytes, length)?)?)
    })
}

/// Waits until all replicas of a dataset have what was written.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dataset_sync(dataset: *const Dataset) -> Status {
    guard(|| Ok(OPEN_DATASETS.find(dataset)?.dataset.settle()?))
}
