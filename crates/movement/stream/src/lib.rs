//! Streams of requests that flow down the tiers all the time, exactly once (RFlush).
//!
//! A [`Request`] is bytes for a place in a destination: a file, an object of a bucket, a key. Producers append requests to a [`Stream`]'s
//! log in the store; one that runs it ([`Running`]) pulls them, groups them by destination, writes them there and trims the log. Sources other than the log are
//! pulled in the same way, and at the same time.
//!
//! **Exactly once.** A request is accepted when it is in the log, which survives what the stream's `Ack` says. What is
//! committed, after the bytes are down to stay, is how far each destination has got: the last request that is done there,
//! and the watermark behind which the next append goes. So whoever dies at any moment, the next run writes the same bytes at the same
//! places. A producer that numbers its requests may send each as often as it likes ([`Origin`]).
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

mod control;
mod deliver;
pub mod destinations;
mod entry;
mod error;
mod frame;
mod ledger;
mod location;
mod log;
mod owners;
mod parked;
mod places;
mod request;
mod run;
mod runs;
mod seen;
pub mod sources;
mod stream;
mod window;

pub use control::{Control, Left};
pub use entry::{Entry, Lane, Position, SourceFile};
pub use error::{Error, Result};
pub use frame::Frames;
pub use ledger::{Ledger, Mark};
pub use log::{Accepted, Submitted};
pub use parked::Dropped;
pub use places::check_directories;
pub use request::{Framed, MOST_BYTES, Name, Origin, Place, Request};
pub use run::{AnySource, Running};
pub use runs::Run;
pub use seen::Seen;
pub use stream::{Backlog, Done, Producer, Stream};
pub use terrace_pipeline::{Failure, Figures, Pulled, Settings, Source};
pub use window::{AHEAD, Window};
