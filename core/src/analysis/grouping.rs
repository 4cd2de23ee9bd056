//! Groups of equal values (ikeanalyze/analysis/grouping.py).

use foldhash::fast::RandomState;
use std::collections::hash_map::Entry;
use std::collections::HashMap;

/// Bits of the places for values that were looked up last.
const RECENT_BITS: u32 = 12;
/// An odd number with well-mixed bits (2**64 divided by the golden ratio).
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
/// More than any number of a value.
const NONE: u32 = u32::MAX;

/// Numbers of values, from 0 in the order in which they first appear. Its hash has a random seed: a capture cannot
/// choose values that collide.
pub struct Numbering {
    numbers: HashMap<u64, u32, RandomState>,
    /// Values and their numbers. Rows of one host or IKE SA are near one another, so that most are found here, without
    /// a hash and in the processor's cache.
    recent: Vec<(u64, u32)>,
}

impl Default for Numbering {
    fn default() -> Self {
        Self {
            numbers: HashMap::default(),
            recent: vec![(0, NONE); 1 << RECENT_BITS],
        }
    }
}

impl Numbering {
    /// The number of a value, and whether it is new.
    #[inline]
    pub fn number(&mut self, value: u64) -> (u32, bool) {
        let recent = &mut self.recent[(value.wrapping_mul(MIX) >> (u64::BITS - RECENT_BITS)) as usize];
        if recent.0 == value && recent.1 != NONE {
            return (recent.1, false);
        }
        let next = self.numbers.len() as u32;
        let (number, is_new) = match self.numbers.entry(value) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(free) => (*free.insert(next), true),
        };
        *recent = (value, number);
        (number, is_new)
    }
}

/// The different values, in the order in which they first appear, and which of them each value is.
pub fn find_distinct(values: &[u64]) -> (Vec<u64>, Vec<u32>) {
    let mut numbering = Numbering::default();
    let mut distinct = Vec::new();
    let mut places = Vec::with_capacity(values.len());
    let mut last = None;
    for &value in values {
        // rows of one host often follow one another
        let place = match last {
            Some((same, place)) if same == value => place,
            _ => {
                let (place, is_new) = numbering.number(value);
                if is_new {
                    distinct.push(value);
                }
                place
            }
        };
        last = Some((value, place));
        places.push(place);
    }
    (distinct, places)
}

/// Which of the different pairs each pair is, in the order in which they first appear, and how many there are.
pub fn number_pairs(pairs: impl ExactSizeIterator<Item = (u64, u64)>) -> (Vec<u32>, usize) {
    // of a flood, most hosts are different
    let mut numbers: HashMap<(u64, u64), u32, RandomState> =
        HashMap::with_capacity_and_hasher(pairs.len(), RandomState::default());
    let places = pairs.map(|pair| {
        let next = numbers.len() as u32;
        *numbers.entry(pair).or_insert(next)
    });
    let places = places.collect();
    (places, numbers.len())
}

/// The rows of the first of bodies with equal numbers and bytes, and which of those each body is. None: one is outside
/// of the heap.
pub fn find_distinct_bodies(heap: &[u8], begin: &[i64], end: &[i64], number: &[u64]) -> Option<(Vec<i64>, Vec<u32>)> {
    let mut places: HashMap<(u64, &[u8]), u32, RandomState> = HashMap::default();
    let mut first = Vec::new();
    let mut equal = Vec::with_capacity(number.len());
    for (row, ((&begin, &end), &number)) in begin.iter().zip(end).zip(number).enumerate() {
        let body = heap.get(usize::try_from(begin).ok()?..usize::try_from(end).ok()?)?;
        let next = first.len() as u32;
        let place = *places.entry((number, body)).or_insert(next);
        if place == next {
            first.push(row as i64);
        }
        equal.push(place);
    }
    Some((first, equal))
}

#[cfg(test)]
mod tests {
    use super::{find_distinct, find_distinct_bodies, number_pairs};

    #[test]
    fn pairs_are_numbered_in_order_of_appearance() {
        let pairs = [(1, 2), (2, 1), (1, 2), (2, 2)];
        assert_eq!(number_pairs(pairs.into_iter()), (vec![0, 1, 0, 2], 3));
    }

    #[test]
    fn bodies_are_equal_if_their_numbers_and_bytes_are() {
        let heap = b"abcabcab";
        let found = find_distinct_bodies(heap, &[0, 3, 3, 6, 0], &[3, 6, 6, 8, 2], &[1, 1, 2, 1, 1]);
        assert_eq!(found, Some((vec![0, 2, 3], vec![0, 0, 1, 2, 2])));
        for (begin, end) in [(0, 9), (-1, 2), (2, 1)] {
            assert_eq!(find_distinct_bodies(heap, &[begin], &[end], &[0]), None);
        }
    }

    #[test]
    fn values_are_numbered_in_order_of_appearance() {
        assert_eq!(
            find_distinct(&[7, 7, u64::MAX, 7, 0]),
            (vec![7, u64::MAX, 0], vec![0, 0, 1, 0, 2])
        );
        assert_eq!(find_distinct(&[]), (vec![], vec![]));
        let values: Vec<u64> = (0..20_000).chain(0..20_000).map(|value| value << 20).collect();
        let (distinct, places) = find_distinct(&values);
        assert_eq!(distinct, values[..20_000]);
        assert!(places
            .iter()
            .enumerate()
            .all(|(row, &place)| place as usize == row % 20_000));
    }
}
