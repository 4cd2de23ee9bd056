//! The rules of retransmission for the datagrams of one slot (ikeanalyze/analysis/messages/retransmission.py, which
//! explains them).

use std::collections::{HashMap, HashSet};

/// The fields of a datagram that the rules use.
#[derive(Clone, Copy)]
pub struct SlotDatagram {
    pub time_ns: i64,
    pub fragment: u16, // RFC 7383; 0: not fragmented
    pub total: u16,    // fragments of the message; 0: not fragmented, or unknown
    pub digest: u64,
}

/// The classification of one datagram of a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transmission {
    pub body: i64,         // index of the message among those of the slot, from 0
    pub transmission: i64, // from 1
    pub first_copy: bool,
}

/// Applies the rules. Its memory is used again for each slot.
pub struct Classifier {
    /// Where the current transmission has each fragment number; valid if the first number is `round`.
    latest: Vec<(u32, u32)>,
    round: u32,
}

impl Default for Classifier {
    fn default() -> Self {
        Self {
            latest: vec![(0, 0); 1 << 16],
            round: 0,
        }
    }
}

impl Classifier {
    /// Classify the datagrams of one slot, in order of time.
    pub fn classify_slot(&mut self, datagrams: &[SlotDatagram], ikev1: bool) -> Vec<Transmission> {
        if datagrams.iter().any(|datagram| datagram.fragment != 0) {
            return self.classify_fragmented(datagrams, ikev1);
        }
        let mut bodies: HashMap<u64, (i64, i64)> = HashMap::new();
        let classify = |datagram: &SlotDatagram| {
            let next = bodies.len() as i64;
            let (body, transmission) = bodies.entry(datagram.digest).or_insert((next, 0));
            *transmission += 1;
            Transmission {
                body: *body,
                transmission: *transmission,
                first_copy: *transmission == 1,
            }
        };
        datagrams.iter().map(classify).collect()
    }

    /// Rules 2 and 3: find where transmissions begin, by fragment number alone, and then the body of each.
    fn classify_fragmented(&mut self, datagrams: &[SlotDatagram], ikev1: bool) -> Vec<Transmission> {
        let starts = self.find_transmission_starts(datagrams);
        let mut result = Vec::with_capacity(datagrams.len());
        let (mut body, mut transmission) = (0, 0);
        let mut digests: HashMap<(u16, u16), u64> = HashMap::new(); // of the body, by total and fragment number
        let mut totals: HashSet<u16> = HashSet::new(); // in `digests`
        let mut copied: HashSet<u16> = HashSet::new(); // fragment numbers of the body so far
        for (index, &start) in starts.iter().enumerate() {
            let fragments = &datagrams[start..starts.get(index + 1).copied().unwrap_or(datagrams.len())];
            let mut changed = fragments.iter().any(|part| {
                let earlier = digests.get(&(part.total, part.fragment));
                earlier.is_some_and(|&digest| digest != part.digest)
            });
            changed |= ikev1 && start > 0 && is_refragmented(&datagrams[start - 1], &fragments[0]);
            if start == 0 || changed {
                body += i64::from(start > 0);
                transmission = 1;
                digests.clear();
                totals.clear();
                copied.clear();
            } else {
                transmission += 1;
            }
            let refragmented = !totals.is_empty() && !totals.contains(&fragments[0].total);
            for part in fragments {
                digests.insert((part.total, part.fragment), part.digest);
                totals.insert(part.total);
                // one transmission in either fragmentation is enough, so a second fragmentation is not needed
                let is_new = copied.insert(part.fragment);
                result.push(Transmission {
                    body,
                    transmission,
                    first_copy: !refragmented && is_new,
                });
            }
        }
        result
    }

    /// The index of the first datagram of each transmission (rule 2).
    fn find_transmission_starts(&mut self, datagrams: &[SlotDatagram]) -> Vec<usize> {
        let mut starts = vec![0];
        let mut begin = 0;
        self.begin_transmission(&datagrams[..1], 0);
        for index in 1..datagrams.len() {
            let datagram = &datagrams[index];
            if is_refragmented(&datagrams[index - 1], datagram) {
                begin = index;
                starts.push(begin);
                self.begin_transmission(&[], 0);
            } else if let Some(last) = self.find_latest(datagram.fragment) {
                let earliest = if is_whole(&datagrams[begin..index]) {
                    index
                } else {
                    last + 1
                };
                let pause = |at: usize| datagrams[at].time_ns.wrapping_sub(datagrams[at - 1].time_ns);
                begin = (earliest..=index).max_by_key(|&at| (pause(at), at)).unwrap_or(index);
                starts.push(begin);
                self.begin_transmission(&datagrams[begin..index], begin);
            }
            self.latest[usize::from(datagram.fragment)] = (self.round, index as u32);
        }
        starts
    }

    /// Forget the fragments of the last transmission; `datagrams` are those of the next one, from index `at` on.
    fn begin_transmission(&mut self, datagrams: &[SlotDatagram], at: usize) {
        self.round = self.round.checked_add(1).unwrap_or_else(|| {
            self.latest.fill((0, 0));
            1
        });
        for (datagram, index) in datagrams.iter().zip(at..) {
            self.latest[usize::from(datagram.fragment)] = (self.round, index as u32);
        }
    }

    fn find_latest(&self, fragment: u16) -> Option<usize> {
        let (round, index) = self.latest[usize::from(fragment)];
        (round == self.round).then_some(index as usize)
    }
}

/// Whether the datagrams are a complete transmission in order.
fn is_whole(datagrams: &[SlotDatagram]) -> bool {
    datagrams.len() == usize::from(datagrams[0].total)
        && datagrams
            .iter()
            .zip(1..)
            .all(|(datagram, number)| usize::from(datagram.fragment) == number)
}

/// Whether the two come from different fragmentations; an unknown total (0) fits any.
fn is_refragmented(previous: &SlotDatagram, datagram: &SlotDatagram) -> bool {
    (previous.fragment == 0) != (datagram.fragment == 0)
        || (previous.total != 0 && datagram.total != 0 && previous.total != datagram.total)
}
