//! Finds the IKE messages in frames without tunnels, IP fragments and the like, and counts other packets.
//!
//! What the modules of ikeanalyze/capture/decode do for these packets, which are nearly all of a usual capture. Every
//! other packet is handed back: `None` in place of its verdict. So is each that is cut off inside a header.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

use super::bytes::{address, be16, be32, be64, u8_at};

/// Numbers of the categories, those of PacketCategory in ikeanalyze/capture/accounting.py.
const IKE: u8 = 0;
pub const ESP: u8 = 1;
const NAT_KEEPALIVE: u8 = 3;
const ICMP: u8 = 7;
pub const OTHER: u8 = 8;
/// Categories of packets.
pub const CATEGORIES: usize = 10;

/// Flags of a port.
pub const PORT_500: u8 = 1;
pub const PORT_4500: u8 = 2;
pub const PORT_EXTRA: u8 = 4;
/// A datagram to or from this port is handed back.
pub const PORT_EITHER: u8 = 8;
/// A datagram to this port is handed back.
pub const PORT_DESTINATION: u8 = 16;
/// A TCP segment to or from this port is handed back.
pub const PORT_TCP: u8 = 32;

/// What to do with an IP protocol; smaller numbers are the category of its packets.
pub const PROTOCOL_ICMP: u8 = 251;
pub const PROTOCOL_ICMPV6: u8 = 252;
pub const PROTOCOL_UDP: u8 = 253;
pub const PROTOCOL_TCP: u8 = 254;
pub const PROTOCOL_HAND_BACK: u8 = 255;

/// Types that are errors about the delivery of a packet, those of ikeanalyze/capture/protocol_numbers.py: Python reads
/// what they quote.
const ICMP_ERRORS: [u8; 2] = [3, 11];
const ICMPV6_ERRORS: [u8; 3] = [1, 2, 3];

/// What to do with an EtherType.
pub const ETHERTYPE_OTHER: u8 = 0;
pub const ETHERTYPE_IPV4: u8 = 1;
pub const ETHERTYPE_IPV6: u8 = 2;
pub const ETHERTYPE_VLAN: u8 = 3;
pub const ETHERTYPE_HAND_BACK: u8 = 255;

/// `ip_id` of packets without identification.
const NO_IDENT: u32 = u32::MAX;
/// Codes of IPv6 addresses begin here.
pub const FIRST_IPV6: u64 = 1 << 32;

const IKE_HEADER: usize = 28;
/// After the fragment number and total in the first payload (RFC 7383, section 2.5).
const FRAGMENT_END: usize = IKE_HEADER + 8;
const PAYLOAD_SK: u8 = 46;
const PAYLOAD_SKF: u8 = 53;
const PAYLOAD_IKEV1_FRAGMENT: u8 = 132;
/// Exchange types whose messages are in the clear: IKE_SA_INIT, IKE_SESSION_RESUME.
const INITS: [u8; 2] = [34, 38];
/// A message with more payloads before an encrypted one is hostile.
const MAX_CLEAR_PAYLOADS: usize = 16;

/// The link layer of an interface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link {
    /// An EtherType at an offset in a header of a size.
    EtherType { size: usize, at: usize },
    /// An IP packet of either version.
    Raw,
    /// Its packets are handed back.
    HandBack,
}

/// What to do with numbers in headers; see `header_rules`.
pub struct Tables<'a> {
    /// By interface.
    pub links: &'a [Link],
    /// By EtherType. (65536,)
    pub ethertypes: &'a [u8],
    /// By IP protocol. (256,)
    pub protocols: &'a [u8],
    /// By port. (65536,)
    pub ports: &'a [u8],
}

/// Packets in file order, as columns of one length.
pub struct Packets<'a> {
    pub data: &'a [u8],
    pub offset: &'a [i64],
    pub captured: &'a [i64],
    pub length: &'a [i64],
    pub time_ns: &'a [i64],
    pub interface: &'a [u32],
}

/// An IPv4 or IPv6 address.
#[derive(Clone, Copy, Debug)]
pub enum Address {
    V4(u32),
    V6([u8; 16]),
}

/// An IKE message in a frame.
struct Message {
    source: Address,
    destination: Address,
    source_port: u16,
    destination_port: u16,
    encapsulation: u8,
    ttl: u8,
    ident: u32,
    /// Positions in the frame.
    begin: usize,
    end: usize,
    version: u8,
    fragment: u16,
    fragments: u16,
}

enum Verdict {
    Category(u8),
    Ike(Message),
}

