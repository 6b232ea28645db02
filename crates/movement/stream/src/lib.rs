//! Streams of requests that flow continuously down the tiers, exactly once (RFlush).
//!
//! A [`Request`] is bytes for a place in a destination: a file, an object of a bucket, a key. Producers append requests to a [`Stream`]'s
//! log in the store. The process that runs the stream ([`Running`]) pulls the requests, groups them by destination, writes them, and
//! trims the log. It pulls sources other than the log in the same way, and concurrently.
//!
//! **Exactly once.** A request is accepted when it is in the log, with the durability that the stream's `Ack` requires. After the written
//! bytes are durable, the stream commits the progress of each destination: the last request delivered there, and the watermark, which is
//! the offset of the next append. So after a crash at any moment, the next run writes the same bytes at the same offsets. A producer that
//! numbers its requests may send each any number of times ([`Origin`]).
//!
//! ```
//! # use terrace::{Ack, Config, Store};
//! use std::sync::Arc;
//! use terrace_stream::{Control, Request, Settings, Stream, destinations::Files};
//!
//! # let dir = tempfile::tempdir()?;
//! # let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", dir.path().join("disk").display());
//! # let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "example")?)?;
//! # let archive = dir.path().join("archive");
//! let stream = Stream::open(&store, "sensors", Ack::Placed)?;
//! stream.append(vec![Request::append("north/wind", "12 m/s\n"), Request::append("north/wind", "9 m/s\n")])?;
//! let control = Arc::new(Control::default());
//! control.drain();
//! stream.run(Arc::new(Files::new(&archive)?), &control)?.with_log().go(&Settings::default())?;
//! assert_eq!(std::fs::read_to_string(archive.join("north/wind"))?, "12 m/s\n9 m/s\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod claim;
mod control;
mod deal;
mod deliver;
pub mod destinations;
mod entry;
mod error;
mod frame;
mod heartbeat;
mod ledger;
mod location;
mod log;
mod open_folder;
mod owners;
mod parked;
mod places;
mod request;
mod right;
mod run;
mod runs;
mod seen;
pub mod sources;
mod stream;
mod window;

pub use control::{Control, Left};
pub use entry::{Entry, FolderId, Lane, Position, SourceFile};
pub use error::{Error, Result};
pub use frame::Frames;
pub use ledger::{Ledger, Mark};
pub use log::{Accepted, Submitted};
pub use parked::Dropped;
pub use places::{PlacesCheck, check_directories};
pub use request::{Framed, MAX_REQUEST_BYTES, Name, Origin, Place, Request};
pub use run::{AnySource, Running};
pub use runs::Run;
pub use seen::Seen;
pub use stream::{Backlog, Done, Producer, Stream};
pub use terrace_pipeline::{Failure, Figures, Pulled, Settings, Source};
pub use window::{MAX_SEQUENCE_LEAD, Window};

#[cfg(test)]
mod dealt_tests;
