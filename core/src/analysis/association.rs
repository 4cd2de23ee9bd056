//! IKE SAs of datagrams, by initiator SPI (ikeanalyze/analysis/messages/association.py).

use super::grouping::Numbering;

/// `Protocol` of ikeanalyze/capture/decode/classify.py.
const IKEV2: u8 = 0;
const IKEV1: u8 = 1;
/// RFC 7296, 3.1: the flags, and the exchange types of the first messages.
const INITIATOR: u8 = 0x08;
const RESPONSE: u8 = 0x20;
const IKE_SA_INIT: u8 = 34;
const IKE_SESSION_RESUME: u8 = 38;
/// RFC 2408, 3.1.
const IKEV1_INFORMATIONAL: u8 = 5;
/// `MAX_LIFETIME_NS` of association.py.
const MAX_LIFETIME_NS: i64 = 120_000_000_000;

/// The columns of the datagrams that the association uses, all of one length.
pub struct Datagrams<'a> {
    pub spi_i: &'a [u64],
    pub spi_r: &'a [u64],
    pub protocol: &'a [u8],
    pub exchange_type: &'a [u8],
    pub flags: &'a [u8],
    pub digest: &'a [u64],
    pub first_ns: &'a [i64],
    pub source: &'a [u64],
    pub source_port: &'a [u16],
    pub destination: &'a [u64],
    pub destination_port: &'a [u16],
}

/// The datagrams of one initiator SPI so far: the first values, with which later ones are compared.
struct Group {
    protocol: u8,
    spi_r: u64, // 0: unknown
    initiator: Option<u64>,
    request: Option<(u64, i64)>, // digest and time
}

/// Group datagrams by `key`, which is the initiator SPI or a number that also differs by capture and tunnel.
///
/// Returns the group of each datagram, numbered in order of the first datagrams, and whether each group may contain
/// several IKE SAs: then more than its SPI must decide.
pub fn group_by_spi(key: &[u64], datagrams: &Datagrams) -> (Vec<i32>, Vec<bool>) {
    let mut numbering = Numbering::default();
    let mut groups: Vec<Group> = Vec::new();
    let mut ambiguous: Vec<bool> = Vec::new();
    let mut labels = Vec::with_capacity(key.len());
    for (row, &key) in key.iter().enumerate() {
        let (number, is_new) = numbering.number(key);
        if is_new {
            groups.push(Group {
                protocol: datagrams.protocol[row],
                spi_r: 0,
                initiator: None,
                request: None,
            });
            ambiguous.push(false);
        }
        ambiguous[number as usize] |= !groups[number as usize].fits(datagrams, row);
        labels.push(number as i32);
    }
    (labels, ambiguous)
}

impl Group {
    /// Whether the datagram may be of the same IKE SA as those before it, as far as this is decided without a closer
    /// look; remembers its values.
    fn fits(&mut self, datagrams: &Datagrams, row: usize) -> bool {
        let spi_r = datagrams.spi_r[row];
        let protocol = datagrams.protocol[row];
        let mut fits = datagrams.spi_i[row] != 0 && protocol == self.protocol;
        if spi_r != 0 {
            fits &= self.spi_r == 0 || self.spi_r == spi_r;
            self.spi_r = spi_r;
        }
        let exchange_type = datagrams.exchange_type[row];
        let is_init = match protocol {
            IKEV1 => spi_r == 0 && exchange_type != IKEV1_INFORMATIONAL,
            _ => exchange_type == IKE_SA_INIT || exchange_type == IKE_SESSION_RESUME,
        };
        if is_init {
            let is_request = protocol == IKEV1 || datagrams.flags[row] & RESPONSE == 0;
            let initiator = match is_request {
                true => datagrams.source[row] << 16 | u64::from(datagrams.source_port[row]),
                false => datagrams.destination[row] << 16 | u64::from(datagrams.destination_port[row]),
            };
            fits &= *self.initiator.get_or_insert(initiator) == initiator;
            if is_request {
                let (digest, when) = (datagrams.digest[row], datagrams.first_ns[row]);
                let (first, begin) = *self.request.get_or_insert((digest, when));
                fits &= digest == first && when.wrapping_sub(begin) <= MAX_LIFETIME_NS;
            }
        }
        fits
    }
}

/// The rows of datagrams whose flag of the initiator contradicts the addresses (`find_contradicted_flags` of
/// association.py, which explains it). None: a datagram is of none of `count` handshakes.
pub fn find_contradicted_flags(handshake: &[i32], datagrams: &Datagrams, count: usize) -> Option<Vec<i64>> {
    let mut begun = vec![false; count];
    // addresses of the initiator and the responder; equal ones tell nothing
    let mut ends = vec![(0, 0); count];
    let mut rows = Vec::new();
    for (row, &handshake) in handshake.iter().enumerate() {
        let handshake = usize::try_from(handshake).ok().filter(|&handshake| handshake < count)?;
        let (source, destination) = (datagrams.source[row], datagrams.destination[row]);
        let is_init = matches!(datagrams.exchange_type[row], IKE_SA_INIT | IKE_SESSION_RESUME);
        let is_flagged = datagrams.flags[row] & INITIATOR != 0;
        if datagrams.protocol[row] != IKEV2 {
            begun[handshake] = true;
        } else if !begun[handshake] {
            begun[handshake] = true;
            if is_init && is_flagged == (datagrams.flags[row] & RESPONSE == 0) {
                ends[handshake] = if is_flagged {
                    (source, destination)
                } else {
                    (destination, source)
                };
            }
        } else if !is_init && source != destination {
            let contradiction = if is_flagged {
                (destination, source)
            } else {
                (source, destination)
            };
            if ends[handshake] == contradiction {
                rows.push(row as i64);
            }
        }
    }
    Some(rows)
}
