//! Encodings of numbers in Parquet pages (parquet-format, Encodings.md).

use std::collections::HashMap;

use foldhash::fast::RandomState;

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
    if values.iter().all(|&value| value == first) {
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
    let mut codes_of: HashMap<i64, u32, RandomState> = HashMap::default();
    codes_of.extend(sample.iter().map(|&value| (value, 0)));
    if codes_of.len() > sample.len() / 2 {
        return None;
    }
    codes_of.clear();
    let mut distinct = Vec::new();
    let mut codes = Vec::with_capacity(values.len());
    for &value in values {
        let next = distinct.len() as u32;
        let code = *codes_of.entry(value).or_insert(next);
        if code == next {
            distinct.push(value);
        }
        codes.push(code);
    }
    Some((distinct, codes))
}

/// Append numbers of `width` bits, the lowest bit first.
fn pack(out: &mut Vec<u8>, values: impl Iterator<Item = u64>, width: u32) {
    let (mut bits, mut filled) = (0u64, 0);
    for value in values {
        bits |= value << filled;
        filled += width;
        if filled >= 64 {
            out.extend_from_slice(&bits.to_le_bytes());
            filled -= 64;
            // the highest bits of the value, which did not fit
            bits = if filled > 0 { value >> (width - filled) } else { 0 };
        }
    }
    while filled > 0 {
        out.push(bits as u8);
        bits >>= 8;
        filled = filled.saturating_sub(8);
    }
}

/// The same for at most 8 bits, and packed in groups of eight numbers, of which the last one is filled with zeros.
fn pack_bytes(out: &mut Vec<u8>, values: &[u32], width: u32) {
    let mut at = out.len();
    let end = at + values.len().div_ceil(8) * width as usize;
    out.resize(end + 8, 0);
    for group in values.chunks(8) {
        let mut bits = 0u64;
        for (&value, place) in group.iter().zip(0..) {
            bits |= u64::from(value) << (place * width);
        }
        // the bytes after those of the group are overwritten by the next one
        out[at..at + 8].copy_from_slice(&bits.to_le_bytes());
        at += width as usize;
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

/// Append numbers of `width` bits in the hybrid of run lengths and packed bits.
pub fn push_hybrid(out: &mut Vec<u8>, values: &[u32], width: u32) {
    match values.first() {
        None => {}
        Some(&first) if values.iter().all(|&value| value == first) => push_run(out, values.len(), first, width),
        Some(_) => {
            let groups = values.len().div_ceil(8);
            push_varint(out, (groups as u64) << 1 | 1);
            if width <= 8 {
                return pack_bytes(out, values, width);
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
    for block in values.get(1..).unwrap_or(&[]).chunks(BLOCK).zip(values.chunks(BLOCK)) {
        // the second chunks begin one value earlier
        let (block, before) = block;
        for ((delta, value), earlier) in deltas.iter_mut().zip(block).zip(before) {
            *delta = value.wrapping_sub(*earlier);
        }
        let deltas = &mut deltas[..block.len()];
        let least = deltas.iter().copied().min().unwrap_or(0);
        push_zigzag(&mut out, least);
        let width = |part: &[i64]| {
            let all = part
                .iter()
                .fold(0, |bits, delta| bits | delta.wrapping_sub(least) as u64);
            u64::BITS - all.leading_zeros()
        };
        let mut widths = [0; BLOCK / MINIBLOCK];
        for (bits, part) in widths.iter_mut().zip(deltas.chunks(MINIBLOCK)) {
            *bits = width(part) as u8;
        }
        out.extend_from_slice(&widths);
        for (&bits, part) in widths.iter().zip(deltas.chunks(MINIBLOCK)) {
            let padding = std::iter::repeat_n(0, MINIBLOCK - part.len());
            let packed = part.iter().map(|delta| delta.wrapping_sub(least) as u64);
            pack(&mut out, packed.chain(padding), bits.into());
        }
    }
    out
}
