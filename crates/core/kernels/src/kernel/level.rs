//! Which registers a machine has.

/// The widest registers that are used. Each level has those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// None: one move after the other.
    Scalar,
    /// Registers of 32 bytes, whose halves are shuffled: AVX2.
    Avx2,
    /// Registers of 64 bytes, put together from the bytes of any two: AVX-512 with VBMI.
    Avx512,
}

impl Level {
    /// That of this machine.
    #[cfg(target_arch = "x86_64")]
    pub fn of_machine() -> Level {
        use std::arch::is_x86_feature_detected as has;
        if !has!("avx2") {
            return Level::Scalar;
        }
        if has!("avx512f") && has!("avx512bw") && has!("avx512vbmi") { Level::Avx512 } else { Level::Avx2 }
    }

    /// That of this machine.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn of_machine() -> Level {
        Level::Scalar
    }
}
