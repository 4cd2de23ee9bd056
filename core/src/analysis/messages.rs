//! Datagrams to messages (ikeanalyze/analysis/messages/messages.py).

use super::retransmission::{Classifier, SlotDatagram, Transmission};
use std::collections::HashMap;

/// A column of numbers, or one number that all rows have.
pub enum Column<'a> {
    Rows(&'a [i64]),
    Narrow(&'a [u32]),
    Same(i64),
}

impl Column<'_> {
    #[inline]
    pub fn get(&self, row: usize) -> i64 {
        match self {
            Column::Rows(values) => values[row],
            Column::Narrow(values) => i64::from(values[row]),
            Column::Same(value) => *value,
        }
    }
}

/// The columns of the datagrams, all of one length, in order of capture and time.
pub struct Datagrams<'a> {
    pub handshake: &'a [i32],
    pub from_initiator: &'a [bool],
    pub initiator_asked: &'a [bool],
    pub response: &'a [bool],
    pub ikev1: &'a [bool],
    pub arrived: Option<&'a [bool]>, // None: all
    pub first_ns: &'a [i64],
    pub last_ns: &'a [i64],
    pub number: &'a [u32],
    pub frames: Column<'a>,
    pub bytes: Column<'a>,
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
    pub handshake: Vec<i32>,
    pub from_initiator: Vec<bool>,
    pub initiator_asked: Vec<bool>,
    pub response: Vec<bool>,
    pub protocol: Vec<u8>,
    pub exchange_type: Vec<u8>,
    pub next_payload: Vec<u8>,
    pub message_id: Vec<u32>,
    /// Empty: all are 0.
    pub body: Vec<i64>,
    pub transmission: Vec<u32>,
    pub first_ns: Vec<i64>,
    pub last_ns: Vec<i64>,
    pub first_frame: Vec<u32>,
    pub frames: Vec<u32>,
    pub bytes: Vec<i64>,
    pub needed_bytes: Vec<i64>,
    pub fragments: Vec<u16>,
    pub fragments_seen: Vec<u32>,
    pub new_fragments: Vec<u32>,
    /// Empty: all are 0.
    pub ip_fragments: Vec<i64>,
    pub digest: Vec<u64>,
    pub of_datagram: Vec<i32>,
}

/// A datagram in the order of handshakes, with what decides about its transmission.
#[derive(Clone, Copy, Default)]
struct Place {
    slot: i64,
    row: u32,
    fragment: u16,
    total: u16,
}

/// Bits of a turn that hold the transmission; the bits above hold the body. There are at most 2^32 datagrams.
const TRANSMISSION_BITS: u32 = 32;

/// Group datagrams into messages; `slot` is the slot of each, and rises with the handshake. None: a handshake is
/// negative.
pub fn group_messages(slot: &[i64], datagrams: &Datagrams) -> Option<Messages> {
    let (mut places, ends) = sort_by_handshake(slot, datagrams)?;
    let mut transmissions = Transmissions::new(datagrams);
    let mut classifier = Classifier::default();
    let mut begin = 0;
    for end in ends {
        let places = &mut places[begin..end as usize];
        begin = end as usize;
        places.sort_by_key(|place| place.slot); // mostly they are in order
        for places in places.chunk_by(|first, second| first.slot == second.slot) {
            transmissions.add_slot(places, datagrams, &mut classifier);
        }
    }
    drop(places);
    Some(transmissions.sum(slot, datagrams))
}

/// The datagrams in order of handshake, those of one handshake in order of their rows; and where each handshake ends.
fn sort_by_handshake(slot: &[i64], datagrams: &Datagrams) -> Option<(Vec<Place>, Vec<u32>)> {
    let mut end: Vec<u32> = Vec::new();
    for &handshake in datagrams.handshake {
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
        *end = begin; // rises to the end while the datagrams are placed
    }
    let mut places = vec![Place::default(); slot.len()];
    let fragments = datagrams.fragment.iter().zip(datagrams.fragments);
    let columns = datagrams.handshake.iter().zip(slot).zip(fragments);
    for (((&handshake, &slot), (&fragment, &total)), row) in columns.zip(0..) {
        let place = &mut end[handshake as usize];
        places[*place as usize] = Place {
            slot,
            row,
            fragment,
            total,
        };
        *place += 1;
    }
    Some((places, end))
}

