//! Datasets in a store: each is declared once, stored in replicas of different layouts, and read and written through
//! views.
//!
//! [`Datasets`] gives access to the datasets of a [`terrace::Store`]. A [`Dataset`] has the views and replicas that its
//! declaration names (`docs/dataset-language.md`). A [`View`] reads and writes any byte range of a view, whether or not
//! a replica stores that view.
//!
//! Each file of a replica is an object of the store, `datasets/NAME/REPLICA`, so the engine provides checksums, tiers,
//! encodings, scrub and repair. The declaration is the object `datasets/NAME/.declaration`.
//!
//! A write commits one [`terrace::Batch`] over all replicas: after a crash either all replicas have the write or none
//! has. Bytes that an asynchronous replica does not have yet are *owed* (pending): the byte ranges are kept in an
//! attribute of the replica's object, which the same commit updates.
//!
//! **A request sees one moment.** It records the state of the declaration and of all files (`state.rs`), reads only while that is
//! unchanged, and commits only if it is. On a conflict it starts again. Processes hold no lock against each other.
//!
//! **Only `settle.rs` makes pending bytes**, from the other replicas. `sources.rs` selects the replicas to read, and skips pending
//! ranges; an incomplete replica is no source while others are complete. Unreadable bytes become pending only if other replicas have
//! them. Otherwise they stay, because their device may come back, and become zeros only if the user accepts the loss. The engine
//! knows nothing of layouts, and `terrace-views` nothing of the store.
//!
//! **A replica that is an HDF5 file has a head before its bytes** (`layout/hdf5/` of `terrace-views`), which shifts all places behind
//! it. The head follows from the declaration, and `settle.rs` writes it where it is pending. Any format of one file with each array
//! in one piece could be a replica in the same way. Zarr has a file for each chunk, so `export/` writes it, or makes
//! references for its readers.
//!
//! **Reads of views are counted** (`access/`) in a file beside the store's catalog, not in the store: they only help to advise which replicas to
//! add (`advise/`). `ways.rs` chooses the replicas of each read, and the advice uses the same choice.
//!
//! **Fill values are bytes like all others** (`filled.rs`): they are written by the commit that adds the dataset, or that lets arrays
//! grow, so no reader has to know which elements were written.
//!
//! ```
//! use terrace::{Config, Store};
//! use terrace_datasets::Datasets;
//!
//! let dir = tempfile::tempdir()?;
//! let config = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", dir.path().join("disk").display());
//! let store = Store::init(&dir.path().join("store"), &Config::parse(&config, "example")?)?;
//! let declaration = "
//!     dataset { var data [2]struct { a, b int16 } }
//!     view rows { var data = data }
//!     view b { var b [] { b } = data }
//!     replica main { view rows }
//! ";
//! let dataset = Datasets::new(&store).add("example", declaration)?;
//! dataset.view("rows")?.write_at(0, &[1, 0, 2, 0, 3, 0, 4, 0])?;
//! let mut bytes = [0; 4];
//! dataset.view("b")?.read_at(0, &mut bytes)?;
//! assert_eq!(bytes, [2, 0, 4, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod advise;
mod attempt;
mod background;
mod change;
mod convert;
mod dataset;
mod datasets;
mod declared;
mod error;
mod export;
mod filled;
mod follower;
mod health;
mod keys;
mod loaded;
mod owed;
mod read;
mod repair;
mod resize;
mod settle;
mod shared;
mod sizes;
mod sources;
mod state;
mod stored;
mod stored_parts;
mod touch;
mod view;
mod ways;
mod write;
mod writer;

pub use advise::{Advice, NotedAccess, NotedField, Proposal, Verdict};
pub use convert::convert;
pub use dataset::Dataset;
pub use datasets::Datasets;
pub use declared::{Declared, read_declaration};
pub use error::{Error, Result};
pub use export::Format;
pub use repair::Repaired;
pub use view::View;
