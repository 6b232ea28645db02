//! Requests in the environment for the whole program: `TERRACE_REQUIRE` and `TERRACE_SYNC`.

use std::env;
use std::sync::OnceLock;

use terrace::PutOptions;

const SYNC_VARIABLE: &str = "TERRACE_SYNC";
/// Read when the process starts: programs overwrite their environment.
static PROGRAM_ASKED: OnceLock<Result<ProgramAsked, String>> = OnceLock::new();

/// When a program's files become durable without being asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMoment {
    /// In `MPI_Finalize`, all files that the process has written.
    Finalize,
    /// Each written file when it is closed; in `MPI_Finalize` those that are still open.
    Close,
    /// Never.
    Never,
}

/// The requests for the program.
pub struct ProgramAsked {
    /// The options that its files are written with.
    pub options: PutOptions,
    sync: SyncMoment,
}

/// Reads the environment.
pub fn read() {
    PROGRAM_ASKED.get_or_init(understand);
}

/// Returns what is asked, or the mistake in the environment.
pub fn get() -> Result<&'static ProgramAsked, &'static str> {
    PROGRAM_ASKED.get_or_init(understand).as_ref().map_err(String::as_str)
}

/// When files become durable. After a mistake in the environment, no file can be opened.
pub fn sync_moment() -> SyncMoment {
    get().map_or(SyncMoment::Never, |asked| asked.sync)
}

fn understand() -> Result<ProgramAsked, String> {
    let options = PutOptions::of_environment().map_err(|error| error.to_string())?;
    let sync = match env::var_os(SYNC_VARIABLE) {
        None => SyncMoment::Finalize,
        Some(text) if text == "finalize" => SyncMoment::Finalize,
        Some(text) if text == "close" => SyncMoment::Close,
        Some(text) if text == "none" => SyncMoment::Never,
        Some(text) => return Err(format!("{SYNC_VARIABLE}={}: write finalize, close or none", text.display())),
    };
    Ok(ProgramAsked { options, sync })
}
