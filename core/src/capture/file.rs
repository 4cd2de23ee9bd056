//! Reads a pcap file in threads, and finds the messages in it.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::frames::{Address, Packets, Scan, Tables};
use super::records::{guess_record, walk_pcap, PcapLayout};

/// Bytes read at once: they remain in the cache of a processor while their packets are decoded.
const CHUNK: usize = 256 << 10;
/// Bytes read at once where records are so large that a chunk has too few of them.
const LARGEST_CHUNK: usize = 1 << 20;
/// Bytes read after the end of a block, where its last record ends.
const BEYOND: usize = 4 << 10;
/// Blocks that are read before all blocks before them have been read.
const LOOK_AHEAD: usize = 8;
/// Room for rows in comparison with the first ones of a file; memory that is not written to costs nothing.
const RESERVE: f64 = 1.1;
/// Room before a reading is confirmed, in comparison with what may be read by then: larger files are copied once.
const EARLY_ROOM: u64 = 8;
/// Zero bytes after messages, and after packets that are handed back, as Python expects them (PADDING in
/// formats/records.py).
const PADDING: usize = 256;
/// Number of IKEv2 in `Scan::protocol` (Protocol.IKEV2).
const IKEV2: u8 = 0;

/// The initiator SPIs of the IKE SAs whose encrypted messages are stored.
pub enum WantedSpis<'a> {
    All,
    Of(&'a HashSet<u64>),
}

impl WantedSpis<'_> {
    fn contains(&self, spi: u64) -> bool {
        match self {
            WantedSpis::All => true,
            WantedSpis::Of(spis) => spis.contains(&spi),
        }
    }
}

/// A side of a message.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    pub address: Address,
    pub port: u16,
}

/// What is known of a clear message, so that its bytes are not needed: the columns of `InitMessages` in
/// ikeanalyze/analysis/exchanges/init_messages.py.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    pub form: i64,
    pub sender_differs: i8,
    pub receiver_differs: i8,
}

/// Reads clear messages of IKEv2 as soon as they are found, in several threads.
pub trait MessageReader: Sync {
    /// None: the bytes of the message are needed.
    fn read(&self, message: &[u8], sender: Endpoint, receiver: Endpoint) -> Option<Reading>;
}

/// Bytes of messages, one after another.
#[derive(Debug, Default)]
pub struct Stored {
    /// The row of each message.
    pub row: Vec<u32>,
    /// Where it begins and ends in the heap.
    pub begin: Vec<i64>,
    pub end: Vec<i64>,
    /// Those that `read_file` returns end with PADDING zeros.
    pub heap: Vec<u8>,
}

impl Stored {
    fn add(&mut self, row: usize, message: &[u8]) {
        self.row.push(row as u32);
        self.begin.push(self.heap.len() as i64);
        self.heap.extend_from_slice(message);
        self.end.push(self.heap.len() as i64);
    }

    /// Add the messages of another part, whose first row is `rows` here.
    fn append(&mut self, other: &Stored, rows: u32) {
        let before = self.heap.len() as i64;
        self.row.extend(other.row.iter().map(|row| rows + row));
        self.begin.extend(other.begin.iter().map(|begin| before + begin));
        self.end.extend(other.end.iter().map(|end| before + end));
        self.heap.extend_from_slice(&other.heap);
    }

    fn clear(&mut self) {
        self.row.clear();
        self.begin.clear();
        self.end.clear();
        self.heap.clear();
    }
}

/// Messages that a `MessageReader` has read, as columns of one length.
#[derive(Debug, Default)]
pub struct Readings {
    pub row: Vec<u32>,
    /// Offset of the message in the file, and its bytes.
    pub place: Vec<i64>,
    pub size: Vec<i64>,
    pub form: Vec<i64>,
    pub sender_differs: Vec<i8>,
    pub receiver_differs: Vec<i8>,
}

impl Readings {
    fn add(&mut self, row: usize, place: i64, size: usize, reading: Reading) {
        self.row.push(row as u32);
        self.place.push(place);
        self.size.push(size as i64);
        self.form.push(reading.form);
        self.sender_differs.push(reading.sender_differs);
        self.receiver_differs.push(reading.receiver_differs);
    }

    fn append(&mut self, other: &Readings, rows: u32) {
        self.row.extend(other.row.iter().map(|row| rows + row));
        self.place.extend_from_slice(&other.place);
        self.size.extend_from_slice(&other.size);
        self.form.extend_from_slice(&other.form);
        self.sender_differs.extend_from_slice(&other.sender_differs);
        self.receiver_differs.extend_from_slice(&other.receiver_differs);
    }

