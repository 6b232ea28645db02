//! Versions of objects: what is known of each, and its bytes.

use terrace_testkit::Random;

/// The knowledge about a version.
#[derive(Clone, Debug)]
pub struct Version {
    pub length: u64,
    /// It came from stdin, so that its time is not its own: its length tells it.
    pub is_stdin: bool,
    /// All its replicas are there, as far as was acknowledged.
    pub replicated: bool,
    /// One replica was asked for.
    pub thin: bool,
    /// A move may have left it with fewer replicas than asked for, as it said, and nothing has made them again.
    pub thinned: bool,
}

impl Version {
    /// Whether it survives the loss of any one failure domain.
    pub fn outlives_a_domain(&self) -> bool {
        self.length == 0 || self.replicated && !self.thin && !self.thinned
    }
}

/// The bytes of a version: its number first, so that they tell which version they are; then noise, or what shrinks.
pub fn bytes_of(version: u64, length: u64) -> Vec<u8> {
    let rest = match shrinks(version) {
        true => (8..length).map(|at| (at / 50) as u8 | 1).collect(),
        false => Random::new(version).bytes(length as usize),
    };
    version.to_le_bytes().into_iter().chain(rest).take(length as usize).collect()
}

/// Whether encodings make the bytes of a version shorter.
pub fn shrinks(version: u64) -> bool {
    Random::new(version).once_in(2)
}
