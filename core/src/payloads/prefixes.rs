//! Numbers payloads by their first bytes: `_number_prefixes` in ikeanalyze/analysis/decryption/payloads/forms.py.

/// The payloads, as columns of one length.
pub struct Payloads<'a> {
    pub heap: &'a [u8],
    pub kind: &'a [u8],
    pub critical: &'a [bool],
    /// Whether the message is a response.
    pub answers: &'a [bool],
    /// Offset and size of the body.
    pub begin: &'a [i64],
    pub size: &'a [i64],
}

/// How many bytes at the beginning of a body belong to the form.
pub struct Rules<'a> {
    /// By type of the payload (256 values); negative: the whole body.
    pub prefix: &'a [i8],
    pub notify: u8,
    /// Whether the data of a notify of a type only count. (65,536 values)
    pub is_opaque: &'a [bool],
    pub auth: u8,
    /// The authentication method whose data begin with an algorithm.
    pub signature: u8,
}

/// The number of each payload, and whether its form also depends on bytes that the number lacks.
#[derive(Debug, Default, PartialEq)]
pub struct Numbers {
    pub number: Vec<u64>,
    pub whole: Vec<bool>,
}

/// Bytes of a body that its number has room for: all of a short body; of a notify, its protocol, the size of its SPI and
/// its type.
const HEAD_BYTES: usize = 4;
/// Bits of the number after the type, the critical flag and the response flag.
const SIZE_BITS: u32 = 22;
const HEAD_BITS: u32 = 32;

/// Number all payloads; `suspicious` are rows, in ascending order, whose whole body belongs to the form.
pub fn number_prefixes(payloads: &Payloads, suspicious: &[i64], rules: &Rules) -> Numbers {
    let mut numbers = Numbers::default();
    let mut suspicious = suspicious.iter().copied().peekable();
    for (row, &kind) in payloads.kind.iter().enumerate() {
        let head = read_head(payloads.heap, payloads.begin[row]);
        let size = usize::try_from(payloads.size[row]).unwrap_or(0);
        let mut prefix = usize::try_from(rules.prefix[usize::from(kind)]).ok();
        if kind == rules.auth && (head >> 24) as u8 == rules.signature {
            prefix = None;
        }
        if kind == rules.notify && size >= HEAD_BYTES && rules.is_opaque[(head & 0xFFFF) as usize] {
            prefix = Some(HEAD_BYTES);
        }
        if size <= HEAD_BYTES {
            prefix = Some(HEAD_BYTES);
        }
        if suspicious.next_if_eq(&(row as i64)).is_some() {
            prefix = None;
        }
        let kept = prefix.unwrap_or(0).min(size);
        let mut number = u64::from(kind) << 1 | u64::from(payloads.critical[row]);
        number = number << 1 | u64::from(payloads.answers[row]);
        number = number << SIZE_BITS | size as u64;
        number = number << HEAD_BITS | u64::from(keep_bytes(head, kept));
        numbers.number.push(number);
        numbers.whole.push(prefix.is_none());
    }
    numbers
}

/// The first four bytes of a body, or what follows it if it is shorter: the heap has room after the last message. Without
/// that room, the last four bytes of the heap, as in Python.
fn read_head(heap: &[u8], begin: i64) -> u32 {
    let begin = usize::try_from(begin).unwrap_or(0).min(heap.len().saturating_sub(4));
    heap.get(begin..begin + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_be_bytes)
}

/// The first bytes of the four, and zeros.
fn keep_bytes(head: u32, count: usize) -> u32 {
    match count {
        0 => 0,
        1..=3 => head & (u32::MAX << (8 * (4 - count))),
        _ => head,
    }
}
