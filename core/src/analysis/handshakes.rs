//! What the datagrams of each handshake tell about it (ikeanalyze/analysis/exchanges/datagram_summary.py).

/// Members of `Protocol` of ikeanalyze/capture/decode/classify.py.
const IKEV1: u8 = 1;
const HIP: u8 = 3;
/// RFC 7296, 3.1 and 3.2: the response flag, the exchange types of the first messages, and the payload type Notify.
const RESPONSE: u8 = 0x20;
const IKE_SA_INIT: u8 = 34;
const IKE_SESSION_RESUME: u8 = 38;
const NOTIFY: u8 = 41;
/// `I1_R1` of ikeanalyze/analysis/exchanges/hip_exchange_types.py.
const HIP_I1: u8 = 129;

/// The columns of the datagrams, all of one length, in order of time.
pub struct Datagrams<'a> {
    pub handshake: &'a [i32],
    pub from_initiator: &'a [bool],
    pub protocol: &'a [u8],
    pub exchange_type: &'a [u8],
    pub flags: &'a [u8],
    pub next_payload: &'a [u8],
    pub spi_r: &'a [u64],
}

/// Columns with one value for each handshake.
#[derive(Debug, PartialEq)]
pub struct Summary {
    /// Rows of the last IKE_SA_INIT request and response; -1: none. A late refusal does not replace a response.
    pub request: Vec<i64>,
    pub response: Vec<i64>,
    /// The responder's SPI: that of the encrypted messages, or else of its last response; 0: unknown.
    pub spi_r: Vec<u64>,
    /// The side whose messages alone are in the capture although the other side sent some too: 0, the initiator, or 1;
    /// -1: neither.
    pub one_sided: Vec<i8>,
}

/// What is known of a handshake, as bits.
const BY_INITIATOR: u8 = 1;
const BY_RESPONDER: u8 = 2;
const ANSWERED: u8 = 4;
/// The response is not a refusal.
const ACCEPTED: u8 = 8;
/// The SPI is that of a message after IKE_SA_INIT.
const LATER_SPI: u8 = 16;

/// Summarise the datagrams of each of `count` handshakes. None: a datagram belongs to none of them.
pub fn summarise(datagrams: &Datagrams, count: usize) -> Option<Summary> {
    let mut summary = Summary {
        request: vec![-1; count],
        response: vec![-1; count],
        spi_r: vec![0; count],
        one_sided: Vec::with_capacity(count),
    };
    let mut known = vec![0; count];
    for (row, &handshake) in datagrams.handshake.iter().enumerate() {
        let handshake = usize::try_from(handshake).ok()?;
        summary.add(handshake, known.get_mut(handshake)?, datagrams, row);
    }
    summary.one_sided.extend(known.iter().map(|known| {
        if known & BY_RESPONDER == 0 && known & ANSWERED != 0 {
            0
        } else {
            i8::from(known & (BY_INITIATOR | BY_RESPONDER) == BY_RESPONDER) * 2 - 1
        }
    }));
    Some(summary)
}

/// The row of the first datagram of each of `count` handshakes; 0 without one. None: a datagram belongs to none of them.
pub fn find_first_rows(handshake: &[i32], count: usize) -> Option<Vec<i64>> {
    let mut first = vec![0; count];
    for (row, &handshake) in handshake.iter().enumerate().rev() {
        *first.get_mut(usize::try_from(handshake).ok()?)? = row as i64;
    }
    Some(first)
}

