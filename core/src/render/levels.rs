//! Levels of columns of lists that repeat (ikeanalyze/render/report/parquet_levels.py, which explains them).

/// The levels of a leaf in each row, and which of the values of the leaf each value is.
#[derive(Debug, PartialEq)]
pub struct Repeated {
    pub definition: Vec<u8>,
    pub repetition: Vec<u8>,
    pub place: Vec<u32>,
}

/// Repeat the levels of lists, of which each row has that at its `place`; `has_values`: the leaf has some. None: a place
/// is outside, or the levels differ in length or do not begin with a list.
pub fn repeat_levels(definition: &[u8], repetition: &[u8], has_values: bool, places: &[i64]) -> Option<Repeated> {
    if definition.len() != repetition.len() || repetition.first().is_some_and(|&level| level != 0) {
        return None;
    }
    let highest = definition.iter().copied().max().unwrap_or(0);
    // where each list begins, and the number of values before it
    let (mut begins, mut value) = (Vec::new(), 0_u32);
    for (level, (&defined, &repeated)) in definition.iter().zip(repetition).enumerate() {
        if repeated == 0 {
            begins.push((level, value));
        }
        value += u32::from(has_values && defined == highest);
    }
    begins.push((definition.len(), value));
    let mut rows = Repeated {
        definition: Vec::with_capacity(places.len()),
        repetition: Vec::with_capacity(places.len()),
        place: Vec::with_capacity(places.len()),
    };
    for &place in places {
        let place = usize::try_from(place).ok()?;
        let ((begin, first), (end, last)) = (*begins.get(place)?, *begins.get(place + 1)?);
        for level in begin..end {
            rows.definition.push(definition[level]);
            rows.repetition.push(repetition[level]);
        }
        rows.place.extend(first..last);
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::{repeat_levels, Repeated};

    #[test]
    fn lists_with_two_values_with_one_and_empty_ones() {
        let (definition, repetition) = ([3, 3, 1, 3], [0, 1, 0, 0]);
        let expected = Repeated {
            definition: vec![3, 1, 3, 3],
            repetition: vec![0, 0, 0, 1],
            place: vec![2, 0, 1],
        };
        assert_eq!(
            repeat_levels(&definition, &repetition, true, &[2, 1, 0]),
            Some(expected)
        );
        for places in [[3], [-1]] {
            assert_eq!(repeat_levels(&definition, &repetition, true, &places), None);
        }
        assert_eq!(repeat_levels(&[1], &[1], true, &[0]), None);
    }
}
