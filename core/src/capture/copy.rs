//! Copying many ranges of bytes.

/// Copy the ranges to consecutive places of `target` from `at` on; None if one is outside of its buffer.
pub fn copy_ranges(target: &mut [u8], at: usize, source: &[u8], begin: &[i64], end: &[i64]) -> Option<()> {
    let mut place = at;
    for (&low, &high) in begin.iter().zip(end) {
        let range = source.get(usize::try_from(low).ok()?..usize::try_from(high).ok()?)?;
        let stop = place.checked_add(range.len())?;
        target.get_mut(place..stop)?.copy_from_slice(range);
        place = stop;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::copy_ranges;

    #[test]
    fn ranges_are_copied_one_after_another() {
        let mut target = *b"........";
        assert_eq!(copy_ranges(&mut target, 1, b"abcdef", &[4, 0, 3], &[6, 2, 3]), Some(()));
        assert_eq!(&target, b".efab...");
    }

    #[test]
    fn ranges_outside_of_a_buffer_are_refused() {
        let mut target = [0; 4];
        for (at, begin, end) in [
            (0, 2, 4),
            (0, -1, 2),
            (0, 2, 1),
            (3, 0, 2),
            (usize::MAX, 0, 2),
            (0, i64::MAX, 1),
        ] {
            assert_eq!(copy_ranges(&mut target, at, b"abc", &[begin], &[end]), None);
        }
    }
}