impl Summary {
    #[inline(always)]
    fn add(&mut self, handshake: usize, known: &mut u8, datagrams: &Datagrams, row: usize) {
        let (protocol, exchange_type) = (datagrams.protocol[row], datagrams.exchange_type[row]);
        let is_init = matches!(exchange_type, IKE_SA_INIT | IKE_SESSION_RESUME);
        *known |= if datagrams.from_initiator[row] {
            BY_INITIATOR
        } else {
            BY_RESPONDER
        };
        let spi_r = datagrams.spi_r[row];
        if spi_r != 0 {
            *known |= ANSWERED;
            if !is_init || *known & LATER_SPI == 0 {
                self.spi_r[handshake] = spi_r;
            }
            if !is_init {
                *known |= LATER_SPI;
            }
        }
        if protocol == HIP && exchange_type != HIP_I1 {
            *known |= ANSWERED;
        }
        if !is_init || protocol == IKEV1 {
            return;
        }
        if datagrams.flags[row] & RESPONSE == 0 {
            self.request[handshake] = row as i64;
        } else if datagrams.next_payload[row] != NOTIFY {
            self.response[handshake] = row as i64;
            *known |= ACCEPTED;
        } else if *known & ACCEPTED == 0 {
            self.response[handshake] = row as i64;
        }
    }
}

/// Initial times to live of common systems (capture_point.py).
const INITIAL_TTLS: [u8; 3] = [64, 128, 255];
/// Sides of a capture (capture_point.py).
const INITIATOR: u8 = 0;
const RESPONDER: u8 = 1;
const UNKNOWN_VANTAGE: u8 = 2;

/// The side of the path on which each of `count` handshakes was captured, by the times to live. None: a datagram belongs
/// to none of them.
pub fn infer_capture_sides(handshake: &[i32], from_initiator: &[bool], ttl: &[u8], count: usize) -> Option<Vec<u8>> {
    // bits: the responder sent datagrams with a reduced TTL, and with an initial one; the same of the initiator
    let mut cases = vec![0_u8; count];
    for ((&handshake, &from_initiator), ttl) in handshake.iter().zip(from_initiator).zip(ttl) {
        let place = usize::from(from_initiator) << 1 | usize::from(INITIAL_TTLS.contains(ttl));
        *cases.get_mut(usize::try_from(handshake).ok()?)? |= 1 << place;
    }
    for case in &mut cases {
        *case = match *case {
            0b1001 => INITIATOR,
            0b0110 => RESPONDER,
            _ => UNKNOWN_VANTAGE,
        };
    }
    Some(cases)
}

/// Whether the responder of each of `count` handshakes sent something from a port. None: a datagram belongs to none of
/// them.
pub fn find_responders_on_port(
    handshake: &[i32],
    from_initiator: &[bool],
    source_port: &[u16],
    port: u16,
    count: usize,
) -> Option<Vec<bool>> {
    let mut found = vec![false; count];
    for ((&handshake, &from_initiator), &source_port) in handshake.iter().zip(from_initiator).zip(source_port) {
        *found.get_mut(usize::try_from(handshake).ok()?)? |= source_port == port && !from_initiator;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::{summarise, Datagrams, Summary};

    #[test]
    fn a_late_refusal_does_not_replace_a_response() {
        let datagrams = Datagrams {
            handshake: &[0, 0, 0, 0, 0],
            from_initiator: &[true, false, true, false, false],
            protocol: &[0; 5],
            exchange_type: &[34; 5],
            flags: &[8, 32, 8, 32, 32],
            next_payload: &[33, 41, 33, 33, 41],
            spi_r: &[0, 0, 0, 7, 0],
        };
        let expected = Summary {
            request: vec![2],
            response: vec![3],
            spi_r: vec![7],
            one_sided: vec![-1],
        };
        assert_eq!(summarise(&datagrams, 1), Some(expected));
        assert_eq!(summarise(&datagrams, 0), None);
    }

    #[test]
    fn a_side_may_be_missing() {
        let datagrams = Datagrams {
            handshake: &[0, 0, 1, 2],
            from_initiator: &[true, true, false, true],
            protocol: &[0; 4],
            exchange_type: &[34, 35, 34, 34],
            flags: &[8, 8, 32, 8],
            next_payload: &[33, 46, 33, 33],
            spi_r: &[0, 9, 5, 0],
        };
        let expected = Summary {
            request: vec![0, -1, 3],
            response: vec![-1, 2, -1],
            spi_r: vec![9, 5, 0],
            one_sided: vec![0, 1, -1],
        };
        assert_eq!(summarise(&datagrams, 3), Some(expected));
    }
}