/// Whether the datagrams of a slot may be several transmissions; otherwise their fragment numbers rise and have one
/// total.
fn may_repeat(places: &[Place]) -> bool {
    places.windows(2).any(|pair| {
        let (before, place) = (&pair[0], &pair[1]);
        place.fragment <= before.fragment || place.total != before.total || before.fragment == 0
    })
}

/// The transmissions of all slots, which become messages, in order of slot, body and transmission.
struct Transmissions {
    /// Body and transmission of each.
    turn: Vec<i64>,
    /// The row of the first datagram of each.
    head: Vec<u32>,
    /// Whether that is a fragment.
    is_fragmented: Vec<bool>,
    /// The transmission of each datagram.
    of_datagram: Vec<i32>,
    /// Whether each datagram is a first copy.
    first_copy: Vec<bool>,
    later_copies: Option<LaterCopies>,
}

impl Transmissions {
    fn new(datagrams: &Datagrams) -> Self {
        let count = datagrams.handshake.len();
        Self {
            turn: Vec::new(),
            head: Vec::new(),
            is_fragmented: Vec::new(),
            of_datagram: vec![0; count],
            first_copy: vec![true; count],
            later_copies: LaterCopies::new(datagrams),
        }
    }

    /// Add the transmissions of the datagrams of one slot.
    fn add_slot(&mut self, places: &[Place], datagrams: &Datagrams, classifier: &mut Classifier) {
        if may_repeat(places) {
            return self.add_repeated(places, datagrams, classifier);
        }
        self.begin(1, &places[0]);
        for place in places {
            self.add(place.row);
        }
        if let Some(later_copies) = &mut self.later_copies {
            later_copies.add_slot(datagrams, &self.first_copy, places.iter().map(|place| (0, place.row)));
        }
    }

    fn add_repeated(&mut self, places: &[Place], datagrams: &Datagrams, classifier: &mut Classifier) {
        let slot_datagrams: Vec<SlotDatagram> = places.iter().map(|place| datagrams.get(place.row as usize)).collect();
        let ikev1 = datagrams.ikev1[places[0].row as usize];
        let classified = classifier.classify_slot(&slot_datagrams, ikev1);
        let turn = |part: &Transmission| part.body << TRANSMISSION_BITS | part.transmission;
        let mut parts: Vec<(i64, &Place)> = classified.iter().map(turn).zip(places).collect();
        parts.sort_by_key(|&(turn, _)| turn);
        for (part, place) in classified.iter().zip(places) {
            self.first_copy[place.row as usize] = part.first_copy;
        }
        for transmission in parts.chunk_by(|first, second| first.0 == second.0) {
            let (turn, head) = transmission[0];
            self.begin(turn, head);
            for (_, place) in transmission {
                self.add(place.row);
            }
        }
        if let Some(later_copies) = &mut self.later_copies {
            let rows = parts.iter().map(|(turn, place)| (turn >> TRANSMISSION_BITS, place.row));
            later_copies.add_slot(datagrams, &self.first_copy, rows);
        }
    }

    /// Begin a transmission, whose first datagram is `head`.
    fn begin(&mut self, turn: i64, head: &Place) {
        self.turn.push(turn);
        self.head.push(head.row);
        self.is_fragmented.push(head.fragment > 0);
    }

    /// Add a datagram to the last transmission.
    fn add(&mut self, row: u32) {
        self.of_datagram[row as usize] = self.turn.len() as i32 - 1;
    }