/// The header fields of an IP packet that are needed, and the positions of its payload in the frame.
struct Ip {
    source: Address,
    destination: Address,
    protocol: u8,
    ttl: u8,
    ident: u32,
    at: usize,
    /// After the last captured byte.
    end: usize,
    /// After the last byte on the wire.
    wire_end: usize,
}

/// Rows of the frames table with a message, as columns of one length, and what else the packets were.
#[derive(Default)]
pub struct Scan {
    /// Index of the packet.
    pub row: Vec<i64>,
    pub encapsulation: Vec<u8>,
    pub source: Vec<u64>,
    pub source_port: Vec<u16>,
    pub destination: Vec<u64>,
    pub destination_port: Vec<u16>,
    pub ttl: Vec<u8>,
    pub ip_id: Vec<u32>,
    pub digest: Vec<u64>,
    pub protocol: Vec<u8>,
    pub spi_i: Vec<u64>,
    pub spi_r: Vec<u64>,
    pub next_payload: Vec<u8>,
    pub exchange_type: Vec<u8>,
    pub flags: Vec<u8>,
    pub message_id: Vec<u32>,
    pub ike_bytes: Vec<u32>,
    pub fragment: Vec<u16>,
    pub fragments: Vec<u16>,
    /// The message in the buffer.
    pub begin: Vec<i64>,
    pub end: Vec<i64>,
    /// Its payloads can be read without keys.
    pub clear: Vec<bool>,
    pub number: Vec<u32>,
    pub time_ns: Vec<i64>,
    pub interface: Vec<u32>,
    pub bytes: Vec<u32>,
    pub captured: Vec<u32>,
    /// Packets and bytes by category.
    pub packets: [i64; CATEGORIES],
    pub total: [i64; CATEGORIES],
    /// IPv6 addresses: FIRST_IPV6 and the index here are its code.
    pub ipv6: Vec<[u8; 16]>,
    /// Indexes of packets that are handed back.
    pub rest: Vec<i64>,
    codes: HashMap<[u8; 16], u64>,
}

impl Scan {
    /// Make room for so many further rows of `append`, if there is so much memory.
    pub fn reserve(&mut self, rows: usize) {
        macro_rules! reserve {
            ($($name:ident),*) => { $(let _ = self.$name.try_reserve_exact(rows);)* };
        }
        reserve!(number, time_ns, bytes, captured, encapsulation);
        reserve!(source, source_port, destination, destination_port, ttl, ip_id, digest);
        reserve!(protocol, spi_i, spi_r, next_payload, exchange_type, flags, message_id);
        reserve!(ike_bytes, fragment, fragments);
    }

    /// The code of an address, which is added to those of IPv6.
    pub fn code(&mut self, address: Address) -> u64 {
        match address {
            Address::V4(number) => number.into(),
            Address::V6(bytes) => {
                let next = FIRST_IPV6 + self.ipv6.len() as u64;
                let code = *self.codes.entry(bytes).or_insert(next);
                if code == next {
                    self.ipv6.push(bytes);
                }
                code
            }
        }
    }

    /// The address of a code; None if it has none.
    pub fn address(&self, code: u64) -> Option<Address> {
        match u32::try_from(code) {
            Ok(number) => Some(Address::V4(number)),
            Err(_) => self
                .ipv6
                .get((code - FIRST_IPV6) as usize)
                .map(|&bytes| Address::V6(bytes)),
        }
    }

    /// Remove all rows, addresses and counts, and keep the memory.
    pub fn clear(&mut self) {
        macro_rules! clear {
            ($($name:ident),*) => { $(self.$name.clear();)* };
        }
        clear!(
            row,
            begin,
            end,
            clear,
            number,
            time_ns,
            interface,
            bytes,
            captured,
            encapsulation
        );
        clear!(source, source_port, destination, destination_port, ttl, ip_id, digest);
        clear!(protocol, spi_i, spi_r, next_payload, exchange_type, flags, message_id);
        clear!(ike_bytes, fragment, fragments, ipv6, rest, codes);
        self.packets = [0; CATEGORIES];
        self.total = [0; CATEGORIES];
    }

