//! Reads stretches of a pcap file, and finds the messages in them.

use std::collections::HashSet;
use std::io::Read;

use super::frames::{Packets, Scan, Tables};
use super::records::{walk_pcap, PcapLayout};

/// Bytes read at once: they remain in the cache of a processor while their packets are decoded.
const CHUNK: usize = 512 << 10;
/// Room for rows in comparison with the first ones of a part; memory that is not written to costs nothing.
const RESERVE: f64 = 1.1;
/// Zero bytes after the packets that are handed back, as Python expects them (PADDING in formats/records.py).
const PADDING: usize = 256;

/// The initiator SPIs of the IKE SAs whose encrypted messages are stored.
pub enum WantedSpis {
    All,
    Of(HashSet<u64>),
}

impl WantedSpis {
    fn contains(&self, spi: u64) -> bool {
        match self {
            WantedSpis::All => true,
            WantedSpis::Of(spis) => spis.contains(&spi),
        }
    }
}

/// Bytes of messages, one after another.
#[derive(Debug, Default)]
pub struct Stored {
    /// The row of each message.
    pub row: Vec<u32>,
    /// Where it begins and ends in the heap.
    pub begin: Vec<i64>,
    pub end: Vec<i64>,
    pub heap: Vec<u8>,
    /// Its offset in the file.
    pub place: Vec<i64>,
}

impl Stored {
    fn add(&mut self, row: usize, message: &[u8], place: i64) {
        self.row.push(row as u32);
        self.place.push(place);
        self.begin.push(self.heap.len() as i64);
        self.heap.extend_from_slice(message);
        self.end.push(self.heap.len() as i64);
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
    /// The bytes of the packets, and PADDING zeros.
    pub data: Vec<u8>,
}

/// The contents of a part of a file.
#[derive(Default)]
pub struct Part {
    /// The rows of the messages; numbers count from 0 within the part.
    pub scan: Scan,
    pub clear: Stored,
    pub encrypted: Stored,
    pub rest: Rest,
    pub packets: u64,
    /// On the wire.
    pub bytes: i64,
    /// Packets that were not captured completely.
    pub truncated: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    /// File offset of the first record that was not read.
    pub stop: u64,
}

/// How a file is read.
pub struct Plan<'a> {
    pub layout: PcapLayout,
    pub tables: Tables<'a>,
    pub encrypted: WantedSpis,
}

impl Part {
    /// Read the records that begin before the offset `end` from a file at the offset `begin`, where a record begins.
    ///
    /// Stops before a record that Python must check, at an incomplete one, and where the file cannot be read.
    pub fn read(file: &mut impl Read, begin: u64, end: u64, plan: &Plan) -> Self {
        let mut part = Part {
            first_ns: i64::MAX,
            last_ns: i64::MIN,
            stop: begin,
            ..Part::default()
        };
        let mut buffer = vec![0; CHUNK];
        let mut filled = 0;
        let mut is_first = true;
        while part.stop < end {
            let at_end = fill(file, &mut buffer, &mut filled);
            let Some(mut records) = walk_pcap(&buffer, 0, filled, &plan.layout) else {
                break;
            };
            let limit = usize::try_from(end - part.stop).unwrap_or(usize::MAX);
            records.truncate(limit, plan.layout.header_size);
            let interface = vec![0; records.offset.len()];
            let packets = Packets {
                data: &buffer,
                offset: &records.offset,
                captured: &records.captured,
                length: &records.length,
                time_ns: &records.time_ns,
                interface: &interface,
            };
            part.add(&packets, plan);
            part.stop += records.stop as u64;
            if is_first {
                part.reserve((end - part.stop.min(end)) as f64 / records.stop as f64);
                is_first = false;
            }
            if at_end || records.stop == 0 {
                break;
            }
            buffer.copy_within(records.stop..filled, 0);
            filled -= records.stop;
        }
        part.rest.data.resize(part.rest.data.len() + PADDING, 0);
        part
    }

    /// Make room for `ratio` times the rows and messages so far, so that they are not copied to larger memory.
    fn reserve(&mut self, ratio: f64) {
        let more = |count: usize| (count as f64 * ratio * RESERVE) as usize;
        self.scan.reserve(more(self.scan.number.len()));
        for stored in [&mut self.clear, &mut self.encrypted] {
            stored.heap.reserve_exact(more(stored.heap.len()));
        }
    }

    fn add(&mut self, packets: &Packets, plan: &Plan) {
        let rows = self.scan.number.len();
        self.scan.extend(packets, &plan.tables, self.packets as u32);
        for (at, &clear) in self.scan.clear.iter().enumerate() {
            let row = rows + at;
            let stored = if clear {
                &mut self.clear
            } else if plan.encrypted.contains(self.scan.spi_i[row]) {
                &mut self.encrypted
            } else {
                continue;
            };
            let (begin, end) = (self.scan.begin[at], self.scan.end[at]);
            let message = &packets.data[begin as usize..end as usize];
            stored.add(row, message, (self.stop as i64).wrapping_add(begin));
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

/// Read a part for each offset in `begins`, each up to the next offset or `end`, in parallel; `open` opens the file at
/// an offset.
///
/// Returns the parts up to the first one that does not end where the next one begins.
pub fn read_parts<F: Read>(open: impl Fn(u64) -> Option<F> + Sync, begins: &[u64], end: u64, plan: &Plan) -> Vec<Part> {
    let ends = begins.iter().skip(1).copied().chain([end]);
    let read = |begin: u64, end: u64| Some(Part::read(&mut open(begin)?, begin, end, plan));
    let mut parts = std::thread::scope(|scope| {
        let mut bounds = begins.iter().copied().zip(ends);
        let first = bounds.next();
        let others: Vec<_> = bounds
            .map(|(begin, end)| scope.spawn(move || read(begin, end)))
            .collect();
        let first = first.and_then(|(begin, end)| read(begin, end));
        let others = others.into_iter().map(|thread| thread.join().ok().flatten());
        std::iter::once(first)
            .chain(others)
            .map_while(|part| part)
            .collect::<Vec<_>>()
    });
    let joined = parts
        .iter()
        .zip(begins.iter().skip(1))
        .take_while(|(part, &next)| part.stop == next);
    let usable = joined.count() + 1;
    parts.truncate(usable);
    parts
}
