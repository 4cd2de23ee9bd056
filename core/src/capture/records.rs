//! The records of pcap files and the packet blocks of pcapng files.

use super::bytes::word;

/// How the records of a pcap file are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PcapLayout {
    pub big_endian: bool,
    /// The length on the wire precedes the captured length.
    pub lengths_swapped: bool,
    /// The smaller length is the captured one.
    pub lengths_unordered: bool,
    /// Bytes of a record header.
    pub header_size: usize,
    /// Nanoseconds of the unit of the second time field.
    pub fraction_ns: i64,
    /// Records of more bytes are checked in Python.
    pub usual: i64,
}

/// Bytes of the header of a pcap file.
pub const FILE_HEADER: usize = 24;
const MICROSECONDS: u32 = 0xA1B2_C3D4;
const NANOSECONDS: u32 = 0xA1B2_3C4D;
/// Records up to libpcap's limit are accepted, whatever the snapshot length.
const USUAL_RECORD: u32 = 262_144;
/// Bits of the link type.
const LINK_TYPE_BITS: u32 = 0x03FF_FFFF;

impl PcapLayout {
    /// The layout and the link type of a file of version 2.4 with this header; None: Python reads the header.
    ///
    /// As `Pcap` of ikeanalyze/capture/formats/pcap.py.
    pub fn parse(header: &[u8; FILE_HEADER]) -> Option<(Self, u32)> {
        let big_endian = matches!(word(header, 0, true)?, MICROSECONDS | NANOSECONDS);
        let field = |index: usize| word(header, 4 * index, big_endian);
        let fraction_ns = match field(0)? {
            MICROSECONDS => 1000,
            NANOSECONDS => 1,
            _ => return None,
        };
        let version = if big_endian { 0x0002_0004 } else { 0x0004_0002 };
        let layout = Self {
            big_endian,
            lengths_swapped: false,
            lengths_unordered: false,
            header_size: 16,
            fraction_ns,
            usual: field(4)?.max(USUAL_RECORD).into(),
        };
        (field(1)? == version).then_some((layout, field(5)? & LINK_TYPE_BITS))
    }
}

/// Complete records, as columns of one length.
#[derive(Debug, Default, PartialEq)]
pub struct Records {
    /// Position of the frame's first byte.
    pub offset: Vec<i64>,
    pub captured: Vec<i64>,
    /// Bytes on the wire, at least `captured`.
    pub length: Vec<i64>,
    pub time_ns: Vec<i64>,
    /// Position after the last complete record.
    pub stop: usize,
}

impl Records {
    /// Remove the records whose headers begin at `limit` or after it.
    pub fn truncate(&mut self, limit: usize, header_size: usize) {
        let kept = self
            .offset
            .partition_point(|&offset| (offset as usize) < limit.saturating_add(header_size));
        if let Some(&first) = self.offset.get(kept) {
            self.stop = (first as usize).saturating_sub(header_size);
        }
        self.offset.truncate(kept);
        self.captured.truncate(kept);
        self.length.truncate(kept);
        self.time_ns.truncate(kept);
    }
}

/// The complete records of `data[start..end]`; None if one has a header that Python must check.
///
/// As `Pcap.walk` of ikeanalyze/capture/formats/pcap.py.
pub fn walk_pcap(data: &[u8], start: usize, end: usize, layout: &PcapLayout) -> Option<Records> {
    let data = data.get(..end)?;
    let mut records = Records::default();
    let mut at = start;
    let field = |at: usize, index: usize| word(data, at + 4 * index, layout.big_endian).map(i64::from);
    while at.checked_add(layout.header_size)? <= end {
        let (mut captured, mut length) = (field(at, 2)?, field(at, 3)?);
        if layout.lengths_swapped || (layout.lengths_unordered && captured > length) {
            (captured, length) = (length, captured);
        }
        let frame = at + layout.header_size;
        if captured > (end - frame) as i64 {
            break;
        }
        if captured > layout.usual || captured == 0 {
            return None;
        }
        records.offset.push(frame as i64);
        records.captured.push(captured);
        records.length.push(captured.max(length));
        records
            .time_ns
            .push(field(at, 0)? * 1_000_000_000 + field(at, 1)? * layout.fraction_ns);
        at = frame + captured as usize;
    }
    records.stop = at;
    Some(records)
}

/// Bytes of the longest valid packet (MAX_RECORD of ikeanalyze/capture/formats/records.py).
const MAX_RECORD: i64 = 16 << 20;
/// Number of plausible record headers in sequence that identify a record.
const CHAIN: usize = 64;
/// The number that suffices if the data ends before.
const MIN_CHAIN: usize = 8;
/// Positions that are tried: a record of usual size begins at one of them.
const GUESSES: usize = 262_144;

/// The position of the first record in a part of a pcap file: one that is followed by many plausible records.
///
/// As `Pcap.guess` of ikeanalyze/capture/formats/pcap.py.
pub fn guess_record(data: &[u8], layout: &PcapLayout) -> Option<usize> {
    (0..data.len().min(GUESSES)).find(|&at| begins_chain(data, at, layout))
}

