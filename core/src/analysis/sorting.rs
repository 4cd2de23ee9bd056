//! A stable order of times (ikeanalyze/analysis/grouping.py).

/// The rows in order of their times, earlier rows first where these are equal. There are less than 2**31 of them.
///
/// Rows are distributed to buckets by the highest bits of their times, about as many buckets as rows. Times are spread
/// over a range, so that a bucket has few rows; it is sorted as usual.
pub fn order_times(times: &[i64]) -> Vec<i32> {
    let least = times.iter().copied().min().unwrap_or(0);
    let above = |time: i64| time.wrapping_sub(least) as u64;
    let width = times.iter().fold(0_u64, |bits, &time| bits | above(time));
    let bits = u64::BITS - width.leading_zeros();
    let shift = bits.saturating_sub(usize::BITS - times.len().leading_zeros());
    let bucket = |time: i64| (above(time) >> shift) as usize;
    let mut ends = vec![0_u32; (width >> shift) as usize + 1];
    for &time in times {
        ends[bucket(time)] += 1;
    }
    let mut total = 0;
    for end in &mut ends {
        let begin = total;
        total += *end;
        *end = begin; // rises to the end while the rows are placed
    }
    let mut rows = vec![0; times.len()];
    for (&time, row) in times.iter().zip(0..) {
        let end = &mut ends[bucket(time)];
        rows[*end as usize] = row;
        *end += 1;
    }
    let mut begin = 0;
    for end in ends {
        let of_bucket = &mut rows[begin..end as usize];
        begin = end as usize;
        if of_bucket.len() > 1 {
            of_bucket.sort_by_key(|&row| times[row as usize]);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::order_times;

    #[test]
    fn rows_of_equal_times_keep_their_order() {
        assert_eq!(order_times(&[]), []);
        assert_eq!(order_times(&[5, 5]), [0, 1]);
        assert_eq!(order_times(&[3, i64::MAX, i64::MIN, 3, -1]), [2, 4, 0, 3, 1]);
        let times: Vec<i64> = (0..1000).map(|row| row * 7919 % 500 << 40).collect();
        let mut expected: Vec<i32> = (0..1000).collect();
        expected.sort_by_key(|&row| times[row as usize]);
        assert_eq!(order_times(&times), expected);
    }
}
