//! The rules of retransmission for the datagrams of one slot (ikeanalyze/analysis/messages/retransmission.py, which
//! explains them).

use std::collections::{HashMap, HashSet, VecDeque};

/// The fields of a datagram that the rules use.
#[derive(Clone, Copy)]
pub struct SlotDatagram {
    pub time_ns: i64,
    pub fragment: u16, // RFC 7383; 0: not fragmented
    pub total: u16,    // fragments of the message; 0: not fragmented, or unknown
    pub digest: u64,
    pub arrived: bool, // the capture has all its IP fragments
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
    /// Where a form of a message has each fragment number for the last time; valid if the first number is `round`.
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
        let not_classified = Transmission {
            body: 0,
            transmission: 0,
            first_copy: false,
        };
        let mut result = vec![not_classified; datagrams.len()];
        let (mut body, mut transmission) = (0, 0);
        let mut digests: HashMap<(u16, u16), u64> = HashMap::new(); // of the body, by total and fragment number
        for indexes in self.find_transmissions(datagrams, ikev1) {
            let first = indexes[0];
            let mut changed = indexes.iter().any(|&index| {
                let part = &datagrams[index];
                let earlier = digests.get(&(part.total, part.fragment));
                earlier.is_some_and(|&digest| digest != part.digest)
            });
            changed |= ikev1 && first > 0 && is_refragmented(&datagrams[first - 1], &datagrams[first]);
            if changed {
                body += 1;
                transmission = 0;
                digests.clear();
            }
            transmission += 1;
            for index in indexes {
                let part = &datagrams[index];
                digests.insert((part.total, part.fragment), part.digest);
                result[index].body = body;
                result[index].transmission = transmission;
            }
        }
        mark_first_copies(&mut result, datagrams, ikev1);
        result
    }

    /// The indexes of the datagrams of each transmission, in order of the first one.
    fn find_transmissions(&mut self, datagrams: &[SlotDatagram], ikev1: bool) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..datagrams.len()).collect();
        if !ikev1 {
            order.sort_by_key(|&index| datagrams[index].total);
        }
        let mut transmissions = Vec::new();
        for indexes in order.chunk_by(|&first, &second| ikev1 || datagrams[first].total == datagrams[second].total) {
            let form: Vec<SlotDatagram> = indexes.iter().map(|&index| datagrams[index]).collect();
            let starts = self.find_transmission_starts(&form);
            for (number, &start) in starts.iter().enumerate() {
                let end = starts.get(number + 1).copied().unwrap_or(indexes.len());
                transmissions.push(indexes[start..end].to_vec());
            }
        }
        transmissions.sort_unstable_by_key(|indexes| indexes[0]);
        transmissions
    }

    /// The index of the first datagram of each transmission (rule 2), among datagrams of one total.
    fn find_transmission_starts(&mut self, datagrams: &[SlotDatagram]) -> Vec<usize> {
        self.forget_fragments();
        let mut starts = vec![0];
        let mut begin = 0;
        let pause = |at: usize| datagrams[at].time_ns.wrapping_sub(datagrams[at - 1].time_ns);
        // the indexes that follow a longer pause than all after them, in order
        let mut longest: VecDeque<usize> = VecDeque::new();
        self.latest[usize::from(datagrams[0].fragment)] = (self.round, 0);
        for index in 1..datagrams.len() {
            while longest.back().is_some_and(|&at| pause(at) <= pause(index)) {
                longest.pop_back();
            }
            longest.push_back(index);
            let datagram = &datagrams[index];
            if is_refragmented(&datagrams[index - 1], datagram) {
                begin = index;
                starts.push(begin);
            } else if let Some(last) = self.find_latest(datagram.fragment, begin) {
                let earliest = if is_whole(&datagrams[begin..index]) {
                    index
                } else {
                    last + 1
                };
                while longest.front().is_some_and(|&at| at < earliest) {
                    longest.pop_front();
                }
                begin = longest.front().copied().unwrap_or(index);
                starts.push(begin);
            }
            self.latest[usize::from(datagram.fragment)] = (self.round, index as u32);
        }
        starts
    }

    fn forget_fragments(&mut self) {
        self.round = self.round.checked_add(1).unwrap_or_else(|| {
            self.latest.fill((0, 0));
            1
        });
    }

    /// The index of the last datagram with this fragment number, if it is in the transmission that starts at `begin`.
    fn find_latest(&self, fragment: u16, begin: usize) -> Option<usize> {
        let (round, index) = self.latest[usize::from(fragment)];
        (round == self.round && index as usize >= begin).then_some(index as usize)
    }
}

/// The unfragmented form of a body, or its fragments with one total.
#[derive(Default)]
struct Form {
    numbers: HashSet<u16>,    // of fragments that arrived
    first_copies: Vec<usize>, // indexes of datagrams that arrived
    lost: Vec<usize>,         // indexes of those that did not arrive
}

impl Form {
    /// The datagrams that did not arrive, of each fragment number the first one if none arrived.
    fn find_lost_copies(&self, datagrams: &[SlotDatagram]) -> Vec<usize> {
        let mut numbers = self.numbers.clone();
        let lost = self.lost.iter().copied();
        lost.filter(|&index| numbers.insert(datagrams[index].fragment))
            .collect()
    }
}

/// The forms of a body by total, and the largest total so far.
#[derive(Default)]
struct Body {
    forms: HashMap<u16, Form>,
    largest: u16,
    complete: Option<u16>, // the total of the form that became complete first
}

/// Set `first_copy` of the datagrams that one transmission of each body needs.
fn mark_first_copies(result: &mut [Transmission], datagrams: &[SlotDatagram], ikev1: bool) {
    let mut bodies: Vec<Body> = Vec::new();
    for (index, (datagram, place)) in datagrams.iter().zip(result.iter()).enumerate() {
        let number = place.body as usize;
        if number >= bodies.len() {
            bodies.resize_with(number + 1, Body::default);
        }
        let body = &mut bodies[number];
        let total = if ikev1 { 0 } else { datagram.total };
        if body.complete.is_some() || (datagram.fragment != 0 && total < body.largest) {
            continue; // not needed, or ignored by the receiver
        }
        let form = body.forms.entry(total).or_default();
        if !datagram.arrived {
            form.lost.push(index);
            continue;
        }
        body.largest = body.largest.max(total);
        if form.numbers.insert(datagram.fragment) {
            form.first_copies.push(index);
        }
        let complete = if datagram.fragment == 0 { 1 } else { total }; // never where the total is unknown (0)
        if !ikev1 && form.numbers.len() == usize::from(complete) {
            body.complete = Some(total);
        }
    }
    for body in bodies {
        let largest_part = |form: &Form, total: u16| form.numbers.len() as f64 / f64::from(total.max(1));
        let of_largest_part = body.forms.iter().max_by(|(&first, form), (&second, other)| {
            let parts = (largest_part(form, first), largest_part(other, second));
            parts.0.total_cmp(&parts.1).then(first.cmp(&second))
        });
        let needed = body.complete.or(of_largest_part.map(|(&total, _)| total));
        let Some(form) = needed.map(|total| &body.forms[&total]) else {
            continue;
        };
        let lost = match body.complete {
            Some(_) => Vec::new(),
            None => form.find_lost_copies(datagrams),
        };
        for &index in form.first_copies.iter().chain(&lost) {
            result[index].first_copy = true;
        }
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
