//! Bits of strings.

use super::strings::{check_string_length, string};
use super::{Call, Done, KEYS_AFTER_OPERATION, ONE_KEY, Verb, reading, writing};
use crate::datum::Datum;
use crate::held::Held;
use crate::number::{MAX_BIT_OFFSET, parse_integer, resolve_range};
use crate::problem::{Problem, SYNTAX_ERROR, said};
use crate::resp::Resp;

pub const COMMAND_TABLE: &[Verb] = &[
    writing("setbit", 4, ONE_KEY, setbit),
    reading("getbit", 3, ONE_KEY, getbit),
    reading("bitcount", -2, ONE_KEY, bitcount),
    reading("bitpos", -3, ONE_KEY, bitpos),
    writing("bitop", -4, KEYS_AFTER_OPERATION, bitop),
    writing("bitfield", -2, ONE_KEY, |call| bitfield(call, true)),
    reading("bitfield_ro", -2, ONE_KEY, |call| bitfield(call, false)),
];

const BAD_OFFSET: Problem = said("ERR bit offset is not an integer or out of range");
const BAD_BIT: Problem = said("ERR bit is not an integer or out of range");
const BAD_TYPE: Problem =
    said("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.");

fn bit_offset(word: &[u8]) -> Result<u64, Problem> {
    let offset = parse_integer(word).ok().and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| *offset <= MAX_BIT_OFFSET).ok_or(BAD_OFFSET)
}

/// The number of a bit's byte, and the bit in it. The first bit is the highest.
fn bit_place(offset: u64) -> (usize, u8) {
    ((offset / 8) as usize, 0x80 >> (offset % 8))
}

fn bit_at(bytes: &[u8], offset: u64) -> bool {
    let (byte, mask) = bit_place(offset);
    bytes.get(byte).is_some_and(|byte| byte & mask != 0)
}

fn setbit(call: &mut Call<'_, '_>) -> Done {
    let (key, offset) = (call.key(), bit_offset(call.word(2))?);
    let is_on = match call.word(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(BAD_BIT),
    };
    let (at, mask) = bit_place(offset);
    let bytes = call.pass.value_or_new::<Vec<u8>>(call.db, key)?;
    if bytes.len() <= at {
        bytes.resize(at + 1, 0);
    }
    let was_on = bytes[at] & mask != 0;
    if is_on {
        bytes[at] |= mask;
    } else {
        bytes[at] &= !mask;
    }
    call.pass.note_change(call.db, key);
    Ok(Resp::Number(was_on.into()))
}

fn getbit(call: &mut Call<'_, '_>) -> Done {
    let offset = bit_offset(call.word(2))?;
    let byte = call.pass.range(call.db, call.key(), offset / 8, offset / 8 + 1)?;
    Ok(Resp::Number(bit_at(&byte, offset % 8).into()))
}

/// Reads the bounds of a range in bytes or bits, as first and last bit. None if it is empty.
fn bit_range(call: &Call<'_, '_>, at: usize, length: usize) -> Result<Option<(u64, u64)>, Problem> {
    let start = call.integer(at)?;
    let stop = if call.words.len() > at + 1 { call.integer(at + 1)? } else { -1 };
    let counts_bits = match call.words.len() > at + 2 {
        false => false,
        true if call.says(at + 2, "bit") => true,
        true if call.says(at + 2, "byte") => false,
        true => return Err(SYNTAX_ERROR),
    };
    if call.words.len() > at + 3 {
        return Err(SYNTAX_ERROR);
    }
    if start < 0 && stop < 0 && start > stop {
        return Ok(None);
    }
    Ok(match counts_bits {
        true => resolve_range(start, stop, length * 8).map(|(first, last)| (first as u64, last as u64)),
        false => resolve_range(start, stop, length).map(|(first, last)| (first as u64 * 8, last as u64 * 8 + 7)),
    })
}

/// The bits of a byte that lie in a range.
fn mask_of(byte: usize, (first, last): (u64, u64)) -> u8 {
    let begin = byte as u64 * 8;
    let from = first.saturating_sub(begin).min(8);
    let to = (last + 1).saturating_sub(begin).min(8);
    let head = if from >= 8 { 0 } else { 0xff_u8 >> from };
    let tail = if to == 0 { 0 } else { 0xff_u8 << (8 - to) };
    head & tail
}

