//! Forms and NAT detection hashes of IKE_SA_INIT messages (ikeanalyze/analysis/exchanges/init_messages.py and nat.py).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use sha1::{Digest, Sha1};

use crate::capture::bytes::{be16, be32, u8_at};
use crate::capture::file::{Endpoint, MessageReader, Reading};
use crate::capture::frames::Address;

/// Bytes of both SPIs, at the beginning of a message.
const SPIS: usize = 16;
/// Bytes of a hash.
const HASH: usize = 20;
/// Addresses from this one on are indexes of IPv6 addresses (FIRST_IPV6 of ikeanalyze/capture/decode/ip.py).
const FIRST_IPV6: u64 = 1 << 32;

/// Bytes of an IKE header, and of the generic header of a payload (RFC 7296, 3.1 and 3.2).
const HEADER: usize = 28;
const PAYLOAD_HEADER: usize = 4;
/// Messages of one length are compared with at most this many forms (_MAX_FORMS of init_messages.py).
const MAX_FORMS: usize = 64;
/// IKE_SA_INIT and IKE_SESSION_RESUME.
const INITS: [u8; 2] = [34, 38];
const PAYLOAD_KE: u8 = 34;
const PAYLOAD_CERTREQ: u8 = 38;
const PAYLOAD_NONCE: u8 = 40;
const PAYLOAD_NOTIFY: u8 = 41;
const PAYLOAD_SK: u8 = 46;
const PAYLOAD_SKF: u8 = 53;
const NAT_DETECTION_SOURCE_IP: u16 = 16388;
const NAT_DETECTION_DESTINATION_IP: u16 = 16389;
const COOKIE: u16 = 16390;

/// One form of messages: messages of one length that differ only in what varies from one IKE SA to the next.
struct Form {
    index: i64,
    sample: Vec<u8>,
    /// The bytes that all messages of the form share.
    ranges: Vec<Range<usize>>,
    /// Offsets of the NAT detection hashes of the sender and of the receiver.
    sources: Vec<usize>,
    destinations: Vec<usize>,
}

impl Form {
    /// The form of a message, as `_find_form_bytes` of init_messages.py and `locate_nat_hashes` of nat.py.
    fn new(index: usize, sample: &[u8]) -> Self {
        let mut form = Form {
            index: index as i64,
            sample: sample.to_vec(),
            ranges: Vec::new(),
            sources: Vec::new(),
            destinations: Vec::new(),
        };
        let mut shared = SPIS; // the bytes before are in `ranges`, or vary
        let end = be32(sample, 24).map_or(0, |length| (length as usize).min(sample.len()));
        let (mut at, mut kind) = (HEADER, sample.get(16).copied().unwrap_or(0));
        while kind != 0 {
            let Some((next, body)) = read_payload(sample, at, end) else {
                break;
            };
            let varying = match kind {
                PAYLOAD_NOTIFY => form.read_notify(body.clone()),
                PAYLOAD_KE => Some(body.start + 4),
                PAYLOAD_NONCE | PAYLOAD_CERTREQ => Some(body.start),
                _ => None,
            };
            if let Some(varying) = varying {
                form.add_range(shared..varying.min(body.end));
                shared = body.end;
            }
            if kind == PAYLOAD_SK || kind == PAYLOAD_SKF {
                break;
            }
            (at, kind) = (body.end, next);
        }
        form.add_range(shared..sample.len());
        form
    }

