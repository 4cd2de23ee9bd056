//! Forms and NAT detection hashes of IKE_SA_INIT messages (ikeanalyze/analysis/exchanges/init_messages.py and nat.py).

use sha1::{Digest, Sha1};

/// Bytes of both SPIs, at the beginning of a message.
const SPIS: usize = 16;
/// Bytes of a hash.
const HASH: usize = 20;
/// Addresses from this one on are indexes of IPv6 addresses (FIRST_IPV6 of ikeanalyze/capture/decode/ip.py).
const FIRST_IPV6: u64 = 1 << 32;

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
        let address = *self.address.get(index)?;
        let mut hash = Sha1::new();
        hash.update(spis);
        if address < FIRST_IPV6 {
            hash.update((address as u32).to_be_bytes());
        } else {
            let place = usize::try_from(address - FIRST_IPV6).ok()?.checked_mul(16)?;
            hash.update(self.ipv6.get(place..place.checked_add(16)?)?);
        }
        hash.update(self.port.get(index)?.to_be_bytes());
        Some(hash.finalize().into())
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