    fn clear(&mut self) {
        self.row.clear();
        self.place.clear();
        self.size.clear();
        self.form.clear();
        self.sender_differs.clear();
        self.receiver_differs.clear();
    }
}

/// Packets that are handed back, as columns of one length.
#[derive(Debug, Default)]
pub struct Rest {
    /// Index of the packet in the part.
    pub index: Vec<i64>,
    pub offset: Vec<i64>,
    pub captured: Vec<i64>,
    pub length: Vec<i64>,
    pub time_ns: Vec<i64>,
    /// The bytes of the packets; those that `read_file` returns end with PADDING zeros.
    pub data: Vec<u8>,
}

impl Rest {
    fn append(&mut self, other: &Rest, packets: i64) {
        let before = self.data.len() as i64;
        self.index.extend(other.index.iter().map(|index| packets + index));
        self.offset.extend(other.offset.iter().map(|offset| before + offset));
        self.captured.extend_from_slice(&other.captured);
        self.length.extend_from_slice(&other.length);
        self.time_ns.extend_from_slice(&other.time_ns);
        self.data.extend_from_slice(&other.data);
    }

    fn clear(&mut self) {
        self.index.clear();
        self.offset.clear();
        self.captured.clear();
        self.length.clear();
        self.time_ns.clear();
        self.data.clear();
    }
}

/// The contents of a part of a file.
pub struct Part {
    /// The rows of the messages.
    pub scan: Scan,
    pub clear: Stored,
    pub encrypted: Stored,
    pub readings: Readings,
    pub rest: Rest,
    pub packets: u64,
    /// On the wire.
    pub bytes: i64,
    /// Packets that were not captured completely.
    pub truncated: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    /// File offset of the first record; None: unknown.
    pub start: Option<u64>,
    /// File offset of the first record that was not read.
    pub stop: u64,
}

impl Default for Part {
    fn default() -> Self {
        Part {
            scan: Scan::default(),
            clear: Stored::default(),
            encrypted: Stored::default(),
            readings: Readings::default(),
            rest: Rest::default(),
            packets: 0,
            bytes: 0,
            truncated: 0,
            first_ns: i64::MAX,
            last_ns: i64::MIN,
            start: None,
            stop: 0,
        }
    }
}

/// How a file is read.
pub struct Plan<'a> {
    pub layout: PcapLayout,
    pub tables: Tables<'a>,
    pub encrypted: WantedSpis<'a>,
    /// None: all clear messages are stored.
    pub reader: Option<&'a dyn MessageReader>,
}

/// Where the records of a part begin.
#[derive(Clone, Copy)]
enum Start {
    At(u64),
    /// At the first record at or after this offset, whose place must be guessed.
    After(u64),
}

impl Part {
    /// Remove everything, and keep the memory.
    fn clear(&mut self) {
        self.scan.clear();
        self.clear.clear();
        self.encrypted.clear();
        self.readings.clear();
        self.rest.clear();
        (self.packets, self.bytes, self.truncated) = (0, 0, 0);
        (self.first_ns, self.last_ns) = (i64::MAX, i64::MIN);
        (self.start, self.stop) = (None, 0);
    }