    fn add_range(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.ranges.push(range);
        }
    }

    /// Note the hash in a notify payload; where what varies begins in it.
    fn read_notify(&mut self, body: Range<usize>) -> Option<usize> {
        let kind = be16(&self.sample[..body.end], body.start + 2)?;
        let spi = usize::from(*self.sample.get(body.start + 1)?);
        let data = body.start + 4 + spi;
        let places = match kind {
            NAT_DETECTION_SOURCE_IP => Some(&mut self.sources),
            NAT_DETECTION_DESTINATION_IP => Some(&mut self.destinations),
            COOKIE => None,
            _ => return None,
        };
        if let (Some(places), Some(HASH)) = (places, body.end.checked_sub(data)) {
            places.push(data);
        }
        Some(body.start + 4)
    }

    fn fits(&self, message: &[u8]) -> bool {
        let mut ranges = self.ranges.iter();
        message.len() == self.sample.len() && ranges.all(|range| message[range.clone()] == self.sample[range.clone()])
    }

    /// What a message of this form says of its ends.
    fn read(&self, message: &[u8], sender: Endpoint, receiver: Endpoint) -> Option<Reading> {
        let spis = message.get(..SPIS)?;
        let compare = |places: &[usize], end: Endpoint| {
            if places.is_empty() {
                return Some(-1);
            }
            let expected = match end.address {
                Address::V4(number) => hash_end(spis, &number.to_be_bytes(), end.port),
                Address::V6(bytes) => hash_end(spis, &bytes, end.port),
            };
            let mut differs = true;
            for &place in places {
                differs &= *message.get(place..place + HASH)? != expected;
            }
            Some(i8::from(differs))
        };
        Some(Reading {
            form: self.index,
            sender_differs: compare(&self.sources, sender)?,
            receiver_differs: compare(&self.destinations, receiver)?,
        })
    }
}

/// The type of the next payload, and the body of the payload at an offset; None: the chain ends there.
fn read_payload(message: &[u8], at: usize, end: usize) -> Option<(u8, Range<usize>)> {
    let message = message.get(..end)?;
    let (next, length) = (u8_at(message, at)?, usize::from(be16(message, at + 2)?));
    let body = at + PAYLOAD_HEADER..at.checked_add(length)?;
    (length >= PAYLOAD_HEADER && body.end <= end).then_some((next, body))
}

/// The forms of IKE_SA_INIT messages that have been found so far.
#[derive(Default)]
pub struct InitForms(RwLock<Forms>);

#[derive(Default)]
struct Forms {
    forms: Vec<Form>,
    /// Indexes of the forms by the length of their messages.
    by_size: HashMap<usize, Vec<usize>>,
}

impl InitForms {
    /// A message of each form.
    pub fn samples(&self) -> Vec<Vec<u8>> {
        let forms = self.0.read().unwrap_or_else(PoisonError::into_inner);
        forms.forms.iter().map(|form| form.sample.clone()).collect()
    }
}

impl Forms {
    fn find(&self, message: &[u8]) -> Option<&Form> {
        let same_size = self.by_size.get(&message.len())?;
        let mut forms = same_size.iter().filter_map(|&index| self.forms.get(index));
        forms.find(|form| form.fits(message))
    }

    /// Add the form of a message; None: its length has the most forms.
    fn add(&mut self, message: &[u8]) -> Option<&Form> {
        let same_size = self.by_size.entry(message.len()).or_default();
        if same_size.len() >= MAX_FORMS {
            return None;
        }
        same_size.push(self.forms.len());
        self.forms.push(Form::new(self.forms.len(), message));
        self.forms.last()
    }
}

impl MessageReader for InitForms {
    fn read(&self, message: &[u8], sender: Endpoint, receiver: Endpoint) -> Option<Reading> {
        if !INITS.contains(message.get(18)?) {
            return None;
        }
        let forms = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(form) = forms.find(message) {
            return form.read(message, sender, receiver);
        }
        drop(forms);
        let mut forms = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // another thread may have added it meanwhile
        if let Some(form) = forms.find(message) {
            return form.read(message, sender, receiver);
        }
        forms.add(message)?.read(message, sender, receiver)
    }
}

/// The NAT detection hash of an end (RFC 7296, 2.23).
fn hash_end(spis: &[u8], address: &[u8], port: u16) -> [u8; HASH] {
    let mut hash = Sha1::new();
    hash.update(spis);
    hash.update(address);
    hash.update(port.to_be_bytes());
    hash.finalize().into()
}

