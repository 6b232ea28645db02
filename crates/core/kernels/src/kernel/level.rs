//! The registers that a machine has.

/// The widest registers that kernels use. Each level includes the levels before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No vector registers: one move after the other.
    Scalar,
    /// Registers of 32 bytes with shuffles within each half: AVX2.
    Avx2,
    /// Registers of 64 bytes with permutations of the bytes of two registers: AVX-512 with VBMI.
    Avx512,
}

impl Level {
    /// Returns the level of this machine.
    #[cfg(target_arch = "x86_64")]
    pub fn of_machine() -> Level {
        use std::arch::is_x86_feature_detected as has;
        if !has!("avx2") {
            return Level::Scalar;
        }
        if has!("avx512f") && has!("avx512bw") && has!("avx512vbmi") { Level::Avx512 } else { Level::Avx2 }
    }

    /// Returns the level of this machine.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn of_machine() -> Level {
        Level::Scalar
    }
}