    /// Add the rows of another scan, whose packets have numbers from 0; `first` is the number of its first packet.
    ///
    /// Its `row`, `begin`, `end`, `clear`, `interface` and `rest` are left out.
    pub fn append(&mut self, other: &Scan, first: u32) {
        macro_rules! append {
            ($($name:ident),*) => { $(self.$name.extend_from_slice(&other.$name);)* };
        }
        append!(
            time_ns,
            bytes,
            captured,
            encapsulation,
            source_port,
            destination_port,
            ttl,
            ip_id,
            digest
        );
        append!(protocol, spi_i, spi_r, next_payload, exchange_type, flags, message_id);
        append!(ike_bytes, fragment, fragments);
        self.number
            .extend(other.number.iter().map(|number| first.wrapping_add(*number)));
        if other.ipv6.is_empty() {
            append!(source, destination);
        } else {
            let codes: Vec<u64> = other.ipv6.iter().map(|&bytes| self.code(Address::V6(bytes))).collect();
            let translate = |&code: &u64| match code.checked_sub(FIRST_IPV6) {
                Some(index) => codes.get(index as usize).copied().unwrap_or(code),
                None => code,
            };
            self.source.extend(other.source.iter().map(translate));
            self.destination.extend(other.destination.iter().map(translate));
        }
        for (count, more) in self.packets.iter_mut().zip(other.packets) {
            *count += more;
        }
        for (count, more) in self.total.iter_mut().zip(other.total) {
            *count += more;
        }
    }

    /// Add the row of a message; None if its frame is too short, which the verdict excludes.
    fn add(&mut self, frame: &[u8], message: &Message) -> Option<()> {
        let data = frame.get(message.begin..message.end)?;
        let (next, flags) = (u8_at(data, 16)?, u8_at(data, 19)?);
        let (spi_i, spi_r) = (be64(data, 0)?, be64(data, 8)?);
        let (exchange, id, length) = (u8_at(data, 18)?, be32(data, 20)?, be32(data, 24)?);
        let v2 = message.version == 2;
        self.encapsulation.push(message.encapsulation);
        let (source, destination) = (self.code(message.source), self.code(message.destination));
        self.source.push(source);
        self.source_port.push(message.source_port);
        self.destination.push(destination);
        self.destination_port.push(message.destination_port);
        self.ttl.push(message.ttl);
        self.ip_id.push(message.ident);
        self.digest.push(xxh3_64(data));
        self.protocol.push(u8::from(!v2)); // Protocol.IKEV2 or IKEV1
        self.spi_i.push(spi_i);
        self.spi_r.push(spi_r);
        self.next_payload.push(next);
        self.exchange_type.push(exchange);
        self.flags.push(flags);
        self.message_id.push(id);
        self.ike_bytes.push(length);
        self.fragment.push(message.fragment);
        self.fragments.push(message.fragments);
        self.clear.push(if v2 {
            next != PAYLOAD_SK && next != PAYLOAD_SKF
        } else {
            flags & 1 == 0
        });
        Some(())
    }
}

/// Find the messages of the packets; `first` is the number of the first one.
pub fn scan(packets: &Packets, tables: &Tables, first: u32) -> Scan {
    let mut result = Scan::default();
    result.extend(packets, tables, first);
    result
}

impl Scan {
    /// Add the messages of the packets; `first` is the number of the first one.
    pub fn extend(&mut self, packets: &Packets, tables: &Tables, first: u32) {
        let columns = packets.offset.iter().zip(packets.captured).zip(packets.length);
        let columns = columns.zip(packets.time_ns).zip(packets.interface);
        for (index, ((((&offset, &captured), &length), &time_ns), &interface)) in columns.enumerate() {
            let judged = get_frame(packets.data, offset, captured, length).and_then(|frame| {
                let link = *tables.links.get(interface as usize)?;
                let verdict = classify(frame, length as usize, link, tables)?;
                if let Verdict::Ike(message) = &verdict {
                    self.add(frame, message)?;
                    self.row.push(index as i64);
                    self.begin.push(offset + message.begin as i64);
                    self.end.push(offset + message.end as i64);
                    self.number.push(first.wrapping_add(index as u32));
                    self.time_ns.push(time_ns);
                    self.interface.push(interface);
                    self.bytes.push(length as u32);
                    self.captured.push(captured as u32);
                }
                Some(verdict)
            });
            let category = judged.map_or(CATEGORIES, |verdict| match verdict {
                Verdict::Category(category) => category.into(),
                Verdict::Ike(_) => IKE.into(),
            });
            match (self.packets.get_mut(category), self.total.get_mut(category)) {
                (Some(packets), Some(total)) => {
                    *packets += 1;
                    *total += length;
                }
                _ => self.rest.push(index as i64),
            }
        }
    }
}

/// The captured bytes of a frame; None if its lengths are not possible.
#[inline(always)]
fn get_frame(data: &[u8], offset: i64, captured: i64, length: i64) -> Option<&[u8]> {
    if captured > length || length > u32::MAX.into() {
        return None;
    }
    let begin = usize::try_from(offset).ok()?;
    data.get(begin..begin.checked_add(usize::try_from(captured).ok()?)?)
}

