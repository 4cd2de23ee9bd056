//! Datagrams to messages (ikeanalyze/analysis/messages/messages.py).

use super::retransmission::{Classifier, SlotDatagram, Transmission};
use std::collections::HashMap;

/// A column of numbers, or one number that all rows have.
pub enum Column<'a> {
    Rows(&'a [i64]),
    Same(i64),
}

impl Column<'_> {
    #[inline]
    fn get(&self, row: usize) -> i64 {
        match self {
            Column::Rows(values) => values[row],
            Column::Same(value) => *value,
        }
    }
}

/// The columns of the datagrams, all of one length, in order of capture and time.
pub struct Datagrams<'a> {
    pub handshake: &'a [i64],
    pub from_initiator: &'a [bool],
    pub initiator_asked: &'a [bool],
    pub response: &'a [bool],
    pub ikev1: &'a [bool],
    pub first_ns: &'a [i64],
    pub last_ns: &'a [i64],
    pub number: &'a [u32],
    pub frames: Column<'a>,
    pub bytes: &'a [i64],
    pub resent_bytes: Column<'a>,
    pub ip_fragments: Column<'a>,
    pub protocol: &'a [u8],
    pub exchange_type: &'a [u8],
    pub next_payload: &'a [u8],
    pub message_id: &'a [u32],
    pub fragment: &'a [u16],
    pub fragments: &'a [u16],
    pub digest: &'a [u64],
}

/// The columns of `MessageColumns`, and `of_datagram`: the row of the message of each datagram.
#[derive(Default)]
pub struct Messages {
    pub slot: Vec<i64>,
    pub handshake: Vec<i64>,
    pub from_initiator: Vec<bool>,
    pub initiator_asked: Vec<bool>,
    pub response: Vec<bool>,
    pub protocol: Vec<u8>,
    pub exchange_type: Vec<u8>,
    pub next_payload: Vec<u8>,
    pub message_id: Vec<u32>,
    pub body: Vec<i64>,
    pub transmission: Vec<i64>,
    pub first_ns: Vec<i64>,
    pub last_ns: Vec<i64>,
    pub first_frame: Vec<i64>,
    pub frames: Vec<i64>,
    pub bytes: Vec<i64>,
    pub needed_bytes: Vec<i64>,
    pub fragments: Vec<i64>,
    pub fragments_seen: Vec<i64>,
    pub new_fragments: Vec<i64>,
    pub ip_fragments: Vec<i64>,
    pub digest: Vec<u64>,
    pub of_datagram: Vec<i64>,
}

/// A datagram in the order of slots, bodies and transmissions.
#[derive(Clone, Copy)]
struct Place {
    row: u32,
    first_copy: bool,
    starts: bool, // the first one of its transmission
}

/// Bits of a turn that hold the transmission; the bits above hold the body.
const TRANSMISSION_BITS: u32 = 20;

/// Group datagrams into messages; `slot` is the slot of each, and rises with the handshake. None: a handshake is
/// negative.
pub fn group_messages(slot: &[i64], datagrams: &Datagrams) -> Option<Messages> {
    let rows = sort_by_slot(slot, datagrams.handshake)?;
    let mut places: Vec<Place> = Vec::with_capacity(rows.len());
    let mut turns: Vec<i64> = Vec::new(); // of those that start a transmission
    let mut classifier = Classifier::default();
    for rows in rows.chunk_by(|&first, &second| slot[first as usize] == slot[second as usize]) {
        sort_by_transmission(rows, datagrams, &mut classifier, &mut places, &mut turns);
    }
    drop(rows);
    Some(sum_transmissions(slot, datagrams, &places, &turns))
}

/// The rows in order of slot, rows of one slot in order. Slots are in order of handshakes, so each handshake's rows are
/// sorted by themselves.
fn sort_by_slot(slot: &[i64], handshake: &[i64]) -> Option<Vec<u32>> {
    let mut end: Vec<u32> = Vec::new(); // where the rows of each handshake end
    for &handshake in handshake {
        let handshake = usize::try_from(handshake).ok()?;
        if handshake >= end.len() {
            end.resize(handshake + 1, 0);
        }
        end[handshake] += 1;
    }
    let mut total = 0;
    for end in &mut end {
        let begin = total;
        total += *end;
        *end = begin; // rises to the end while the rows are placed
    }
    let mut rows = vec![0; handshake.len()];
    for (&handshake, row) in handshake.iter().zip(0..) {
        let place = &mut end[handshake as usize];
        rows[*place as usize] = row;
        *place += 1;
    }
    let mut begin = 0;
    for &end in &end {
        rows[begin..end as usize].sort_unstable_by_key(|&row| (slot[row as usize], row));
        begin = end as usize;
    }
    Some(rows)
}

