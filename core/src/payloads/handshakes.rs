//! Decrypts the messages of handshakes, each with the key sets that name its IKE SA.
//!
//! The rules are those of ikeanalyze/keys/key_ring.py (rule 4) and of SkfReassembler in
//! ikeanalyze/crypto/skf_fragments.py. A handshake goes back to Python if an algorithm of its key sets is not
//! implemented here, or if fragments of one of its messages are missing.

use super::ciphers::{make_direction, Direction, Sizes};
use super::encrypted_payload::{find_encrypted_payload, HEADER};
use std::collections::{BTreeMap, HashMap};

/// Encrypted datagrams, handshake by handshake in order of time. Columns of one length.
pub struct Datagrams<'a> {
    pub heap: &'a [u8],
    /// Offset of the message in the heap, and its bytes.
    pub begin: &'a [i64],
    pub size: &'a [i64],
    /// Slot and body of Messages: the same for all transmissions and fragments of a message.
    pub slot: &'a [i64],
    pub body: &'a [i64],
    /// Fragment number and total fragments; 0: not fragmented.
    pub number: &'a [u16],
    pub total: &'a [u16],
    pub from_initiator: &'a [bool],
}

/// The key sets of one handshake, in the order of the key files.
pub struct KeySet<'a> {
    pub encryption: u16,
    pub integrity: u16,
    pub sk_ei: &'a [u8],
    pub sk_er: &'a [u8],
    pub sk_ai: &'a [u8],
    pub sk_ar: &'a [u8],
}

/// The results of all handshakes; `*_ends` are exclusive.
#[derive(Default)]
pub struct Decrypted {
    /// Of each handshake: whether it was decrypted here.
    pub handled: Vec<bool>,
    /// Of each handshake: where its messages and its undecrypted messages end.
    pub message_ends: Vec<i64>,
    pub undecrypted_ends: Vec<i64>,
    /// Of each message: the last datagram that was used, and the position of its key set.
    pub last: Vec<i64>,
    pub position: Vec<i64>,
    /// Of each message: type of the first payload, and offset and bytes of its IKE header and plaintext in the heap.
    pub first: Vec<u8>,
    pub begin: Vec<i64>,
    pub size: Vec<i64>,
    /// Of each message: where its datagrams end; they are sorted by fragment number.
    pub part_ends: Vec<i64>,
    pub parts: Vec<i64>,
    /// The first datagram of each message that could not be decrypted.
    pub undecrypted: Vec<i64>,
}

struct Ciphers {
    initiator: Box<dyn Direction>,
    responder: Box<dyn Direction>,
    sizes: Sizes,
}

fn make_ciphers(keys: &KeySet) -> Option<Ciphers> {
    let (initiator, sizes) = make_direction(keys.encryption, keys.integrity, keys.sk_ei, keys.sk_ai)?;
    let (responder, _) = make_direction(keys.encryption, keys.integrity, keys.sk_er, keys.sk_ar)?;
    Some(Ciphers {
        initiator,
        responder,
        sizes,
    })
}

/// One distinct message: a slot and body.
#[derive(Default)]
struct Task {
    unit: usize,
    done: bool,
    fragmented: bool,
    total: u16,
    first: u8,
    /// By fragment number: datagram and plaintext.
    parts: BTreeMap<u16, (usize, Vec<u8>)>,
}