/// What a frame of `length` bytes on the wire is; None: Python decides.
#[inline(always)]
fn classify(frame: &[u8], length: usize, link: Link, tables: &Tables) -> Option<Verdict> {
    let (at, version) = match link {
        Link::EtherType { size, at } => {
            let mut inside = size;
            let mut kind = be16(frame, at)?;
            // a number up to 1500 is the length of an LLC frame
            while kind > 1500 && *tables.ethertypes.get(usize::from(kind))? == ETHERTYPE_VLAN {
                kind = be16(frame, inside.checked_add(2)?)?;
                inside += 4;
            }
            if inside >= frame.len() || kind <= 1500 {
                return None;
            }
            match *tables.ethertypes.get(usize::from(kind))? {
                ETHERTYPE_OTHER => return Some(Verdict::Category(OTHER)),
                ETHERTYPE_IPV4 => (inside, 4),
                ETHERTYPE_IPV6 => (inside, 6),
                _ => return None,
            }
        }
        Link::Raw => (0, u8_at(frame, 0)? >> 4),
        Link::HandBack => return None,
    };
    let ip = match version {
        4 => read_ipv4(frame, length, at)?,
        6 => read_ipv6(frame, length, at)?,
        _ => return None,
    };
    match *tables.protocols.get(usize::from(ip.protocol))? {
        PROTOCOL_UDP => classify_udp(frame, ip, tables),
        PROTOCOL_TCP => {
            let ports = [be16(frame, ip.at)?, be16(frame, ip.at + 2)?];
            if ip.at + 4 > ip.end || has_flag(tables, ports, PORT_TCP)? {
                return None;
            }
            Some(Verdict::Category(OTHER))
        }
        PROTOCOL_ICMP => classify_icmp(frame, ip, &ICMP_ERRORS),
        PROTOCOL_ICMPV6 => classify_icmp(frame, ip, &ICMPV6_ERRORS),
        // a packet is counted as IKE only with its message
        PROTOCOL_HAND_BACK | IKE => None,
        category => Some(Verdict::Category(category)),
    }
}

fn has_flag(tables: &Tables, ports: [u16; 2], flag: u8) -> Option<bool> {
    let flags = tables.ports.get(usize::from(ports[0]))? | tables.ports.get(usize::from(ports[1]))?;
    Some(flags & flag != 0)
}

/// RFC 791; None for malformed headers and fragments.
#[inline(always)]
fn read_ipv4(frame: &[u8], length: usize, at: usize) -> Option<Ip> {
    let header = frame.get(at..at.checked_add(20)?)?;
    let first = u8_at(header, 0)?;
    let size = usize::from(first & 15) * 4;
    let total = usize::from(be16(header, 2)?);
    if first >> 4 != 4 || size < 20 || at + size > frame.len() || (total < size && total != 0) {
        return None;
    }
    if be16(header, 6)? & 0x3fff != 0 {
        return None; // more fragments, or an offset
    }
    let wire_end = if total == 0 { length } else { length.min(at + total) };
    Some(Ip {
        source: Address::V4(be32(header, 12)?),
        destination: Address::V4(be32(header, 16)?),
        protocol: u8_at(header, 9)?,
        ttl: u8_at(header, 8)?,
        ident: be16(header, 4)?.into(),
        at: at + size,
        end: wire_end.min(frame.len()),
        wire_end,
    })
}

/// RFC 8200; None for malformed headers. The protocols that are extension headers are handed back.
#[inline(always)]
fn read_ipv6(frame: &[u8], length: usize, at: usize) -> Option<Ip> {
    let header = frame.get(at..at.checked_add(40)?)?;
    if u8_at(header, 0)? >> 4 != 6 {
        return None;
    }
    let payload = usize::from(be16(header, 4)?);
    let wire_end = if payload == 0 {
        length
    } else {
        length.min(at + 40 + payload)
    };
    Some(Ip {
        source: Address::V6(address(header, 8)?),
        destination: Address::V6(address(header, 24)?),
        protocol: u8_at(header, 6)?,
        ttl: u8_at(header, 7)?,
        ident: NO_IDENT,
        at: at + 40,
        end: wire_end.min(frame.len()),
        wire_end,
    })
}

/// None for the types that are `errors`, and without a type.
fn classify_icmp(frame: &[u8], ip: Ip, errors: &[u8]) -> Option<Verdict> {
    let kind = u8_at(frame, ip.at)?;
    if errors.contains(&kind) {
        return None;
    }
    Some(Verdict::Category(ICMP))
}

