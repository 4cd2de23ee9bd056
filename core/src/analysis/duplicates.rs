//! Frames that may be sightings of one frame (ikeanalyze/analysis/messages/duplicates.py).

/// The longest time in which a packet crosses a machine that does not queue it.
const WITHIN_NS: i64 = 1_000_000;
/// The shortest first retransmission timer of common daemons.
const TIMER_NS: i64 = 500_000_000;
/// The longest time that a router is assumed to queue a packet.
const HELD_NS: i64 = 10_000_000_000;

/// The columns of the frames of captures that the search uses; all of one length.
pub struct Frames<'a> {
    pub digest: &'a [u64],
    pub time_ns: &'a [i64],
    pub ttl: &'a [u8],
    pub interface: &'a [u32],
}

/// How many frames repeat the content of another; and, in order of time, all frames of the contents of which two were
/// seen so soon one after the other that they may be sightings of the same frame.
pub fn find_candidates(frames: &Frames) -> (usize, Vec<i64>) {
    let mut repeated = 0;
    let mut candidates = Vec::new();
    for_each_content(frames, |rows| {
        repeated += rows.len() - 1;
        if rows
            .windows(2)
            .any(|pair| may_be_sightings(frames, pair[0] as usize, pair[1] as usize))
        {
            candidates.extend(rows.iter().map(|&row| i64::from(row)));
        }
    });
    candidates.sort_unstable_by_key(|&row| (frames.time_ns[row as usize], row));
    (repeated, candidates)
}

fn may_be_sightings(frames: &Frames, earlier: usize, later: usize) -> bool {
    let apart = frames.time_ns[later].wrapping_sub(frames.time_ns[earlier]);
    apart <= WITHIN_NS
        || (apart <= HELD_NS && frames.ttl[later] != frames.ttl[earlier])
        || (apart < TIMER_NS && frames.interface[later] != frames.interface[earlier])
}

/// Call a function with the rows of each content of which there are several, in order of time.
fn for_each_content(frames: &Frames, mut call: impl FnMut(&[u32])) {
    let digest = frames.digest;
    let table = DigestTable::new(digest);
    // High bits of the digest and the row, in one number: sorting these takes half the time of sorting pairs. Rows of
    // equal bits are sorted again.
    let bits = usize::BITS - digest.len().leading_zeros();
    let low = (1_u64 << bits) - 1;
    let mut packed: Vec<u64> = digest
        .iter()
        .zip(0..)
        .filter(|(&digest, _)| table.may_repeat(digest))
        .map(|(&digest, row)| digest & !low | row)
        .collect();
    packed.sort_unstable();
    let mut rows = Vec::new();
    for alike in packed.chunk_by(|first, second| first & !low == second & !low) {
        if alike.len() > 1 {
            rows.clear();
            rows.extend(alike.iter().map(|&value| (value & low) as u32));
            rows.sort_unstable_by_key(|&row| (digest[row as usize], frames.time_ns[row as usize], row));
            for same in rows.chunk_by(|&first, &second| digest[first as usize] == digest[second as usize]) {
                if same.len() > 1 {
                    call(same);
                }
            }
        }
    }
}

/// Two bits for each value of the highest bits of digests: whether one digest has it, and whether several have it.
struct DigestTable {
    words: Vec<u64>,
    shift: u32,
}

impl DigestTable {
    /// There are 16 to 32 values for each digest, so that few of different digests are equal.
    fn new(digests: &[u64]) -> Self {
        let bits = (usize::BITS - digests.len().leading_zeros() + 4).max(5);
        let mut table = Self {
            words: vec![0; 1 << (bits - 5)],
            shift: u64::BITS - bits,
        };
        for &digest in digests {
            let (word, bit) = table.find(digest);
            let known = table.words[word] >> bit & 1;
            table.words[word] |= (1 | known << 1) << bit;
        }
        table
    }

    /// Whether another digest may equal this one.
    fn may_repeat(&self, digest: u64) -> bool {
        let (word, bit) = self.find(digest);
        self.words[word] >> bit & 2 != 0
    }

    fn find(&self, digest: u64) -> (usize, u32) {
        let value = digest >> self.shift;
        ((value >> 5) as usize, (value & 31) as u32 * 2)
    }
}

#[cfg(test)]
mod tests {
    use super::{find_candidates, Frames};

    #[test]
    fn contents_seen_twice_within_a_millisecond_are_candidates() {
        let frames = Frames {
            digest: &[5, 9, 5, 9, 1],
            time_ns: &[2_000_000, 0, 1_000_000, 1_000_001, 0],
            ttl: &[64; 5],
            interface: &[0; 5],
        };
        assert_eq!(find_candidates(&frames), (2, vec![2, 0]));
    }

    #[test]
    fn different_digests_with_equal_high_bits_are_different_contents() {
        let frames = Frames {
            digest: &[4, 5, 4, 6],
            time_ns: &[0, 1, 2, 3],
            ttl: &[64; 4],
            interface: &[0; 4],
        };
        assert_eq!(find_candidates(&frames), (1, vec![0, 2]));
    }
}