/// Decrypt all handshakes, in up to `threads` threads; `ends`, `key_ends`: where the datagrams and key sets of each
/// handshake end. Headers and plaintexts are written to `heap`, which has as many bytes as the datagrams.
pub fn decrypt_handshakes(
    datagrams: &Datagrams,
    ends: &[i64],
    key_sets: &[KeySet],
    key_ends: &[i64],
    threads: usize,
    heap: &mut [u8],
) -> Decrypted {
    let count = ends.len().div_ceil(threads.max(1)).max(1);
    let decrypt = |first: usize, heap: Heap| {
        let last = ends.len().min(first + count);
        let lows = (first > 0).then(|| (ends[first - 1], key_ends[first - 1]));
        let bounds = ends[first..last]
            .iter()
            .copied()
            .zip(key_ends[first..last].iter().copied());
        decrypt_range(datagrams, key_sets, lows.unwrap_or_default(), bounds, heap)
    };
    // a message has more bytes than its header and plaintext, so each thread gets the bytes of its datagrams
    let mut rest = Heap::new(heap);
    let mut take = |first: usize| {
        let last = ends.len().min(first + count);
        let low = if first > 0 { ends[first - 1] } else { 0 };
        let high = if last > 0 { ends[last - 1] } else { 0 };
        let sizes = &datagrams.size[low as usize..high as usize];
        let bytes = sizes.iter().filter_map(|&size| usize::try_from(size).ok());
        rest.split(bytes.fold(0, usize::saturating_add))
    };
    std::thread::scope(|scope| {
        let decrypt = &decrypt;
        let own = take(0);
        let others: Vec<_> = (count..ends.len())
            .step_by(count)
            .map(|first| {
                let heap = take(first);
                scope.spawn(move || decrypt(first, heap))
            })
            .collect();
        let mut result = decrypt(0, own);
        for other in others {
            match other.join() {
                Ok(part) => result.append(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result
    })
}

/// Decrypt handshakes that follow each other. `low`: where the datagrams and key sets of the first one begin; `bounds`:
/// where those of each end.
fn decrypt_range(
    datagrams: &Datagrams,
    key_sets: &[KeySet],
    low: (i64, i64),
    bounds: impl Iterator<Item = (i64, i64)>,
    mut heap: Heap,
) -> Decrypted {
    let mut result = Decrypted::default();
    let (mut low, mut key_low) = (low.0 as usize, low.1 as usize);
    for (high, key_high) in bounds {
        let (high, key_high) = (high as usize, key_high as usize);
        let (before, used) = (result.lengths(), heap.used);
        let key_sets = &key_sets[key_low..key_high];
        let handled = decrypt_handshake(datagrams, low..high, key_sets, &mut result, &mut heap).is_some();
        if !handled {
            result.truncate(before);
            heap.used = used;
        }
        result.handled.push(handled);
        result.message_ends.push(result.last.len() as i64);
        result.undecrypted_ends.push(result.undecrypted.len() as i64);
        (low, key_low) = (high, key_high);
    }
    result
}

/// A part of the heap, which is filled from its beginning.
struct Heap<'a> {
    bytes: &'a mut [u8],
    /// Offset in the whole heap.
    begin: usize,
    used: usize,
}

impl<'a> Heap<'a> {
    fn new(bytes: &'a mut [u8]) -> Self {
        Self {
            bytes,
            begin: 0,
            used: 0,
        }
    }

    /// Split off the first bytes.
    fn split(&mut self, count: usize) -> Heap<'a> {
        let count = count.min(self.bytes.len());
        let (bytes, rest) = std::mem::take(&mut self.bytes).split_at_mut(count);
        self.bytes = rest;
        let begin = self.begin;
        self.begin += count;
        Heap { bytes, begin, used: 0 }
    }

    /// Add bytes; None: there is no room.
    fn extend(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.used.checked_add(bytes.len())?;
        self.bytes.get_mut(self.used..end)?.copy_from_slice(bytes);
        self.used = end;
        Some(())
    }
}

/// The numbers of messages, datagrams and undecrypted messages of a result.
struct Lengths {
    messages: usize,
    parts: usize,
    undecrypted: usize,
}

impl Decrypted {
    fn lengths(&self) -> Lengths {
        Lengths {
            messages: self.last.len(),
            parts: self.parts.len(),
            undecrypted: self.undecrypted.len(),
        }
    }

    fn truncate(&mut self, lengths: Lengths) {
        self.last.truncate(lengths.messages);
        self.position.truncate(lengths.messages);
        self.first.truncate(lengths.messages);
        self.begin.truncate(lengths.messages);
        self.size.truncate(lengths.messages);
        self.part_ends.truncate(lengths.messages);
        self.parts.truncate(lengths.parts);
        self.undecrypted.truncate(lengths.undecrypted);
    }

    /// Add the message of a task that is complete with the datagram `row`, and copy its header and plaintext.
    ///
    /// None: the heap has no room.
    fn add_message(
        &mut self,
        datagrams: &Datagrams,
        task: &mut Task,
        row: usize,
        position: usize,
        heap: &mut Heap,
    ) -> Option<()> {
        let used = heap.used;
        if let Some((part, _)) = task.parts.values().next() {
            let header = usize::try_from(datagrams.begin[*part]).ok()?;
            heap.extend(&datagrams.heap[header..header + HEADER])?;
        }
        for (part, content) in task.parts.values() {
            self.parts.push(*part as i64);
            heap.extend(content)?;
        }
        task.done = true;
        task.parts.clear();
        self.last.push(row as i64);
        self.position.push(position as i64);
        self.first.push(task.first);
        self.begin.push((heap.begin + used) as i64);
        self.size.push((heap.used - used) as i64);
        self.part_ends.push(self.parts.len() as i64);
        Some(())
    }

    /// Add the results of the handshakes that follow.
    fn append(&mut self, other: Decrypted) {
        let lengths = self.lengths();
        let shift = |ends: Vec<i64>, by: usize| ends.into_iter().map(move |end| end + by as i64);
        self.handled.extend(other.handled);
        self.message_ends.extend(shift(other.message_ends, lengths.messages));
        self.undecrypted_ends
            .extend(shift(other.undecrypted_ends, lengths.undecrypted));
        self.part_ends.extend(shift(other.part_ends, lengths.parts));
        self.last.extend(other.last);
        self.position.extend(other.position);
        self.first.extend(other.first);
        self.begin.extend(other.begin);
        self.size.extend(other.size);
        self.parts.extend(other.parts);
        self.undecrypted.extend(other.undecrypted);
    }
}

/// Decrypt one handshake; None: it goes back to Python.
fn decrypt_handshake(
    datagrams: &Datagrams,
    rows: std::ops::Range<usize>,
    key_sets: &[KeySet],
    result: &mut Decrypted,
    heap: &mut Heap,
) -> Option<()> {
    let ciphers: Vec<Ciphers> = key_sets.iter().map(make_ciphers).collect::<Option<_>>()?;
    let mut starts = Starts::new(ciphers.len());
    let mut tasks: Vec<Task> = Vec::new();
    let mut places: HashMap<(i64, i64), usize> = HashMap::new();
    let mut plaintext = Vec::new();
    for row in rows {
        let place = *places
            .entry((datagrams.slot[row], datagrams.body[row]))
            .or_insert_with(|| {
                tasks.push(Task {
                    unit: row,
                    ..Task::default()
                });
                tasks.len() - 1
            });
        let task = &mut tasks[place];
        let (number, total) = (datagrams.number[row], datagrams.total[row]);
        let repeated = number != 0 && task.fragmented && task.total == total && task.parts.contains_key(&number);
        if task.done || repeated {
            continue;
        }
        let begin = usize::try_from(datagrams.begin[row]).ok()?;
        let message = datagrams
            .heap
            .get(begin..begin + usize::try_from(datagrams.size[row]).ok()?)?;
        let Some(payload) = find_encrypted_payload(message) else {
            continue;
        };
        let from_initiator = datagrams.from_initiator[row];
        let asked = from_initiator != payload.response;
        let position = starts
            .list_positions(asked, payload.message_id)
            .into_iter()
            .find(|&position| {
                let ciphers = &ciphers[position];
                let direction = if from_initiator {
                    &ciphers.initiator
                } else {
                    &ciphers.responder
                };
                plaintext.clear();
                payload.decrypt(message, direction.as_ref(), ciphers.sizes, &mut plaintext)
            });
        let Some(position) = position else {
            continue;
        };
        starts.use_position(asked, position, payload.message_id);
        if number == 0 {
            task.parts = BTreeMap::from([(0, (row, std::mem::take(&mut plaintext)))]);
            task.first = payload.first;
        } else {
            task.fragmented = true;
            if !task.add_fragment(number, total, payload.first, row, &mut plaintext) {
                continue;
            }
        }
        result.add_message(datagrams, task, row, position, heap)?;
    }
    for task in tasks.iter().filter(|task| !task.done) {
        if task.fragmented {
            return None;
        }
        result.undecrypted.push(task.unit as i64);
    }
    Some(())
}

impl Task {
    /// Add a decrypted fragment as SkfReassembler does; returns whether the message is complete.
    fn add_fragment(&mut self, number: u16, total: u16, first: u8, row: usize, plaintext: &mut Vec<u8>) -> bool {
        if (1..=total).contains(&number) && total >= self.total {
            if total > self.total {
                // fragmented again, into smaller fragments
                self.parts.clear();
                self.total = total;
                self.first = 0;
            }
            if !self.parts.contains_key(&number) {
                self.parts.insert(number, (row, std::mem::take(plaintext)));
                if number == 1 {
                    self.first = first;
                }
            }
        }
        self.total > 0 && self.parts.len() == usize::from(self.total)
    }
}

/// The first message ID of each key set in use, by who sent the request (rule 4 of ikeanalyze/keys/key_ring.py).
struct Starts {
    by_sender: [Vec<Option<u32>>; 2],
}

impl Starts {
    fn new(count: usize) -> Self {
        Self {
            by_sender: [vec![None; count], vec![None; count]],
        }
    }

    /// Positions that may decrypt the exchange: the one in use, those after it, those before it.
    fn list_positions(&self, initiator_asked: bool, message_id: u32) -> Vec<usize> {
        let starts = &self.by_sender[usize::from(initiator_asked)];
        let count = starts.len();
        if count < 2 {
            return (0..count).collect();
        }
        let in_use = starts
            .iter()
            .enumerate()
            .filter_map(|(position, start)| Some((position, (*start)?)));
        let current = match in_use.max_by_key(|&(position, start)| (start <= message_id, start, position)) {
            Some((position, _)) => position,
            // the last one that the initiator's exchanges use
            None => self.by_sender[1].iter().rposition(Option::is_some).unwrap_or(0),
        };
        let may_decrypt = |&position: &usize| match starts[position] {
            Some(start) => !starts
                .iter()
                .flatten()
                .any(|&other| start < other && other <= message_id),
            None => true,
        };
        std::iter::once(current)
            .chain(current + 1..count)
            .chain(0..current)
            .filter(may_decrypt)
            .collect()
    }

    fn use_position(&mut self, initiator_asked: bool, position: usize, message_id: u32) {
        let start = &mut self.by_sender[usize::from(initiator_asked)][position];
        *start = Some(start.map_or(message_id, |known| known.min(message_id)));
    }
}
