//! Receipts: the progress of a write.

use std::ptr;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Failure;

/// The level that a write had reached when it returned.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Receipt {
    /// The object's number.
    pub object: u64,
    /// The commit that made the write visible.
    pub generation: u64,
    /// The number of pending replicas.
    pub owed: u64,
    /// The number of bytes written, before encoding and replication.
    pub bytes: u64,
    /// The size of the replicas made so far.
    pub stored: u64,
    /// The planned number of replicas of each extent.
    pub want: u8,
    /// The requested number of replicas; more than `want` if there are too few failure domains.
    pub asked: u8,
    /// The smallest number of replicas of an extent so far.
    pub have: u8,
    /// Whether the write survives a power failure.
    pub durable: bool,
    /// A checksum by which `terrace_wait` recognises receipts that a call has filled.
    pub seal: u32,
}

/// The size of the fields before the seal, which have no padding between them.
const SEALED_BYTES: usize = std::mem::offset_of!(Receipt, seal);

/// Computes the seal of a receipt's bytes for the store of this number.
fn seal_of(bytes: &[u8; SEALED_BYTES], store: u64) -> u32 {
    xxh3_64_with_seed(bytes, store) as u32
}

impl Receipt {
    /// Converts the engine's receipt for the store of this number.
    pub(crate) fn of(receipt: &engine::Receipt, store: u64) -> Receipt {
        let mut made = Receipt {
            object: receipt.object,
            generation: receipt.generation,
            owed: receipt.owed,
            bytes: receipt.bytes,
            stored: receipt.stored,
            want: receipt.want,
            asked: receipt.asked,
            have: receipt.have,
            durable: receipt.durable,
            seal: 0,
        };
        // SAFETY: the bytes before the seal belong to fields without padding between them, so all are initialised.
        made.seal = seal_of(unsafe { &*ptr::from_ref(&made).cast() }, store);
        made
    }

    /// Converts back to the engine's receipt, with the fields that waiting needs, if a call on the store of this number filled it.
    ///
    /// # Safety
    /// `receipt` is null, or points to the size of a receipt in bytes. Their content may be anything.
    pub(crate) unsafe fn known(receipt: *const Receipt, store: u64) -> Result<engine::Receipt, Failure> {
        if receipt.is_null() {
            return Err(Failure::Invalid("the receipt is null".into()));
        }
        // SAFETY: the caller provides this number of bytes. They are read as bytes because they may not be valid field values.
        let (bytes, seal) = unsafe {
            (receipt.cast::<[u8; SEALED_BYTES]>().read_unaligned(), (&raw const (*receipt).seal).read_unaligned())
        };
        if seal != seal_of(&bytes, store) {
            let what = "the receipt is none that a call on this store has filled, or was changed since";
            return Err(Failure::Invalid(what.into()));
        }
        // SAFETY: the seal matches, so these are the bytes of a receipt that this library made.
        let known = unsafe { receipt.read_unaligned() };
        Ok(engine::Receipt {
            key: Vec::new(),
            object: known.object,
            generation: known.generation,
            want: known.want,
            asked: known.asked,
            possible: known.want,
            memory_left_out: false,
            range: 0..u64::MAX,
            have: known.have,
            durable: known.durable,
            owed: known.owed,
            owed_to: Vec::new(),
            bytes: known.bytes,
            stored: known.stored,
            is_slow: false,
        })
    }
}