/// Append the datagrams of one slot in order of body and transmission.
fn sort_by_transmission(
    rows: &[u32],
    datagrams: &Datagrams,
    classifier: &mut Classifier,
    places: &mut Vec<Place>,
    turns: &mut Vec<i64>,
) {
    if !may_repeat(rows, datagrams) {
        places.extend(rows.iter().map(|&row| Place {
            row,
            first_copy: true,
            starts: false,
        }));
        let start = places.len() - rows.len();
        places[start].starts = true;
        turns.push(1);
        return;
    }
    let slot_datagrams: Vec<SlotDatagram> = rows.iter().map(|&row| datagrams.get(row as usize)).collect();
    let classified = classifier.classify_slot(&slot_datagrams, datagrams.ikev1[rows[0] as usize]);
    let turn = |part: &Transmission| part.body << TRANSMISSION_BITS | part.transmission;
    let mut parts: Vec<(i64, u32, bool)> = classified
        .iter()
        .zip(rows)
        .map(|(part, &row)| (turn(part), row, part.first_copy))
        .collect();
    parts.sort_by_key(|&(turn, _, _)| turn);
    for transmission in parts.chunk_by(|first, second| first.0 == second.0) {
        turns.push(transmission[0].0);
        let start = places.len();
        places.extend(transmission.iter().map(|&(_, row, first_copy)| Place {
            row,
            first_copy,
            starts: false,
        }));
        places[start].starts = true;
    }
}

/// Whether the datagrams of a slot may be several transmissions; otherwise their fragment numbers rise and have one
/// total.
fn may_repeat(rows: &[u32], datagrams: &Datagrams) -> bool {
    rows.windows(2).any(|pair| {
        let (previous, row) = (pair[0] as usize, pair[1] as usize);
        let (before, fragment) = (datagrams.fragment[previous], datagrams.fragment[row]);
        fragment <= before || datagrams.fragments[row] != datagrams.fragments[previous] || before == 0
    })
}

impl Datagrams<'_> {
    fn get(&self, row: usize) -> SlotDatagram {
        SlotDatagram {
            time_ns: self.first_ns[row],
            fragment: self.fragment[row],
            total: self.fragments[row],
            digest: self.digest[row],
        }
    }
}

fn sum_transmissions(slot: &[i64], datagrams: &Datagrams, places: &[Place], turns: &[i64]) -> Messages {
    let mut messages = Messages::with_capacity(turns.len(), slot.len());
    let mut later_copies = LaterCopies::default();
    let mut begin = 0;
    for &turn in turns {
        let size = places[begin + 1..].iter().take_while(|place| !place.starts).count() + 1;
        let transmission = &places[begin..begin + size];
        let head = transmission[0].row as usize;
        if messages.slot.last() != Some(&slot[head]) {
            later_copies.begin_slot(slot, datagrams, &places[begin..]);
        }
        messages.add(slot[head], turn, datagrams, transmission, &mut later_copies);
        begin += size;
    }
    messages
}

impl Messages {
    fn with_capacity(count: usize, datagrams: usize) -> Self {
        Self {
            slot: Vec::with_capacity(count),
            handshake: Vec::with_capacity(count),
            from_initiator: Vec::with_capacity(count),
            initiator_asked: Vec::with_capacity(count),
            response: Vec::with_capacity(count),
            protocol: Vec::with_capacity(count),
            exchange_type: Vec::with_capacity(count),
            next_payload: Vec::with_capacity(count),
            message_id: Vec::with_capacity(count),
            body: Vec::with_capacity(count),
            transmission: Vec::with_capacity(count),
            first_ns: Vec::with_capacity(count),
            last_ns: Vec::with_capacity(count),
            first_frame: Vec::with_capacity(count),
            frames: Vec::with_capacity(count),
            bytes: Vec::with_capacity(count),
            needed_bytes: Vec::with_capacity(count),
            fragments: Vec::with_capacity(count),
            fragments_seen: Vec::with_capacity(count),
            new_fragments: Vec::with_capacity(count),
            ip_fragments: Vec::with_capacity(count),
            digest: Vec::with_capacity(count),
            of_datagram: vec![0; datagrams],
        }
    }

