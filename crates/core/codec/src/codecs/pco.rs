//! Pco: the numeric codec. The bytes behind the last complete element are stored first, uncompressed. So a decoder that is given a
//! wrong length does not find pco's magic number where it looks for it.

use bytemuck::{Pod, cast_slice_mut, try_cast_slice, try_cast_slice_mut};
use pco::ChunkConfig;
use pco::data_types::Number;
use pco::standalone::{simple_compress_into, simple_decompress_into};

use super::{Result, text};
use crate::Element;

/// Calls a function for the number type of the element.
macro_rules! of_type {
    ($element:expr, $function:ident($($argument:expr),*)) => {
        match $element {
            Element::I16 => $function::<i16>($($argument),*),
            Element::U16 => $function::<u16>($($argument),*),
            Element::I32 => $function::<i32>($($argument),*),
            Element::U32 => $function::<u32>($($argument),*),
            Element::I64 => $function::<i64>($($argument),*),
            Element::U64 => $function::<u64>($($argument),*),
            Element::F32 => $function::<f32>($($argument),*),
            Element::F64 => $function::<f64>($($argument),*),
            Element::Bytes | Element::Record32 => Err(format!("pco has no type of number for {}", $element.name())),
        }
    };
}

pub fn encode(element: Element, source: &[u8], level: i8, out: &mut Vec<u8>, numbers: &mut Vec<u64>) -> Result<()> {
    let (whole, rest) = source.split_at(source.len() - source.len() % element.width());
    // The maximum level is 12; levels 9 to 12 gain little over 8 at a high cost.
    let level = usize::from(level.clamp(0, 12).unsigned_abs());
    out.extend_from_slice(rest);
    of_type!(element, encode_numbers(whole, level, out, numbers))
}

pub fn decode(element: Element, stored: &[u8], target: &mut [u8], numbers: &mut Vec<u64>) -> Result<usize> {
    let (length, rest) = (target.len(), target.len() % element.width());
    let (whole, end) = target.split_at_mut(length - rest);
    let (stored_end, stored) = stored.split_at_checked(rest).ok_or("they are too few")?;
    end.copy_from_slice(stored_end);
    Ok(of_type!(element, decode_numbers(stored, whole, numbers))? + rest)
}

fn encode_numbers<T: Number + Pod>(
    whole: &[u8],
    level: usize,
    out: &mut Vec<u8>,
    numbers: &mut Vec<u64>,
) -> Result<()> {
    let numbers: &[T] = match try_cast_slice(whole) {
        Ok(numbers) => numbers,
        Err(_) => {
            let aligned = aligned(numbers, whole.len());
            aligned.copy_from_slice(whole);
            bytemuck::cast_slice(aligned)
        }
    };
    let config = ChunkConfig::default().with_compression_level(level);
    simple_compress_into(numbers, &config, out).map_err(text)?;
    Ok(())
}

fn decode_numbers<T: Number + Pod>(stored: &[u8], whole: &mut [u8], numbers: &mut Vec<u64>) -> Result<usize> {
    if let Ok(target) = try_cast_slice_mut::<u8, T>(whole) {
        return fill(stored, target);
    }
    let aligned = aligned(numbers, whole.len());
    let length = fill::<T>(stored, cast_slice_mut(aligned))?;
    whole.copy_from_slice(aligned);
    Ok(length)
}

fn fill<T: Number + Pod>(stored: &[u8], target: &mut [T]) -> Result<usize> {
    let progress = simple_decompress_into(stored, target).map_err(text)?;
    if !progress.finished {
        return Err("there are more numbers".to_owned());
    }
    Ok(progress.n_processed * size_of::<T>())
}

/// Returns a buffer of `length` bytes that is aligned for every number type.
fn aligned(numbers: &mut Vec<u64>, length: usize) -> &mut [u8] {
    numbers.resize(length.div_ceil(size_of::<u64>()), 0);
    &mut cast_slice_mut(numbers)[..length]
}
