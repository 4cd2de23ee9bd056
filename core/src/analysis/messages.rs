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
    pub fn get(&self, row: usize) -> i64 {
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
    pub arrived: Option<&'a [bool]>, // None: all
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
    /// Empty: all are 0.
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
    /// Empty: all are 0.
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
            arrived: self.has_arrived(row),
        }
    }

    /// Whether a datagram has all its IP fragments.
    fn has_arrived(&self, row: usize) -> bool {
        self.arrived.is_none_or(|arrived| arrived[row])
    }
}

/// Messages of at least so many datagrams are summed in two threads.
const MIN_PARALLEL: usize = 1 << 16;

/// The messages of transmissions, each of which begins at one of the `places` that start one.
fn sum_transmissions(slot: &[i64], datagrams: &Datagrams, places: &[Place], turns: &[i64]) -> Messages {
    if places.len() < MIN_PARALLEL {
        return Messages::join(
            Heads::new(slot, datagrams, places, turns),
            Sums::new(slot, datagrams, places, turns),
        );
    }
    std::thread::scope(|scope| {
        let heads = scope.spawn(|| Heads::new(slot, datagrams, places, turns));
        let sums = Sums::new(slot, datagrams, places, turns);
        let heads = heads.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Messages::join(heads, sums)
    })
}

impl Messages {
    fn join(heads: Heads, sums: Sums) -> Self {
        Self {
            slot: heads.slot,
            handshake: heads.handshake,
            from_initiator: heads.from_initiator,
            initiator_asked: heads.initiator_asked,
            response: heads.response,
            protocol: heads.protocol,
            exchange_type: heads.exchange_type,
            next_payload: heads.next_payload,
            message_id: heads.message_id,
            body: heads.body,
            transmission: heads.transmission,
            first_ns: heads.first_ns,
            last_ns: sums.last_ns,
            first_frame: sums.first_frame,
            frames: sums.frames,
            bytes: sums.bytes,
            needed_bytes: sums.needed_bytes,
            fragments: sums.fragments,
            fragments_seen: sums.fragments_seen,
            new_fragments: sums.new_fragments,
            ip_fragments: sums.ip_fragments,
            digest: sums.digest,
            of_datagram: sums.of_datagram,
        }
    }
}

/// The columns of messages that are those of their first datagrams.
struct Heads {
    slot: Vec<i64>,
    handshake: Vec<i64>,
    from_initiator: Vec<bool>,
    initiator_asked: Vec<bool>,
    response: Vec<bool>,
    protocol: Vec<u8>,
    exchange_type: Vec<u8>,
    next_payload: Vec<u8>,
    message_id: Vec<u32>,
    body: Vec<i64>,
    transmission: Vec<i64>,
    first_ns: Vec<i64>,
}

impl Heads {
    fn new(slot: &[i64], datagrams: &Datagrams, places: &[Place], turns: &[i64]) -> Self {
        let mut rows: Vec<u32> = Vec::with_capacity(turns.len());
        rows.extend(places.iter().filter(|place| place.starts).map(|place| place.row));
        fn select<T: Copy>(rows: &[u32], column: &[T]) -> Vec<T> {
            rows.iter().map(|&row| column[row as usize]).collect()
        }
        let has_bodies = turns.iter().any(|turn| turn >> TRANSMISSION_BITS != 0);
        let bodies = if has_bodies { turns } else { &[] };
        Self {
            slot: select(&rows, slot),
            handshake: select(&rows, datagrams.handshake),
            from_initiator: select(&rows, datagrams.from_initiator),
            initiator_asked: select(&rows, datagrams.initiator_asked),
            response: select(&rows, datagrams.response),
            protocol: select(&rows, datagrams.protocol),
            exchange_type: select(&rows, datagrams.exchange_type),
            next_payload: select(&rows, datagrams.next_payload),
            message_id: select(&rows, datagrams.message_id),
            body: bodies.iter().map(|turn| turn >> TRANSMISSION_BITS).collect(),
            transmission: turns.iter().map(|turn| turn & ((1 << TRANSMISSION_BITS) - 1)).collect(),
            first_ns: select(&rows, datagrams.first_ns),
        }
    }
}

