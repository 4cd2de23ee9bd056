//! Encodings of numbers in Parquet pages (parquet-format, Encodings.md).

use crate::analysis::grouping::Numbering;

use super::thrift::{push_varint, push_zigzag};

/// Values of a column are looked up in a table of at most this size, if they differ in their lowest bits alone.
const TABLE: usize = 1 << 16;
/// Values of a block, and of a quarter of it, of DELTA_BINARY_PACKED.
const BLOCK: usize = 128;
const MINIBLOCK: usize = 32;
/// Values that are looked at before all are encoded.
const SAMPLE: usize = 2048;

/// Numbers as they are in a column chunk.
pub enum Encoded {
    /// The different values in the order of their first places, and which of them each value is.
    Dictionary {
        distinct: Vec<i64>,
        codes: Vec<u32>,
    },
    /// A page in DELTA_BINARY_PACKED.
    Delta(Vec<u8>),
    Plain,
}

/// How numbers of `size` bytes (4 or 8) take the least space, roughly; `differences`: also as differences.
pub fn choose_encoding(values: &[i64], size: usize, differences: bool) -> Encoded {
    let Some(&first) = values.first() else {
        return Encoded::Plain;
    };
    let plain = values.len() * size;
    let delta = |limit: usize| {
        let sample = &values[..values.len().min(SAMPLE)];
        if !differences || encode_delta(sample).len() * values.len() > limit * sample.len() {
            return None;
        }
        let encoded = encode_delta(values);
        (encoded.len() < limit).then_some(Encoded::Delta(encoded))
    };
    // the bits in which values differ
    let bits = values.iter().fold(0, |bits, value| bits | (value ^ first));
    let found = if bits == 0 {
        Some((vec![first], vec![0; values.len()]))
    } else if (bits as u64) < TABLE as u64 {
        let (distinct, codes) = find_in_table(values, bits as usize);
        let bytes = dictionary_bytes(distinct.len(), values.len(), size);
        if bit_width(distinct.len()) > 8 {
            if let Some(smaller) = delta(bytes.min(plain)) {
                return smaller;
            }
        }
        Some((distinct, codes))
    } else {
        if let Some(smaller) = delta(plain * 6 / 10) {
            return smaller;
        }
        find_by_hash(values)
    };
    match found {
        Some((distinct, codes)) if dictionary_bytes(distinct.len(), values.len(), size) < plain * 9 / 10 => {
            Encoded::Dictionary { distinct, codes }
        }
        _ => Encoded::Plain,
    }
}

/// Bits of the codes of so many different values.
pub fn bit_width(distinct: usize) -> u32 {
    (usize::BITS - distinct.saturating_sub(1).leading_zeros()).max(1)
}

fn dictionary_bytes(distinct: usize, count: usize, size: usize) -> usize {
    distinct * size + count * bit_width(distinct) as usize / 8
}

/// The different values in the order of their first places, and which of them each value is; they differ in these bits
/// alone.
fn find_in_table(values: &[i64], bits: usize) -> (Vec<i64>, Vec<u32>) {
    let lowest = (bits + 1).next_power_of_two() - 1;
    let mut codes_of = vec![u32::MAX; lowest + 1];
    let mut distinct = Vec::new();
    let codes = values.iter().map(|&value| {
        let code = &mut codes_of[value as usize & lowest];
        if *code == u32::MAX {
            *code = distinct.len() as u32;
            distinct.push(value);
        }
        *code
    });
    let codes = codes.collect();
    (distinct, codes)
}

/// The different values in the order of their first places, and which of them each value is; None: they would take more
/// space than numbers of `size` bytes.
pub fn find_small(values: &[u16], size: usize) -> Option<(Vec<u16>, Vec<u32>)> {
    let &first = values.first()?;
    if are_all(values, first) {
        return Some((vec![first], vec![0; values.len()]));
    }
    let mut codes_of = vec![u32::MAX; TABLE];
    let mut distinct = Vec::new();
    let codes = values.iter().map(|&value| {
        let code = &mut codes_of[usize::from(value)];
        if *code == u32::MAX {
            *code = distinct.len() as u32;
            distinct.push(value);
        }
        *code
    });
    let codes = codes.collect();
    (dictionary_bytes(distinct.len(), values.len(), size) < values.len() * size).then_some((distinct, codes))
}

/// None: most values are different.
fn find_by_hash(values: &[i64]) -> Option<(Vec<i64>, Vec<u32>)> {
    let sample = &values[..values.len().min(SAMPLE)];
    let different = |values: &[i64]| {
        let (mut numbering, mut distinct) = (Numbering::default(), Vec::new());
        let codes = values.iter().map(|&value| {
            let (code, is_new) = numbering.number(value as u64);
            if is_new {
                distinct.push(value);
            }
            code
        });
        let codes: Vec<u32> = codes.collect();
        (distinct, codes)
    };
    if different(sample).0.len() > sample.len() / 2 {
        return None;
    }
    Some(different(values))
}

/// Append a multiple of eight numbers of `width` bits, the lowest bit first.
fn pack(out: &mut Vec<u8>, values: &[u64], width: u32) {
    if width == 0 {
        return;
    }
    let mut at = out.len();
    let end = at + values.len() / 8 * width as usize;
    out.resize(end + 8, 0);
    let (mut bits, mut filled) = (0u64, 0);
    for &value in values {
        bits |= value << filled;
        filled += width;
        if filled >= 64 {
            out[at..at + 8].copy_from_slice(&bits.to_le_bytes());
            at += 8;
            filled -= 64;
            // the highest bits of the value, which did not fit
            bits = if filled > 0 { value >> (width - filled) } else { 0 };
        }
    }
    out[at..at + 8].copy_from_slice(&bits.to_le_bytes());
    out.truncate(end);
}

