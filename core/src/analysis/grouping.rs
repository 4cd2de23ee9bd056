//! Groups of equal values (ikeanalyze/analysis/grouping.py).

use foldhash::fast::RandomState;
use std::collections::hash_map::Entry;
use std::collections::HashMap;

/// Numbers of values, from 0 in the order in which they first appear. Its hash has a random seed: a capture cannot
/// choose values that collide.
#[derive(Default)]
pub struct Numbering {
    numbers: HashMap<u64, u32, RandomState>,
}

impl Numbering {
    /// The number of a value, and whether it is new.
    #[inline]
    pub fn number(&mut self, value: u64) -> (u32, bool) {
        let next = self.numbers.len() as u32;
        match self.numbers.entry(value) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(free) => (*free.insert(next), true),
        }
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

#[cfg(test)]
mod tests {
    use super::find_distinct;

    #[test]
    fn values_are_numbered_in_order_of_appearance() {
        assert_eq!(
            find_distinct(&[7, 7, u64::MAX, 7, 0]),
            (vec![7, u64::MAX, 0], vec![0, 0, 1, 0, 2])
        );
        assert_eq!(find_distinct(&[]), (vec![], vec![]));
    }
}