#[inline(always)]
fn classify_udp(frame: &[u8], ip: Ip, tables: &Tables) -> Option<Verdict> {
    let at = ip.at.checked_add(8)?;
    if at > ip.end {
        return None;
    }
    let (source_port, destination_port) = (be16(frame, ip.at)?, be16(frame, ip.at + 2)?);
    let udp_length = usize::from(be16(frame, ip.at + 4)?);
    if udp_length < 8 && udp_length != 0 {
        return None;
    }
    let destination_flags = *tables.ports.get(usize::from(destination_port))?;
    let flags = tables.ports.get(usize::from(source_port))? | destination_flags;
    if flags & (PORT_500 | PORT_4500 | PORT_EXTRA) == 0 {
        let hand_back = flags & PORT_EITHER != 0 || destination_flags & PORT_DESTINATION != 0;
        return if hand_back {
            None
        } else {
            Some(Verdict::Category(OTHER))
        };
    }
    let wire_end = if udp_length == 0 {
        ip.wire_end
    } else {
        ip.wire_end.min(ip.at + udp_length)
    };
    let end = ip.end.min(wire_end);
    let (size, captured) = (wire_end.checked_sub(at)?, end.checked_sub(at)?);
    if size == 0 || captured < size.min(4) {
        return None;
    }
    let plain = flags & (PORT_500 | PORT_EXTRA) != 0;
    let with_marker = flags & (PORT_4500 | PORT_EXTRA) != 0;
    let marked = with_marker && size >= 4 && be32(frame, at)? == 0;
    if size == 1 && u8_at(frame, at)? == 0xff {
        return Some(Verdict::Category(NAT_KEEPALIVE));
    }
    let is_ike = marked || (plain && (!with_marker || is_plausible(frame, at, end, wire_end)));
    if !is_ike {
        return if size < 8 { None } else { Some(Verdict::Category(ESP)) };
    }
    let begin = if marked { at + 4 } else { at };
    if begin + IKE_HEADER > end {
        return None;
    }
    let (next, version) = (u8_at(frame, begin + 16)?, u8_at(frame, begin + 17)? >> 4);
    let length = be32(frame, begin + 24)? as usize;
    if !(version == 1 || version == 2) || length < IKE_HEADER || begin.checked_add(length)? != wire_end {
        return None; // malformed, or with a warning
    }
    let (mut fragment, mut fragments) = (0, 0);
    if version == 2 && next == PAYLOAD_SKF {
        if length < FRAGMENT_END || begin + FRAGMENT_END > end {
            return None;
        }
        (fragment, fragments) = (be16(frame, begin + 32)?, be16(frame, begin + 34)?);
        if fragment == 0 || fragment > fragments {
            return None;
        }
    } else if (version == 1 && next == PAYLOAD_IKEV1_FRAGMENT)
        || (version == 2 && has_later_fragment(&frame[begin..end.min(begin + length)], next))
    {
        return None;
    }
    let on_500 = flags & PORT_500 != 0;
    let encapsulation = if flags & PORT_4500 != 0 && (!on_500 || marked) {
        1 // Encapsulation.UDP_4500
    } else if on_500 {
        0 // UDP_500
    } else {
        3 // UDP
    };
    Some(Verdict::Ike(Message {
        source: ip.source,
        destination: ip.destination,
        source_port,
        destination_port,
        encapsulation,
        ttl: ip.ttl,
        ident: ip.ident,
        begin,
        end: end.min(begin + length),
        version,
        fragment,
        fragments,
    }))
}

/// Whether a message of IKEv2 has an Encrypted Fragment payload after clear ones (RFC 7383, section 2.5.3).
fn has_later_fragment(message: &[u8], first: u8) -> bool {
    let (mut kind, mut at) = (first, IKE_HEADER);
    if INITS.contains(&message[18]) {
        return false;
    }
    for _ in 0..MAX_CLEAR_PAYLOADS {
        if kind == 0 || kind == PAYLOAD_SK {
            return false;
        }
        let (Some(next), Some(size)) = (u8_at(message, at), be16(message, at + 2)) else {
            return false;
        };
        (kind, at) = (next, at + usize::from(size).max(4));
        if kind == PAYLOAD_SKF {
            return true;
        }
    }
    false
}

/// Whether a datagram without marker, on a port where it can be IKE or ESP, begins with an IKE header.
fn is_plausible(frame: &[u8], at: usize, end: usize, wire_end: usize) -> bool {
    let check = || {
        let major = u8_at(frame, at + 17)? >> 4;
        let length = be32(frame, at + 24)? as usize;
        let fits = at + IKE_HEADER <= end && at.checked_add(length)? == wire_end;
        Some(fits && (major == 1 || major == 2) && be64(frame, at)? != 0)
    };
    check().unwrap_or(false)
}