fn bitcount(call: &mut Call<'_, '_>) -> Done {
    let bytes = string(call, call.key())?;
    if call.words.len() == 3 {
        return Err(SYNTAX_ERROR);
    }
    let bytes = bytes.unwrap_or_default();
    let range = match call.words.len() {
        2 => resolve_range(0, -1, bytes.len()).map(|(first, last)| (first as u64 * 8, last as u64 * 8 + 7)),
        _ => bit_range(call, 2, bytes.len())?,
    };
    let Some(range) = range else { return Ok(Resp::Number(0)) };
    let bytes = bytes.iter().enumerate().skip((range.0 / 8) as usize).take((range.1 / 8 - range.0 / 8 + 1) as usize);
    let count: u32 = bytes.map(|(at, byte)| (byte & mask_of(at, range)).count_ones()).sum();
    Ok(Resp::Number(count.into()))
}

fn bitpos(call: &mut Call<'_, '_>) -> Done {
    let wants = match call.word(2) {
        b"0" => false,
        b"1" => true,
        _ => return Err(said("ERR The bit argument must be 1 or 0.")),
    };
    let bytes = string(call, call.key())?;
    let Some(bytes) = bytes else { return Ok(Resp::Number(if wants { -1 } else { 0 })) };
    let has_end = call.words.len() > 4;
    let range = match call.words.len() {
        3 => resolve_range(0, -1, bytes.len()).map(|(first, last)| (first as u64 * 8, last as u64 * 8 + 7)),
        _ => bit_range(call, 3, bytes.len())?,
    };
    let Some(range) = range else { return Ok(Resp::Number(-1)) };
    let (first, last) = ((range.0 / 8) as usize, (range.1 / 8) as usize);
    for (at, byte) in bytes.iter().enumerate().take(last + 1).skip(first) {
        let byte = if wants { *byte } else { !byte } & mask_of(at, range);
        if byte != 0 {
            return Ok(Resp::Number(at as i64 * 8 + i64::from(byte.leading_zeros())));
        }
    }
    // Behind the end of a string, all bits are 0; a range with an end has none behind it.
    Ok(Resp::Number(if wants || has_end { -1 } else { bytes.len() as i64 * 8 }))
}

fn bitop(call: &mut Call<'_, '_>) -> Done {
    let operation = call.word(1).to_ascii_uppercase();
    let combine: fn(u8, u8) -> u8 = match operation.as_slice() {
        b"AND" => |a, b| a & b,
        b"OR" => |a, b| a | b,
        b"XOR" => |a, b| a ^ b,
        b"NOT" if call.words.len() == 4 => |_, b| !b,
        b"NOT" => return Err(said("ERR BITOP NOT must be called with a single source key.")),
        _ => return Err(SYNTAX_ERROR),
    };
    let mut sources = Vec::new();
    for key in call.words_from(3) {
        sources.push(string(call, key)?.unwrap_or_default());
    }
    let length = sources.iter().map(Vec::len).max().unwrap_or(0);
    let byte_at = |source: &Vec<u8>, at: usize| source.get(at).copied().unwrap_or(0);
    let is_not = operation == b"NOT";
    let result = (0..length).map(|at| {
        let mut bytes = sources.iter().map(|source| byte_at(source, at));
        let first = if is_not { 0 } else { bytes.next().unwrap_or(0) };
        bytes.fold(first, combine)
    });
    let result: Vec<u8> = result.collect();
    match length {
        0 => drop(call.pass.remove(call.db, call.word(2))?),
        _ => call.pass.put(call.db, call.word(2), Held::new(Datum::String(result), None))?,
    }
    Ok(Resp::count(length))
}

/// A whole number in a string.
#[derive(Clone, Copy)]
struct FieldType {
    is_signed: bool,
    bits: u64,
}

impl FieldType {
    fn parse(word: &[u8]) -> Result<FieldType, Problem> {
        let (kind, bits) = word.split_first().ok_or(BAD_TYPE)?;
        let is_signed = match kind.to_ascii_lowercase() {
            b'i' => true,
            b'u' => false,
            _ => return Err(BAD_TYPE),
        };
        let bits = parse_integer(bits).ok().and_then(|bits| u64::try_from(bits).ok());
        let bits = bits.filter(|bits| (1..=if is_signed { 64 } else { 63 }).contains(bits)).ok_or(BAD_TYPE)?;
        Ok(FieldType { is_signed, bits })
    }