    /// Read the records that begin before the offset `end` from a file, which is at the offset of `start`.
    ///
    /// Stops before a record that Python must check, at an incomplete one, and where the file cannot be read. `buffer`
    /// has the size of what is read at once.
    fn read(&mut self, file: &mut impl Read, buffer: &mut [u8], start: Start, end: u64, plan: &Plan) {
        let (Start::At(offset) | Start::After(offset)) = start;
        let mut guess = matches!(start, Start::After(_));
        (self.start, self.stop) = ((!guess).then_some(offset), offset);
        let mut filled = 0;
        let mut beyond = if guess { buffer.len() } else { BEYOND };
        let mut chunk = CHUNK.min(buffer.len());
        while self.stop < end {
            let remaining = usize::try_from(end - self.stop).unwrap_or(usize::MAX);
            let wanted = remaining.saturating_add(beyond).min(chunk).max(filled);
            let at_end = fill(file, &mut buffer[..wanted], &mut filled);
            if guess {
                let Some(first) = guess_record(&buffer[..filled], &plan.layout) else {
                    if at_end || chunk == buffer.len() {
                        return;
                    }
                    chunk = buffer.len();
                    continue;
                };
                buffer.copy_within(first..filled, 0);
                filled -= first;
                self.stop += first as u64;
                self.start = Some(self.stop);
                (guess, beyond) = (false, BEYOND);
                continue;
            }
            let Some(mut records) = walk_pcap(buffer, 0, filled, &plan.layout) else {
                break;
            };
            records.truncate(remaining, plan.layout.header_size);
            let interface = vec![0; records.offset.len()];
            let packets = Packets {
                data: &buffer[..filled],
                offset: &records.offset,
                captured: &records.captured,
                length: &records.length,
                time_ns: &records.time_ns,
                interface: &interface,
            };
            self.add(&packets, plan);
            self.stop += records.stop as u64;
            if at_end || (records.stop == 0 && wanted == buffer.len()) {
                break;
            }
            if records.stop == 0 {
                (beyond, chunk) = (buffer.len(), buffer.len()); // the record is larger than usual
            }
            buffer.copy_within(records.stop..filled, 0);
            filled -= records.stop;
        }
    }

    fn add(&mut self, packets: &Packets, plan: &Plan) {
        let rows = self.scan.number.len();
        self.scan.extend(packets, &plan.tables, self.packets as u32);
        for (at, &clear) in self.scan.clear.iter().enumerate() {
            let row = rows + at;
            let (begin, end) = (self.scan.begin[at], self.scan.end[at]);
            let message = &packets.data[begin as usize..end as usize];
            if clear {
                match self.read_message(row, message, plan) {
                    Some(reading) => {
                        let place = (self.stop as i64).wrapping_add(begin);
                        self.readings.add(row, place, message.len(), reading);
                    }
                    None => self.clear.add(row, message),
                }
            } else if plan.encrypted.contains(self.scan.spi_i[row]) {
                self.encrypted.add(row, message);
            }
        }
        for &index in &self.scan.rest {
            let place = index as usize;
            let (offset, captured) = (packets.offset[place], packets.captured[place]);
            self.rest.index.push(self.packets as i64 + index);
            self.rest.offset.push(self.rest.data.len() as i64);
            self.rest.captured.push(captured);
            self.rest.length.push(packets.length[place]);
            self.rest.time_ns.push(packets.time_ns[place]);
            let frame = offset as usize..(offset + captured) as usize;
            self.rest.data.extend_from_slice(&packets.data[frame]);
        }
        for column in [
            &mut self.scan.row,
            &mut self.scan.begin,
            &mut self.scan.end,
            &mut self.scan.rest,
        ] {
            column.clear();
        }
        self.scan.clear.clear();
        self.packets += packets.offset.len() as u64;
        for (&captured, &length) in packets.captured.iter().zip(packets.length) {
            self.bytes += length;
            self.truncated += u64::from(captured < length);
        }
        for &time_ns in packets.time_ns {
            self.first_ns = self.first_ns.min(time_ns);
            self.last_ns = self.last_ns.max(time_ns);
        }
    }

    fn read_message(&self, row: usize, message: &[u8], plan: &Plan) -> Option<Reading> {
        let reader = plan.reader?;
        let scan = &self.scan;
        if scan.protocol[row] != IKEV2 {
            return None;
        }
        let sender = Endpoint {
            address: scan.address(scan.source[row])?,
            port: scan.source_port[row],
        };
        let receiver = Endpoint {
            address: scan.address(scan.destination[row])?,
            port: scan.destination_port[row],
        };
        reader.read(message, sender, receiver)
    }

    /// Make room for `ratio` times the rows and messages so far, so that they are not copied to larger memory.
    ///
    /// If there is not so much, as for a file that is larger than what it has, they are copied.
    fn reserve(&mut self, ratio: f64) {
        let more = |count: usize| (count as f64 * ratio * RESERVE) as usize;
        self.scan.reserve(more(self.scan.number.len()));
        for stored in [&mut self.clear, &mut self.encrypted] {
            let _ = stored.heap.try_reserve_exact(more(stored.heap.len()));
        }
    }

    /// Add the part that follows; `first` is the number of the first packet of the file's first part.
    fn append(&mut self, other: &Part, first: u32) {
        let rows = self.scan.number.len() as u32;
        self.scan.append(&other.scan, first.wrapping_add(self.packets as u32));
        self.clear.append(&other.clear, rows);
        self.encrypted.append(&other.encrypted, rows);
        self.readings.append(&other.readings, rows);
        self.rest.append(&other.rest, self.packets as i64);
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.truncated += other.truncated;
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.stop = other.stop;
    }
}