/// Whether plausible records follow each other from this position on.
#[inline(always)]
fn begins_chain(data: &[u8], mut at: usize, layout: &PcapLayout) -> bool {
    for count in 0..CHAIN {
        if at.saturating_add(layout.header_size) > data.len() {
            return count >= MIN_CHAIN;
        }
        let Some(captured) = read_plausible_length(data, at, layout) else {
            return false;
        };
        at = at.saturating_add(layout.header_size).saturating_add(captured);
    }
    true
}

/// The captured length in the record header at this position; None if the header is not plausible.
#[inline(always)]
fn read_plausible_length(data: &[u8], at: usize, layout: &PcapLayout) -> Option<usize> {
    let field = |index: usize| word(data, at + 4 * index, layout.big_endian).map(i64::from);
    let (mut captured, mut length) = (field(2)?, field(3)?);
    if layout.lengths_swapped || (layout.lengths_unordered && captured > length) {
        (captured, length) = (length, captured);
    }
    let plausible = 0 < captured && captured <= length.min(layout.usual) && length <= MAX_RECORD;
    (plausible && field(1)? * layout.fraction_ns < 1_000_000_000).then_some(captured as usize)
}

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Other blocks to which Wireshark gives frame numbers: entries of the systemd journal, custom blocks.
const NUMBERED_BLOCKS: [u32; 3] = [9, 0x0BAD, 0x4000_0BAD];

/// The positions of the packet blocks in `data[at..end]` before the next block that Python must decode, and that
/// block's position. `numbered`: Python must decode `NUMBERED_BLOCKS` too.
///
/// As `Pcapng._find_packet_blocks` of ikeanalyze/capture/formats/pcapng.py.
pub fn find_packet_blocks(
    data: &[u8],
    mut at: usize,
    end: usize,
    big_endian: bool,
    numbered: bool,
) -> (Vec<i64>, usize) {
    let mut positions = Vec::new();
    let data = data.get(..end).unwrap_or(data);
    while let Some(next) = skip_block(data, at, big_endian, numbered, &mut positions) {
        at = next;
    }
    (positions, at)
}

/// The position after a block, which is added if it is a packet; None if it is incomplete or Python must decode it.
#[inline(always)]
fn skip_block(data: &[u8], at: usize, big_endian: bool, numbered: bool, positions: &mut Vec<i64>) -> Option<usize> {
    let claimed = word(data, at.checked_add(4)?, big_endian)?;
    let kind = word(data, at, big_endian)?;
    // some writers forget the padding of the packet in the block's length
    let size = (claimed as usize).checked_add(3)? & !3;
    let next = at.checked_add(size)?;
    if next > data.len() {
        return None;
    }
    let shortest = match kind {
        ENHANCED_PACKET | OBSOLETE_PACKET => 32,
        SIMPLE_PACKET => 16,
        SECTION | INTERFACE => return None,
        _ if numbered && NUMBERED_BLOCKS.contains(&kind) => return None,
        _ => 12,
    };
    if size < shortest {
        return None;
    }
    if matches!(kind, ENHANCED_PACKET | OBSOLETE_PACKET | SIMPLE_PACKET) {
        positions.push(at as i64);
    } else {
        let trailer = word(data, next - 4, big_endian)?;
        if trailer as usize != size && trailer != claimed {
            return None;
        }
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: PcapLayout = PcapLayout {
        big_endian: false,
        lengths_swapped: false,
        lengths_unordered: false,
        header_size: 16,
        fraction_ns: 1000,
        usual: 100,
    };

    fn record(captured: u32, length: u32) -> Vec<u8> {
        let header = [1, 2, captured, length].map(u32::to_le_bytes).concat();
        [header, vec![0xAA; captured as usize]].concat()
    }

    #[test]
    fn an_incomplete_record_ends_the_walk() {
        let data = [record(3, 60), record(4, 4), record(5, 5)].concat();
        for cut in 1..21 {
            let records = walk_pcap(&data, 0, data.len() - cut, &LAYOUT).unwrap();
            assert_eq!(records.offset, [16, 35]);
            assert_eq!(records.captured, [3, 4]);
            assert_eq!(records.length, [60, 4]);
            assert_eq!(records.time_ns, [1_000_002_000; 2]);
            assert_eq!(records.stop, 39);
        }
    }

    #[test]
    fn empty_and_long_records_are_checked_in_python() {
        for captured in [0, 101] {
            let data = [record(3, 3), record(captured, 200)].concat();
            assert_eq!(walk_pcap(&data, 0, data.len(), &LAYOUT), None);
        }
    }

    #[test]
    fn a_record_is_guessed_by_those_that_follow() {
        let one = record(60, 60);
        for begin in 0..one.len() {
            let data = &one.repeat(MIN_CHAIN + 1)[begin..];
            let expected = if begin == 0 { 0 } else { one.len() - begin };
            assert_eq!(guess_record(data, &LAYOUT), Some(expected));
        }
        assert_eq!(guess_record(&one.repeat(MIN_CHAIN - 1), &LAYOUT), None);
        assert_eq!(guess_record(&[], &LAYOUT), None);
    }

    #[test]
    fn a_length_beyond_the_file_ends_the_walk() {
        let data = [record(3, 3), [1, 2, u32::MAX - 7, 3].map(u32::to_le_bytes).concat()].concat();
        assert_eq!(walk_pcap(&data, 0, data.len(), &LAYOUT).unwrap().stop, 19);
    }
}