    /// The messages that these transmissions are.
    fn sum(self, slot: &[i64], datagrams: &Datagrams) -> Messages {
        let (heads, sums) = if slot.len() < MIN_PARALLEL {
            (Heads::new(slot, datagrams, &self), Sums::new(datagrams, &self))
        } else {
            std::thread::scope(|scope| {
                let heads = scope.spawn(|| Heads::new(slot, datagrams, &self));
                let sums = Sums::new(datagrams, &self);
                let heads = heads.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (heads, sums)
            })
        };
        Messages::join(heads, sums, self.of_datagram)
    }
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

    /// The bytes of a datagram that are needed if it is a first copy.
    fn count_first_copy(&self, row: usize, first_copy: bool) -> i64 {
        match first_copy {
            true => self.bytes.get(row) - self.resent_bytes.get(row),
            false => 0,
        }
    }
}

/// Messages of at least so many datagrams are summed in two threads.
const MIN_PARALLEL: usize = 1 << 16;

impl Messages {
    fn join(heads: Heads, sums: Sums, of_datagram: Vec<i32>) -> Self {
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
            of_datagram,
        }
    }
}

/// The columns of messages that are those of their first datagrams.
struct Heads {
    slot: Vec<i64>,
    handshake: Vec<i32>,
    from_initiator: Vec<bool>,
    initiator_asked: Vec<bool>,
    response: Vec<bool>,
    protocol: Vec<u8>,
    exchange_type: Vec<u8>,
    next_payload: Vec<u8>,
    message_id: Vec<u32>,
    body: Vec<i64>,
    transmission: Vec<u32>,
    first_ns: Vec<i64>,
}

impl Heads {
    fn new(slot: &[i64], datagrams: &Datagrams, transmissions: &Transmissions) -> Self {
        let (rows, turns) = (&transmissions.head, &transmissions.turn);
        fn select<T: Copy>(rows: &[u32], column: &[T]) -> Vec<T> {
            rows.iter().map(|&row| column[row as usize]).collect()
        }
        let has_bodies = turns.iter().any(|turn| turn >> TRANSMISSION_BITS != 0);
        let bodies: &[i64] = if has_bodies { turns } else { &[] };
        Self {
            slot: select(rows, slot),
            handshake: select(rows, datagrams.handshake),
            from_initiator: select(rows, datagrams.from_initiator),
            initiator_asked: select(rows, datagrams.initiator_asked),
            response: select(rows, datagrams.response),
            protocol: select(rows, datagrams.protocol),
            exchange_type: select(rows, datagrams.exchange_type),
            next_payload: select(rows, datagrams.next_payload),
            message_id: select(rows, datagrams.message_id),
            body: bodies.iter().map(|turn| turn >> TRANSMISSION_BITS).collect(),
            transmission: turns
                .iter()
                .map(|turn| (turn & ((1 << TRANSMISSION_BITS) - 1)) as u32)
                .collect(),
            first_ns: select(rows, datagrams.first_ns),
        }
    }
}

/// The columns of messages that depend on all their datagrams.
struct Sums {
    last_ns: Vec<i64>,
    first_frame: Vec<u32>,
    frames: Vec<u32>,
    bytes: Vec<i64>,
    needed_bytes: Vec<i64>,
    fragments: Vec<u16>,
    fragments_seen: Vec<u32>,
    new_fragments: Vec<u32>,
    ip_fragments: Vec<i64>,
    digest: Vec<u64>,
}

