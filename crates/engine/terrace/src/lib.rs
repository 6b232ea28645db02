//! Terrace keeps replicas of data on tiered storage. It decides how many replicas there are, on which tiers, and how they
//! are encoded.
//!
//! A [`Store`] holds *objects*: keys with bytes and attributes. An object's bytes are a map of immutable *extents*, each
//! with *replicas* on targets of the store's tiers. A write returns a [`Receipt`] once it has reached the level of its
//! [`Ack`]. The store makes pending replicas in the background. Reads are verified. They use the nearest replica, and go on
//! to the next one if it is damaged or away.
//!
//! ```
//! use terrace::{Config, PutOptions, Store};
//!
//! let dir = tempfile::tempdir()?;
//! let config = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", dir.path().join("disk").display());
//! let store = Store::init(&dir.path().join("store"), &Config::parse(&config, "example")?)?;
//! store.put_bytes(b"runs/a", b"some bytes", &PutOptions::default())?;
//! assert_eq!(store.get(b"runs/a")?, b"some bytes");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrivals;
mod care;
pub mod config;
mod devices;
mod discard;
mod error;
pub mod files;
mod home;
mod hotness;
mod journal;
mod made;
mod mover;
mod origins;
mod place;
mod read;
pub mod report;
pub mod sparse;
mod store;
mod write;

pub use config::{Ack, Config};
pub use error::{Error, Result};
pub use files::Files;
pub use home::{Access, Cluster, Consistency, Trusted};
pub use made::{NewFile, NewFolder, is_part_name, remove_unfinished_parts};
pub use place::{Planned, PutOptions, element_of};
pub use store::{
    Appended, Batch, Explained, FetchedBytes, Handle, HotRange, Measured, OriginStatus, OwnPlaces, Price, Question,
    RebuildFrom, Store, WhatIf,
};
pub use store::{SavedCatalog, SavedEnd, SharedNode, Unsaved};
pub use store::{Upload, UploadId, UploadPart, VolatileObjects, retry_if_stale};
pub use terrace_catalog::{self as catalog, log};
pub use terrace_codec::{Element, Encoding};
pub use terrace_cost::{Affine, Weights};
pub use terrace_format::{Attributes, ETAG_DIGEST, Kind, Object, frame, key};
pub use terrace_plan::explain;
pub use terrace_plan::policy::{Asked, Budget, Requirement};
pub use terrace_system::Locked;
#[doc(hidden)]
pub use terrace_system::lock::ByteLocks;
#[doc(hidden)]
pub use terrace_system::reserve::{is_full, keep_room};
#[doc(hidden)]
pub use terrace_system::{fail, real_path, replace, replace_durably};
pub use terrace_tier as tier;
pub use write::{OwedTo, Receipt};