    /// Add a message: a transmission with these datagrams.
    fn add(&mut self, slot: i64, turn: i64, datagrams: &Datagrams, places: &[Place], later_copies: &mut LaterCopies) {
        let head = places[0].row as usize;
        let message = self.slot.len() as i64;
        let (mut last_ns, mut first_frame, mut fragments) = (i64::MIN, u32::MAX, 0);
        let (mut frames, mut bytes, mut needed, mut new_fragments, mut ip_fragments) = (0, 0, 0, 0, 0);
        let mut digest: u64 = 0;
        for place in places {
            let row = place.row as usize;
            self.of_datagram[row] = message;
            last_ns = last_ns.max(datagrams.last_ns[row]);
            first_frame = first_frame.min(datagrams.number[row]);
            fragments = fragments.max(datagrams.fragments[row]);
            frames += datagrams.frames.get(row);
            bytes += datagrams.bytes[row];
            new_fragments += i64::from(place.first_copy);
            ip_fragments += datagrams.ip_fragments.get(row);
            needed += later_copies.count(datagrams, place, turn >> TRANSMISSION_BITS);
            // of a fragmented message: a combination of those of its fragments, in any order
            let factor = 2 * u64::from(datagrams.fragment[row]) + 1;
            digest = digest.wrapping_add(datagrams.digest[row].wrapping_mul(factor));
        }
        let is_fragmented = datagrams.fragment[head] > 0;
        self.slot.push(slot);
        self.handshake.push(datagrams.handshake[head]);
        self.from_initiator.push(datagrams.from_initiator[head]);
        self.initiator_asked.push(datagrams.initiator_asked[head]);
        self.response.push(datagrams.response[head]);
        self.protocol.push(datagrams.protocol[head]);
        self.exchange_type.push(datagrams.exchange_type[head]);
        self.next_payload.push(datagrams.next_payload[head]);
        self.message_id.push(datagrams.message_id[head]);
        self.body.push(turn >> TRANSMISSION_BITS);
        self.transmission.push(turn & ((1 << TRANSMISSION_BITS) - 1));
        self.first_ns.push(datagrams.first_ns[head]);
        self.last_ns.push(last_ns);
        self.first_frame.push(i64::from(first_frame));
        self.frames.push(frames);
        self.bytes.push(bytes);
        self.needed_bytes.push(needed);
        self.fragments.push(i64::from(fragments));
        self.fragments_seen
            .push(if is_fragmented { places.len() as i64 } else { 0 });
        self.new_fragments.push(if is_fragmented { new_fragments } else { 0 });
        self.ip_fragments.push(ip_fragments);
        self.digest.push(digest);
    }
}

/// Bytes that one transmission of each message needs: those of first copies, and those that a later copy has in
/// addition to a first copy with lost IP fragments.
#[derive(Default)]
struct LaterCopies {
    /// Whether the slot has a later copy in IP fragments.
    in_slot: bool,
    /// The most bytes of a datagram of the slot so far, by body, fragment number and total, of the form that is needed.
    largest: HashMap<(i64, u16, u16), i64>,
}

impl LaterCopies {
    /// Begin a slot; `places` begin with its datagrams.
    fn begin_slot(&mut self, slot: &[i64], datagrams: &Datagrams, places: &[Place]) {
        self.in_slot = false;
        if matches!(datagrams.ip_fragments, Column::Same(0)) {
            return;
        }
        let first = slot[places[0].row as usize];
        let mut of_slot = places.iter().take_while(|place| slot[place.row as usize] == first);
        self.in_slot = of_slot
            .any(|place| datagrams.ip_fragments.get(place.row as usize) > 0 && count_first_copy(datagrams, place) == 0);
        self.largest.clear();
    }

    /// The bytes of a datagram that are needed; the datagrams of a slot come in order.
    fn count(&mut self, datagrams: &Datagrams, place: &Place, body: i64) -> i64 {
        let needed = count_first_copy(datagrams, place);
        if !self.in_slot {
            return needed;
        }
        let row = place.row as usize;
        let size = datagrams.bytes[row];
        let part = (body, datagrams.fragment[row], datagrams.fragments[row]);
        match self.largest.get_mut(&part) {
            None => {
                if needed != 0 {
                    self.largest.insert(part, size.max(0));
                }
                needed
            }
            Some(largest) => {
                let previous = std::mem::replace(largest, size.max(*largest));
                if datagrams.ip_fragments.get(row) != 0 {
                    (size - previous).max(0)
                } else {
                    needed
                }
            }
        }
    }
}

fn count_first_copy(datagrams: &Datagrams, place: &Place) -> i64 {
    let row = place.row as usize;
    if place.first_copy {
        datagrams.bytes[row] - datagrams.resent_bytes.get(row)
    } else {
        0
    }
}
