//! Receipts of writes and descriptions of objects, as numbers. `Receipt.java` and `StoredObject.java` name them in the same order.

use engine::{Kind, Object, Receipt};

use crate::thrown::Thrown;

/// The number of numbers of a receipt.
const RECEIPT_NUMBER_COUNT: usize = 11;

/// Converts a receipt of the store with this id.
pub fn to_numbers(receipt: &Receipt, store: u64) -> [i64; RECEIPT_NUMBER_COUNT] {
    [
        store as i64,
        receipt.object as i64,
        receipt.generation as i64,
        receipt.range.start as i64,
        receipt.bytes as i64,
        receipt.stored as i64,
        receipt.owed as i64,
        receipt.want.into(),
        receipt.asked.into(),
        receipt.have.into(),
        receipt.durable.into(),
    ]
}

/// Converts back, with the fields that waiting needs.
pub fn of_numbers(numbers: [i64; RECEIPT_NUMBER_COUNT], store: u64) -> Result<Receipt, Thrown> {
    let [of, object, generation, start, bytes, stored, owed, want, asked, have, durable] = numbers;
    if of != store as i64 {
        return Err(Thrown::Invalid("the receipt is of another store; wait for it there".into()));
    }
    Ok(Receipt {
        key: Vec::new(),
        object: object as u64,
        generation: generation as u64,
        want: want as u8,
        asked: asked as u8,
        possible: want as u8,
        memory_left_out: false,
        range: start as u64..(start as u64).saturating_add(bytes as u64),
        have: have as u8,
        durable: durable != 0,
        owed: owed as u64,
        owed_to: Vec::new(),
        bytes: bytes as u64,
        stored: stored as u64,
        is_slow: false,
    })
}

/// Returns the position of a kind among those of Java.
pub fn kind_number(kind: Kind) -> i64 {
    match kind {
        Kind::File => 0,
        Kind::Directory => 1,
        Kind::Symlink => 2,
    }
}

/// Converts the description of an object.
pub fn of_object(object: &Object) -> [i64; 7] {
    let kind = kind_number(object.attributes.kind);
    let (id, generation) = (object.id as i64, object.generation as i64);
    let (mode, modified) = (object.attributes.mode.into(), object.attributes.mtime);
    [id, generation, object.length as i64, object.want.into(), kind, mode, modified]
}