/// Fill the buffer; whether the file ends before.
fn fill(file: &mut impl Read, buffer: &mut [u8], filled: &mut usize) -> bool {
    while *filled < buffer.len() {
        match file.read(&mut buffer[*filled..]) {
            Ok(0) => return true,
            Ok(count) => *filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return true, // Python reports it
        }
    }
    false
}

/// How much is done at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub threads: usize,
    /// Bytes of the blocks that the threads take in turns.
    pub block: u64,
    /// Bytes of packets that are handed back, after which reading stops.
    pub rest: usize,
    /// Bytes that one thread reads before the reading is confirmed.
    pub unconfirmed: u64,
}

/// How far reading has come, for other threads, which can stop it, and whether its result is wanted.
pub struct State {
    /// File offset up to which all records have been read.
    pub position: AtomicU64,
    /// Rows so far.
    pub rows: AtomicUsize,
    stopped: AtomicBool,
    confirmed: Mutex<bool>,
    changed: Condvar,
}

impl Default for State {
    fn default() -> Self {
        Self {
            position: AtomicU64::new(0),
            rows: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            confirmed: Mutex::new(true),
            changed: Condvar::new(),
        }
    }
}

impl State {
    /// Of a reading whose result may be wanted later.
    pub fn unconfirmed() -> Self {
        Self {
            confirmed: Mutex::new(false),
            ..Self::default()
        }
    }

    /// Let all threads read, and read all.
    pub fn confirm(&self) {
        *self.lock() = true;
        self.changed.notify_all();
    }