impl Sums {
    /// The datagrams are read in order, because those of a message are not far from one another.
    fn new(datagrams: &Datagrams, transmissions: &Transmissions) -> Self {
        let count = transmissions.turn.len();
        let has_ip_fragments = !matches!(datagrams.ip_fragments, Column::Same(0));
        let mut sums = Self {
            last_ns: vec![i64::MIN; count],
            first_frame: vec![u32::MAX; count],
            frames: vec![0; count],
            bytes: vec![0; count],
            needed_bytes: vec![0; count],
            fragments: vec![0; count],
            fragments_seen: vec![0; count],
            new_fragments: vec![0; count],
            ip_fragments: vec![0; if has_ip_fragments { count } else { 0 }],
            digest: vec![0; count],
        };
        let needed = transmissions.later_copies.as_ref().map(|copies| &copies.needed);
        for (row, &message) in transmissions.of_datagram.iter().enumerate() {
            let message = message as usize;
            let first_copy = transmissions.first_copy[row];
            let last_ns = &mut sums.last_ns[message];
            *last_ns = datagrams.last_ns[row].max(*last_ns);
            let first_frame = &mut sums.first_frame[message];
            *first_frame = datagrams.number[row].min(*first_frame);
            let fragments = &mut sums.fragments[message];
            *fragments = datagrams.fragments[row].max(*fragments);
            let frames = &mut sums.frames[message];
            *frames = frames.wrapping_add(datagrams.frames.get(row) as u32);
            sums.bytes[message] += datagrams.bytes.get(row);
            sums.needed_bytes[message] += match needed {
                Some(needed) => needed[row],
                None => datagrams.count_first_copy(row, first_copy),
            };
            if transmissions.is_fragmented[message] && datagrams.has_arrived(row) {
                sums.fragments_seen[message] += 1;
                sums.new_fragments[message] += u32::from(first_copy);
            }
            if has_ip_fragments {
                sums.ip_fragments[message] += datagrams.ip_fragments.get(row);
            }
            // of a fragmented message: a combination of those of its fragments, in any order
            let factor = 2 * u64::from(datagrams.fragment[row]) + 1;
            let digest = &mut sums.digest[message];
            *digest = digest.wrapping_add(datagrams.digest[row].wrapping_mul(factor));
        }
        sums
    }
}

/// Bytes of each datagram that one transmission of each message needs: those of first copies, and those that a later
/// copy has in addition to a first copy with lost IP fragments.
struct LaterCopies {
    needed: Vec<i64>,
    /// The most bytes of a datagram of the slot so far, by body, fragment number and total, of the form that is needed.
    largest: HashMap<(i64, u16, u16), i64>,
}

impl LaterCopies {
    /// None: no datagram is in IP fragments.
    fn new(datagrams: &Datagrams) -> Option<Self> {
        (!matches!(datagrams.ip_fragments, Column::Same(0))).then(|| Self {
            needed: vec![0; datagrams.handshake.len()],
            largest: HashMap::new(),
        })
    }

    /// Count the bytes of the datagrams of a slot; `rows` are their bodies and rows, in order of transmission.
    fn add_slot(&mut self, datagrams: &Datagrams, first_copy: &[bool], rows: impl Iterator<Item = (i64, u32)> + Clone) {
        let of_first_copy = |row: usize| datagrams.count_first_copy(row, first_copy[row]);
        let has_later_copies = rows.clone().any(|(_, row)| {
            let row = row as usize;
            datagrams.ip_fragments.get(row) > 0 && of_first_copy(row) == 0
        });
        self.largest.clear();
        for (body, row) in rows {
            let row = row as usize;
            self.needed[row] = match has_later_copies {
                true => self.count(datagrams, row, body, of_first_copy(row)),
                false => of_first_copy(row),
            };
        }
    }

    /// The bytes of a datagram that are needed, of a slot with later copies; `of_first_copy`: if there were none.
    fn count(&mut self, datagrams: &Datagrams, row: usize, body: i64, of_first_copy: i64) -> i64 {
        let size = datagrams.bytes.get(row);
        let part = (body, datagrams.fragment[row], datagrams.fragments[row]);
        match self.largest.get_mut(&part) {
            None => {
                if of_first_copy != 0 {
                    self.largest.insert(part, size.max(0));
                }
                of_first_copy
            }
            Some(largest) => {
                let previous = std::mem::replace(largest, size.max(*largest));
                if datagrams.ip_fragments.get(row) != 0 {
                    (size - previous).max(0)
                } else {
                    of_first_copy
                }
            }
        }
    }
}