    fn bounds(self) -> (i128, i128) {
        let size = 1_i128 << self.bits;
        if self.is_signed { (-size / 2, size / 2 - 1) } else { (0, size - 1) }
    }

    fn read(self, bytes: &[u8], offset: u64) -> i128 {
        let raw = (0..self.bits).fold(0_i128, |value, bit| value << 1 | i128::from(bit_at(bytes, offset + bit)));
        self.wrap(raw)
    }

    fn write(self, bytes: &mut Vec<u8>, offset: u64, value: i128) {
        let end = ((offset + self.bits).div_ceil(8)) as usize;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        for bit in 0..self.bits {
            let (at, mask) = bit_place(offset + bit);
            let is_on = value >> (self.bits - 1 - bit) & 1 == 1;
            bytes[at] = if is_on { bytes[at] | mask } else { bytes[at] & !mask };
        }
    }

    fn wrap(self, value: i128) -> i128 {
        let size = 1_i128 << self.bits;
        let value = value.rem_euclid(size);
        if self.is_signed && value >= size / 2 { value - size } else { value }
    }

    /// The value to store; none if it does not fit and may not be changed.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i128> {
        let (least, most) = self.bounds();
        match overflow {
            _ if (least..=most).contains(&value) => Some(value),
            Overflow::Wrap => Some(self.wrap(value)),
            Overflow::Saturate => Some(value.clamp(least, most)),
            Overflow::Fail => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

enum FieldAction {
    Get,
    Set(i64, Overflow),
    Increase(i64, Overflow),
}

fn bitfield(call: &mut Call<'_, '_>, may_write: bool) -> Done {
    let mut overflow = Overflow::Wrap;
    let mut steps = Vec::new();
    let mut at = 2;
    while at < call.words.len() {
        let name = call.word(at).to_ascii_uppercase();
        if name == b"OVERFLOW" && at + 1 < call.words.len() {
            overflow = match call.word(at + 1).to_ascii_uppercase().as_slice() {
                b"WRAP" => Overflow::Wrap,
                b"SAT" => Overflow::Saturate,
                b"FAIL" => Overflow::Fail,
                _ => return Err(said("ERR Invalid OVERFLOW type specified")),
            };
            at += 2;
            continue;
        }
        let needed = if name == b"GET" { 3 } else { 4 };
        if !matches!(name.as_slice(), b"GET" | b"SET" | b"INCRBY") || at + needed > call.words.len() {
            return Err(SYNTAX_ERROR);
        }
        let field = FieldType::parse(call.word(at + 1))?;
        let offset = match call.word(at + 2) {
            [b'#', number @ ..] => bit_offset(number)?.checked_mul(field.bits).ok_or(BAD_OFFSET)?,
            number => bit_offset(number)?,
        };
        if offset + field.bits > MAX_BIT_OFFSET + 1 {
            return Err(BAD_OFFSET);
        }
        let action = match name.as_slice() {
            b"GET" => FieldAction::Get,
            b"SET" => FieldAction::Set(call.integer(at + 3)?, overflow),
            _ => FieldAction::Increase(call.integer(at + 3)?, overflow),
        };
        if !may_write && !matches!(action, FieldAction::Get) {
            return Err(said("ERR BITFIELD_RO only supports the GET subcommand"));
        }
        steps.push((field, offset, action));
        at += needed;
    }
    let mut bytes = string(call, call.key())?.unwrap_or_default();
    let mut replies = Vec::new();
    let mut is_changed = false;
    for (field, offset, action) in steps {
        let old = field.read(&bytes, offset);
        let (wanted, overflow, returns_old) = match action {
            FieldAction::Get => {
                replies.push(Resp::Number(old as i64));
                continue;
            }
            FieldAction::Set(value, overflow) => (i128::from(value), overflow, true),
            FieldAction::Increase(by, overflow) => (old + i128::from(by), overflow, false),
        };
        match field.fit(wanted, overflow) {
            Some(value) => {
                field.write(&mut bytes, offset, value);
                is_changed = true;
                replies.push(Resp::Number(if returns_old { old } else { value } as i64));
            }
            None => replies.push(Resp::Nil),
        }
    }
    if is_changed {
        check_string_length(bytes.len())?;
        *call.pass.value_or_new::<Vec<u8>>(call.db, call.key())? = bytes;
        call.pass.note_change(call.db, call.key());
    }
    Ok(Resp::Array(replies))
}