    /// Let threads that read return soon.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.confirm();
    }

    /// Allow another reading after one that was stopped.
    pub fn resume(&self) {
        self.stopped.store(false, Ordering::Relaxed);
    }

    fn is_confirmed(&self) -> bool {
        *self.lock()
    }

    fn wait_until_confirmed(&self) {
        let mut confirmed = self.lock();
        while !*confirmed {
            confirmed = self.changed.wait(confirmed).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.confirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The blocks of a file, and what has been read of them.
struct Progress {
    /// Number of the next block that a thread takes, and of the next one that is appended to `whole`.
    taken: usize,
    appended: usize,
    /// Blocks that were read before the ones before them.
    waiting: BTreeMap<usize, Part>,
    /// Empty parts, whose memory is used again.
    spare: Vec<Part>,
    whole: Part,
    /// File offset up to which `whole` has room for rows and messages.
    reserved: u64,
    finished: bool,
}

/// Reads a range of a file in threads.
struct FileReading<'a, O> {
    /// Opens the file at an offset.
    open: O,
    begin: u64,
    end: u64,
    first: u32,
    limits: Limits,
    plan: &'a Plan<'a>,
    state: &'a State,
    progress: Mutex<Progress>,
    appended: Condvar,
}

/// Read the records that begin in a range of a file, where a record begins; `open` opens the file at an offset.
///
/// Stops before a record that Python must check, at an incomplete one, where the file cannot be read, and at the limit
/// of packets that are handed back. `first` is the number of the first packet.
pub fn read_file<F: Read, O: Fn(u64) -> Option<F> + Sync>(
    open: O,
    (begin, end): (u64, u64),
    first: u32,
    limits: Limits,
    plan: &Plan,
    state: &State,
) -> Part {
    let whole = Part {
        start: Some(begin),
        stop: begin,
        ..Part::default()
    };
    let reading = FileReading {
        open,
        begin,
        end,
        first,
        limits,
        plan,
        state,
        progress: Mutex::new(Progress {
            taken: 0,
            appended: 0,
            waiting: BTreeMap::new(),
            spare: Vec::new(),
            whole,
            reserved: begin,
            finished: begin >= end,
        }),
        appended: Condvar::new(),
    };
    std::thread::scope(|scope| {
        for _ in 1..limits.threads {
            // without another thread, the others read its blocks
            let _ = std::thread::Builder::new().spawn_scoped(scope, || {
                state.wait_until_confirmed();
                reading.read_blocks();
            });
        }
        reading.read_blocks();
    });
    let progress = reading.progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut whole = progress.whole;
    for data in [&mut whole.clear.heap, &mut whole.encrypted.heap, &mut whole.rest.data] {
        data.resize(data.len() + PADDING, 0);
    }
    whole
}

impl<F: Read, O: Fn(u64) -> Option<F> + Sync> FileReading<'_, O> {
    /// Read blocks until none is left.
    fn read_blocks(&self) {
        let _finish = FinishOnPanic(self);
        let mut buffer = vec![0; LARGEST_CHUNK];
        while let Some((block, start, mut part)) = self.take_block() {
            self.read_part(&mut part, &mut buffer, start, self.find_end(block));
            let mut progress = self.lock();
            progress.waiting.insert(block, part);
            while let Some(part) = self.take_next(&mut progress) {
                self.append(&mut progress, part, &mut buffer);
            }
            self.appended.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find_begin(&self, block: usize) -> u64 {
        if block == 0 {
            self.begin
        } else {
            self.find_end(block - 1)
        }
    }

    fn find_end(&self, block: usize) -> u64 {
        let size = self.limits.block.max(1);
        let end = size.saturating_mul(block as u64 + 1).saturating_add(self.begin);
        end.min(self.end)
    }

    /// The next block, where its records begin, and an empty part; None: there is no other block.
    fn take_block(&self) -> Option<(usize, Start, Part)> {
        if self.find_begin(self.lock().taken) - self.begin >= self.limits.unconfirmed {
            self.state.wait_until_confirmed();
        }
        let mut progress = self.lock();
        while !progress.finished && progress.taken >= progress.appended + LOOK_AHEAD {
            progress = self.appended.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        let block = progress.taken;
        let begin = self.find_begin(block);
        if progress.finished || begin >= self.end {
            return None;
        }
        progress.taken += 1;
        let start = if block == progress.appended {
            Start::At(progress.whole.stop)
        } else {
            Start::After(begin)
        };
        let part = progress.spare.pop().unwrap_or_default();
        Some((block, start, part))
    }

    fn read_part(&self, part: &mut Part, buffer: &mut [u8], start: Start, end: u64) {
        part.clear();
        let (Start::At(offset) | Start::After(offset)) = start;
        if let Some(mut file) = (self.open)(offset) {
            part.read(&mut file, buffer, start, end, self.plan);
        }
    }

    /// The part of the block that follows those that have been appended.
    fn take_next(&self, progress: &mut Progress) -> Option<Part> {
        if progress.finished {
            return None;
        }
        progress.waiting.remove(&progress.appended)
    }

    /// The file offset up to which there should be room.
    ///
    /// Before the reading is confirmed, it must not take the address space that modules need while they are loaded:
    /// a process may have a limit, and a file that is larger than memory is read in another way.
    fn find_reserved_end(&self) -> u64 {
        if self.state.is_confirmed() {
            self.end
        } else {
            let room = self.limits.unconfirmed.saturating_mul(EARLY_ROOM);
            self.begin.saturating_add(room).min(self.end)
        }
    }

    fn append(&self, progress: &mut Progress, mut part: Part, buffer: &mut [u8]) {
        let end = self.find_end(progress.appended);
        if part.start != Some(progress.whole.stop) {
            // the guess was wrong
            self.read_part(&mut part, buffer, Start::At(progress.whole.stop), end);
        }
        let whole = &mut progress.whole;
        if part.start.is_some() {
            whole.append(&part, self.first);
        }
        self.state.position.store(whole.stop, Ordering::Relaxed);
        self.state.rows.store(whole.scan.number.len(), Ordering::Relaxed);
        let full = whole.rest.data.len() >= self.limits.rest || self.state.stopped.load(Ordering::Relaxed);
        progress.finished = whole.stop < end || full || end >= self.end;
        let wanted = self.find_reserved_end();
        if progress.reserved < wanted && !progress.finished && whole.stop > self.begin {
            let remaining = wanted.saturating_sub(whole.stop);
            whole.reserve(remaining as f64 / (whole.stop - self.begin) as f64);
            progress.reserved = wanted;
        }
        progress.appended += 1;
        progress.spare.push(part);
    }
}

/// Ends the other threads when one panics: they would wait for its block.
struct FinishOnPanic<'a, 'b, O>(&'a FileReading<'b, O>);

impl<O> Drop for FinishOnPanic<'_, '_, O> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let progress = self.0.progress.lock();
            progress.unwrap_or_else(PoisonError::into_inner).finished = true;
            self.0.appended.notify_all();
        }
    }
}
