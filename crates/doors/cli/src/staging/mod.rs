//! `terrace job start` and `end`: copies what a job reads into a store, and what it made to where it stays.

mod at_once;
mod batch;
mod clock;
mod end;
mod inputs;
mod list;
mod record;
mod report;
mod report_file;
mod results;
mod start;

pub use end::end;
pub use start::start;