/// The columns of messages that depend on all their datagrams.
struct Sums {
    last_ns: Vec<i64>,
    first_frame: Vec<i64>,
    frames: Vec<i64>,
    bytes: Vec<i64>,
    needed_bytes: Vec<i64>,
    fragments: Vec<i64>,
    fragments_seen: Vec<i64>,
    new_fragments: Vec<i64>,
    ip_fragments: Vec<i64>,
    digest: Vec<u64>,
    of_datagram: Vec<i64>,
}

impl Sums {
    fn new(slot: &[i64], datagrams: &Datagrams, places: &[Place], turns: &[i64]) -> Self {
        let count = turns.len();
        let has_ip_fragments = !matches!(datagrams.ip_fragments, Column::Same(0));
        let mut sums = Self {
            last_ns: Vec::with_capacity(count),
            first_frame: Vec::with_capacity(count),
            frames: Vec::with_capacity(count),
            bytes: Vec::with_capacity(count),
            needed_bytes: Vec::with_capacity(count),
            fragments: Vec::with_capacity(count),
            fragments_seen: Vec::with_capacity(count),
            new_fragments: Vec::with_capacity(count),
            ip_fragments: Vec::with_capacity(if has_ip_fragments { count } else { 0 }),
            digest: Vec::with_capacity(count),
            of_datagram: vec![0; slot.len()],
        };
        let mut later_copies = LaterCopies::default();
        let (mut begin, mut last_slot) = (0, None);
        for &turn in turns {
            let size = places[begin + 1..].iter().take_while(|place| !place.starts).count() + 1;
            let transmission = &places[begin..begin + size];
            let this_slot = Some(slot[transmission[0].row as usize]);
            if last_slot != this_slot {
                later_copies.begin_slot(slot, datagrams, &places[begin..]);
                last_slot = this_slot;
            }
            let ip_fragments = sums.add(turn, datagrams, transmission, &mut later_copies);
            if has_ip_fragments {
                sums.ip_fragments.push(ip_fragments);
            }
            begin += size;
        }
        sums
    }

    /// Add a message: a transmission with these datagrams; returns its IP fragments.
    fn add(&mut self, turn: i64, datagrams: &Datagrams, places: &[Place], later_copies: &mut LaterCopies) -> i64 {
        let message = self.bytes.len() as i64;
        let (mut last_ns, mut first_frame, mut fragments) = (i64::MIN, u32::MAX, 0);
        let (mut frames, mut bytes, mut needed, mut ip_fragments) = (0, 0, 0, 0);
        let (mut fragments_seen, mut new_fragments) = (0, 0);
        let mut digest: u64 = 0;
        for place in places {
            let row = place.row as usize;
            self.of_datagram[row] = message;
            last_ns = last_ns.max(datagrams.last_ns[row]);
            first_frame = first_frame.min(datagrams.number[row]);
            fragments = fragments.max(datagrams.fragments[row]);
            frames += datagrams.frames.get(row);
            bytes += datagrams.bytes[row];
            let arrived = datagrams.has_arrived(row);
            fragments_seen += i64::from(arrived);
            new_fragments += i64::from(arrived && place.first_copy);
            ip_fragments += datagrams.ip_fragments.get(row);
            needed += later_copies.count(datagrams, place, turn >> TRANSMISSION_BITS);
            // of a fragmented message: a combination of those of its fragments, in any order
            let factor = 2 * u64::from(datagrams.fragment[row]) + 1;
            digest = digest.wrapping_add(datagrams.digest[row].wrapping_mul(factor));
        }
        let is_fragmented = datagrams.fragment[places[0].row as usize] > 0;
        self.last_ns.push(last_ns);
        self.first_frame.push(i64::from(first_frame));
        self.frames.push(frames);
        self.bytes.push(bytes);
        self.needed_bytes.push(needed);
        self.fragments.push(i64::from(fragments));
        self.fragments_seen.push(if is_fragmented { fragments_seen } else { 0 });
        self.new_fragments.push(if is_fragmented { new_fragments } else { 0 });
        self.digest.push(digest);
        ip_fragments
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
