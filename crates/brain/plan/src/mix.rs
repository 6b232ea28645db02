//! Hashing of numbers.

/// Returns the hash of the previous hash and one more number.
pub(crate) fn mix(hash: u64, number: u64) -> u64 {
    let product = u128::from(hash ^ number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
    (product >> 64) as u64 ^ product as u64
}
