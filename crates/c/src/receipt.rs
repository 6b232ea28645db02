//! What a write has reached.

/// What a write has reached when it returned.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Receipt {
    /// The object's number.
    pub object: u64,
    /// The commit that made the write visible.
    pub generation: u64,
    /// Replicas that are still to be made.
    pub owed: u64,
    /// Bytes written, before encoding and replication.
    pub bytes: u64,
    /// Bytes that the replicas made so far take.
    pub stored: u64,
    /// Replicas that each extent is to have.
    pub want: u8,
    /// Replicas that were asked for; more than `want` where there are too few failure domains.
    pub asked: u8,
    /// Replicas that each extent has at least.
    pub have: u8,
    /// Whether all of it survives a loss of power.
    pub durable: bool,
}

impl From<&engine::Receipt> for Receipt {
    fn from(receipt: &engine::Receipt) -> Receipt {
        Receipt {
            object: receipt.object,
            generation: receipt.generation,
            owed: receipt.owed,
            bytes: receipt.bytes,
            stored: receipt.stored,
            want: receipt.want,
            asked: receipt.asked,
            have: receipt.have,
            durable: receipt.durable,
        }
    }
}

impl Receipt {
    /// The engine's, as far as waiting needs it.
    pub(crate) fn known(&self) -> engine::Receipt {
        engine::Receipt {
            key: Vec::new(),
            object: self.object,
            generation: self.generation,
            want: self.want,
            asked: self.asked,
            possible: self.want,
            have: self.have,
            durable: self.durable,
            owed: self.owed,
            owed_to: Vec::new(),
            bytes: self.bytes,
            stored: self.stored,
            is_slow: false,
        }
    }
}