/// The same for at most 16 bits, and packed in groups of eight numbers, of which the last one is filled with zeros.
fn pack_small(out: &mut Vec<u8>, values: &[u32], width: u32) {
    // shifts by constants take half of the time
    match width {
        1 => pack_groups::<1>(out, values),
        2 => pack_groups::<2>(out, values),
        3 => pack_groups::<3>(out, values),
        4 => pack_groups::<4>(out, values),
        5 => pack_groups::<5>(out, values),
        6 => pack_groups::<6>(out, values),
        7 => pack_groups::<7>(out, values),
        8 => pack_groups::<8>(out, values),
        9 => pack_groups::<9>(out, values),
        10 => pack_groups::<10>(out, values),
        11 => pack_groups::<11>(out, values),
        12 => pack_groups::<12>(out, values),
        13 => pack_groups::<13>(out, values),
        14 => pack_groups::<14>(out, values),
        15 => pack_groups::<15>(out, values),
        _ => pack_groups::<16>(out, values),
    }
}

fn pack_groups<const WIDTH: usize>(out: &mut Vec<u8>, values: &[u32]) {
    let pack = |group: &[u32; 8]| {
        let mut bits = 0_u128;
        for (place, &value) in group.iter().enumerate() {
            bits |= u128::from(value) << (place * WIDTH);
        }
        bits.to_le_bytes()
    };
    let mut at = out.len();
    let end = at + values.len().div_ceil(8) * WIDTH;
    out.resize(end + 16, 0);
    let groups = values.chunks_exact(8);
    let mut last = [0; 8];
    last[..groups.remainder().len()].copy_from_slice(groups.remainder());
    for group in groups.chain([&last[..]]).take(values.len().div_ceil(8)) {
        // the bytes after those of the group are overwritten by the next one
        let group = group.try_into().unwrap_or(&last);
        out[at..at + 16].copy_from_slice(&pack(group));
        at += WIDTH;
    }
    out.truncate(end);
}

/// The same as `pack` for at most 32 bits, in half of the time.
fn pack_narrow(out: &mut Vec<u8>, values: impl Iterator<Item = u32>, width: u32) {
    let (mut bits, mut filled) = (0u64, 0);
    for value in values {
        bits |= u64::from(value) << filled;
        filled += width;
        if filled >= 32 {
            out.extend_from_slice(&(bits as u32).to_le_bytes());
            bits >>= 32;
            filled -= 32;
        }
    }
    while filled > 0 {
        out.push(bits as u8);
        bits >>= 8;
        filled = filled.saturating_sub(8);
    }
}

/// Append `count` times the same number of `width` bits in the hybrid of run lengths and packed bits.
pub fn push_run(out: &mut Vec<u8>, count: usize, value: u32, width: u32) {
    push_varint(out, (count as u64) << 1);
    out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
}

/// Whether all values equal this one. Most columns differ soon, or not at all.
fn are_all<T: Copy + PartialEq>(values: &[T], same: T) -> bool {
    // without a branch for each value
    let is_same = |part: &[T]| part.iter().fold(true, |all, &value| all & (value == same));
    values.chunks(64).all(is_same)
}

/// Append numbers of `width` bits in the hybrid of run lengths and packed bits.
pub fn push_hybrid(out: &mut Vec<u8>, values: &[u32], width: u32) {
    match values.first() {
        None => {}
        Some(&first) if are_all(values, first) => push_run(out, values.len(), first, width),
        Some(_) => {
            let groups = values.len().div_ceil(8);
            push_varint(out, (groups as u64) << 1 | 1);
            if width <= 16 {
                return pack_small(out, values, width);
            }
            let end = out.len() + groups * width as usize;
            pack_narrow(out, values.iter().copied(), width);
            out.resize(end, 0);
        }
    }
}

/// Booleans as bits.
pub fn pack_booleans(values: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut out = Vec::new();
    pack_narrow(&mut out, values.map(u32::from), 1);
    out
}

/// DELTA_BINARY_PACKED of numbers of 8 bytes.
pub fn encode_delta(values: &[i64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.len() * 2);
    push_varint(&mut out, BLOCK as u64);
    push_varint(&mut out, (BLOCK / MINIBLOCK) as u64);
    push_varint(&mut out, values.len() as u64);
    push_zigzag(&mut out, values.first().copied().unwrap_or(0));
    let mut deltas = [0; BLOCK];
    // the second chunks begin one value earlier
    for (block, before) in values.get(1..).unwrap_or(&[]).chunks(BLOCK).zip(values.chunks(BLOCK)) {
        let mut least = i64::MAX;
        for ((delta, value), earlier) in deltas.iter_mut().zip(block).zip(before) {
            *delta = value.wrapping_sub(*earlier);
            least = least.min(*delta);
        }
        push_zigzag(&mut out, least);
        let mut above = [0_u64; BLOCK];
        for (above, delta) in above.iter_mut().zip(&deltas[..block.len()]) {
            *above = delta.wrapping_sub(least) as u64;
        }
        // those that the block lacks are 0, and whole quarters of them are left out
        let parts = above.chunks_exact(MINIBLOCK).take(block.len().div_ceil(MINIBLOCK));
        let mut widths = [0; BLOCK / MINIBLOCK];
        for (width, part) in widths.iter_mut().zip(parts.clone()) {
            *width = (u64::BITS - part.iter().fold(0, |bits, above| bits | above).leading_zeros()) as u8;
        }
        out.extend_from_slice(&widths);
        for (&width, part) in widths.iter().zip(parts) {
            pack(&mut out, part, width.into());
        }
    }
    out
}