/// Whether each message, which begins at this offset of the heap, has the bytes of the sample in the ranges from `low`
/// to `high`. None: a message or a range is outside of its buffer.
pub fn fit_form(heap: &[u8], begin: &[i64], sample: &[u8], low: &[i64], high: &[i64]) -> Option<Vec<bool>> {
    let mut ranges = Vec::with_capacity(low.len());
    for (&low, &high) in low.iter().zip(high) {
        let range = usize::try_from(low).ok()?..usize::try_from(high).ok()?;
        ranges.push((range.clone(), sample.get(range)?));
    }
    let fits = |&begin: &i64| {
        let message = get_bytes(heap, begin, sample.len())?;
        Some(ranges.iter().all(|(range, bytes)| message[range.clone()] == **bytes))
    };
    begin.iter().map(fits).collect()
}

/// The end of each message whose hash is compared: its address code, without the number of the capture, and its port.
pub struct Endpoints<'a> {
    pub address: &'a [u64],
    pub port: &'a [u16],
    pub ipv6: &'a [u8], // 16 bytes for each address
}

/// Whether the end of each message differs from all its hashes (RFC 7296, 2.23): 1 or 0.
///
/// `begin` is the offset of each message in the heap, `places` are the offsets of hashes in the messages. None: a
/// message, hash or address is outside of its buffer.
pub fn compare_nat_hashes(heap: &[u8], begin: &[i64], places: &[i64], ends: &Endpoints) -> Option<Vec<i8>> {
    let compare = |(index, &begin): (usize, &i64)| {
        let expected = ends.hash(get_bytes(heap, begin, SPIS)?, index)?;
        let mut differs = true;
        for &place in places {
            differs &= get_bytes(heap, begin.checked_add(place)?, HASH)? != expected;
        }
        Some(i8::from(differs))
    };
    begin.iter().enumerate().map(compare).collect()
}

impl Endpoints<'_> {
    fn hash(&self, spis: &[u8], index: usize) -> Option<[u8; HASH]> {
        let (address, port) = (*self.address.get(index)?, *self.port.get(index)?);
        if address < FIRST_IPV6 {
            return Some(hash_end(spis, &(address as u32).to_be_bytes(), port));
        }
        let place = usize::try_from(address - FIRST_IPV6).ok()?.checked_mul(16)?;
        Some(hash_end(spis, self.ipv6.get(place..place.checked_add(16)?)?, port))
    }
}

fn get_bytes(heap: &[u8], begin: i64, size: usize) -> Option<&[u8]> {
    let begin = usize::try_from(begin).ok()?;
    heap.get(begin..begin.checked_add(size)?)
}

#[cfg(test)]
mod tests {
    use super::{compare_nat_hashes, fit_form, Endpoints};

    #[test]
    fn only_the_ranges_of_a_form_are_compared() {
        let heap = b"abXXcdabYYcdabXXce";
        assert_eq!(
            fit_form(heap, &[0, 6, 12], b"ab..cd", &[0, 4], &[2, 6]),
            Some(vec![true, true, false])
        );
        assert_eq!(fit_form(heap, &[0], b"", &[], &[]), Some(vec![true]));
        assert_eq!(fit_form(heap, &[13], b"ab..cd", &[], &[]), None);
        assert_eq!(fit_form(heap, &[-1], b"ab..cd", &[], &[]), None);
    }

    #[test]
    fn hashes_outside_of_the_buffer_are_refused() {
        let ends = Endpoints {
            address: &[1 << 32],
            port: &[500],
            ipv6: &[0; 16],
        };
        assert_eq!(compare_nat_hashes(&[0; 36], &[0], &[16], &ends), Some(vec![1]));
        assert_eq!(compare_nat_hashes(&[0; 36], &[0], &[17], &ends), None);
        let unknown = Endpoints {
            address: &[(1 << 32) + 1],
            ..ends
        };
        assert_eq!(compare_nat_hashes(&[0; 36], &[0], &[16], &unknown), None);
    }
}
