//! `terrace job start` and `end`: copies what a job reads into a store, and what it made to where it stays.
//!
//! `terrace cluster up` and `down` make and end a store, and copy what is only on the hosts to a tier of the same store. These commands copy
//! files in and out of any store, which knows nothing of jobs but one record: the generations of the inputs, by which the end leaves out
//! those that have not changed. They do not use `put` and `get`, which trust size and time, and do not sync.
//!
//! Wanted most is what changed last, not what was read most: a job's newest checkpoint was never read. The end copies batches that double
//! (`batch`): a sync takes some milliseconds on a disk, however small the file, and the most wanted object must not wait for many others.
//!
//! A thread watches the end (`ending`), and tells its outcome when the deadline has passed and a file system does not answer. A thread that
//! waits there cannot be ended, nor can its process, so the end runs in a second process (`supervisor`).

mod batch;
mod clock;
mod end;
mod ending;
mod inputs;
mod last_look;
mod list;
mod record;
mod report;
mod report_file;
mod results;
mod start;
mod steps;
mod supervisor;
mod twins;
mod unfinished;

pub use end::end;
pub use start::start;
