//! Each parser that meets foreign bytes, as a function of bytes that must return for any input: without a panic, and without
//! memory beyond a small multiple of the input. `fuzz/` hands them to libFuzzer; `tests/mutations.rs` hands them seeded mutations of
//! valid inputs, on stable Rust.
//!
//! Most formats have checksums, which no mutation passes. So the functions correct the checksums before they parse, to test
//! the code behind them.

mod brain;
mod catalog;
mod documents;
mod dump;
mod frame;
// The library of these files replaces functions of the C library, so the tests do not link it.
#[path = "../../dump/dump-run/src/image.rs"]
mod image;
mod import;
mod memcached;
mod nine;
#[path = "../../dump/dump-run/src/ranges.rs"]
#[allow(dead_code, reason = "the core files use a part of it")]
mod ranges;
mod redis;
mod remote;
mod s3;
mod stream;
mod text;

use std::path::Path;

/// A parser and valid inputs for it.
pub struct Parser {
    /// Its name for `fuzz/`.
    pub name: &'static str,
    /// Valid inputs.
    pub samples: fn() -> Vec<Vec<u8>>,
    /// Parses any bytes, and returns whether they are valid.
    pub parse: fn(&[u8]) -> bool,
}

/// All parsers.
pub const ALL_PARSERS: &[Parser] = &[
    Parser { name: "frame", samples: frame::samples, parse: frame::parse },
    Parser { name: "log", samples: catalog::log_samples, parse: catalog::parse_log },
    Parser { name: "proposal", samples: catalog::proposal_samples, parse: catalog::parse_proposal },
    Parser { name: "snapshot", samples: catalog::snapshot_samples, parse: catalog::parse_snapshot },
    Parser { name: "stream", samples: stream::samples, parse: stream::parse },
    Parser { name: "dump", samples: dump::samples, parse: dump::parse },
    Parser { name: "brain", samples: brain::samples, parse: brain::parse },
    Parser { name: "memcached", samples: memcached::samples, parse: memcached::parse },
    Parser { name: "nine", samples: nine::samples, parse: nine::parse },
    Parser { name: "redis", samples: redis::samples, parse: redis::parse },
    Parser { name: "remote", samples: remote::samples, parse: remote::parse },
    Parser { name: "s3", samples: s3::samples, parse: s3::parse },
    Parser { name: "key", samples: text::key_samples, parse: text::parse_key },
    Parser { name: "configuration", samples: text::configuration_samples, parse: text::parse_configuration },
    Parser { name: "bucket", samples: text::bucket_samples, parse: text::parse_bucket },
    Parser { name: "core", samples: documents::core_samples, parse: documents::parse_core },
    Parser { name: "import", samples: import::import_samples, parse: import::parse_import },
    Parser { name: "member", samples: documents::member_samples, parse: documents::parse_member },
    Parser { name: "metadata", samples: import::metadata_samples, parse: import::parse_metadata },
    Parser { name: "redis_document", samples: documents::redis_samples, parse: documents::parse_redis },
    Parser { name: "declaration", samples: text::declaration_samples, parse: text::parse_declaration },
];

/// Parses `input` with the parser of this name. Returns whether it is valid.
///
/// # Panics
/// If no parser has this name, or if the parser has a defect.
pub fn parse(name: &str, input: &[u8]) -> bool {
    let parser = ALL_PARSERS.iter().find(|parser| parser.name == name);
    (parser.unwrap_or_else(|| unreachable!("no parser is called {name}")).parse)(input)
}

/// Returns a folder in memory, where files need no disk.
fn shared_memory() -> &'static Path {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory } else { Path::new("/tmp") }
}

/// Returns the `N` bytes at `at`. Bytes beyond the end are zeros.
fn bytes_at<const N: usize>(input: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    for (byte, found) in bytes.iter_mut().zip(input.iter().skip(at)) {
        *byte = *found;
    }
    bytes
}
