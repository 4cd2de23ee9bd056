//! The encrypted payload of a message: SK (RFC 7296, section 3.14) or SKF (RFC 7383, section 2.5).

use super::ciphers::{Direction, Sizes};

/// Bytes of the IKE header, which each message with an encrypted payload has.
pub const HEADER: usize = 28;
const PAYLOAD_HEADER: usize = 4;
const FRAGMENT_NUMBERS: usize = 4;
const SK: u8 = 46;
const SKF: u8 = 53;
const FLAG_RESPONSE: u8 = 0x20;
/// All flags of a payload but the critical bit.
const RESERVED_FLAGS: u8 = 0x7f;
/// The payload types of IKEv2, without that of no payload.
const PAYLOAD_TYPES: std::ops::RangeInclusive<u8> = 33..=54;
/// The pad length is one byte.
const MAX_PADDING: usize = 255;

/// Position of the encrypted payload in a message.
pub struct EncryptedPayload {
    /// Bytes of the message, up to the end of this payload.
    pub length: usize,
    /// Offset of the IV.
    pub start: usize,
    /// Type of the first payload inside.
    pub first: u8,
    /// Fragment number and total fragments; (1, 1): not fragmented.
    pub fragment: (usize, usize),
    pub message_id: u32,
    pub response: bool,
}

fn read_u16(data: &[u8], at: usize) -> Option<usize> {
    let bytes = data.get(at..at + 2)?;
    Some(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
}

fn read_u32(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at + 4)?;
    Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// Find the encrypted payload of a complete IKEv2 message; None if it has none or is incomplete.
pub fn find_encrypted_payload(message: &[u8]) -> Option<EncryptedPayload> {
    let length = usize::try_from(read_u32(message, 24)?).ok()?;
    if message[17] >> 4 != 2 || length > message.len() || length < HEADER {
        return None;
    }
    let data = &message[..length];
    let (mut kind, mut start) = (data[16], HEADER);
    while kind != SK && kind != SKF {
        if kind == 0 {
            return None;
        }
        let size = read_u16(data, start + 2)?;
        if size < PAYLOAD_HEADER {
            return None;
        }
        kind = data[start];
        start += size;
        if start > length {
            return None;
        }
    }
    let size = read_u16(data, start + 2)?;
    if start + size != length {
        return None;
    }
    let first = data[start];
    start += PAYLOAD_HEADER;
    let mut fragment = (1, 1);
    if kind == SKF {
        let (number, total) = (read_u16(data, start)?, read_u16(data, start + 2)?);
        if number < 1 || number > total {
            return None;
        }
        fragment = (number, total);
        start += FRAGMENT_NUMBERS;
    }
    Some(EncryptedPayload {
        length,
        start,
        first,
        fragment,
        message_id: read_u32(data, 20)?,
        response: data[19] & FLAG_RESPONSE != 0,
    })
}

impl EncryptedPayload {
    /// Append the plaintext without padding to `out`; false: the key is wrong, and `out` is unchanged.
    pub fn decrypt(&self, message: &[u8], direction: &dyn Direction, sizes: Sizes, out: &mut Vec<u8>) -> bool {
        let iv_end = self.start + sizes.iv;
        let Some(end) = self.length.checked_sub(sizes.icv) else {
            return false;
        };
        if end <= iv_end || (end - iv_end) % sizes.block != 0 {
            return false;
        }
        let (before, size) = (out.len(), end - iv_end);
        if !direction.decrypt(&message[..self.length], self.start, iv_end, end, out) {
            return false;
        }
        let padding = usize::from(out[out.len() - 1]);
        if padding >= size {
            out.truncate(before);
            return false;
        }
        out.truncate(before + size - 1 - padding);
        if !direction.is_aead() && self.is_garbage(&out[before..]) {
            out.truncate(before);
            return false;
        }
        true
    }

    /// Whether decrypted bytes do not begin with a payload: is_garbage of ikeanalyze/crypto/sk_payload.py.
    fn is_garbage(&self, plaintext: &[u8]) -> bool {
        let (number, total) = self.fragment;
        if number > 1 {
            return false;
        }
        if self.first == 0 || plaintext.is_empty() {
            return false;
        }
        if plaintext.len() < PAYLOAD_HEADER {
            return true;
        }
        let most = if total == 1 {
            plaintext.len()
        } else {
            (plaintext.len() + MAX_PADDING) * total
        };
        let size = read_u16(plaintext, 2).unwrap_or_default();
        let is_known = plaintext[0] == 0 || PAYLOAD_TYPES.contains(&plaintext[0]);
        let errors = [
            !is_known,
            plaintext[1] & RESERVED_FLAGS != 0,
            size < PAYLOAD_HEADER || size > most,
        ];
        errors.into_iter().filter(|&error| error).count() > 1
    }
}
