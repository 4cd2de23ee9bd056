//! Walks the chains of payloads of many messages: the columns of PayloadColumns in
//! ikeanalyze/analysis/decryption/payloads/columns.py.

const PAYLOAD_HEADER: usize = 4;
const CRITICAL: u8 = 0x80;
const SK: u8 = 46;
const SKF: u8 = 53;

/// The chain of one message: offsets in the heap, and the type of its first payload.
pub struct Chain {
    pub begin: usize,
    pub end: usize,
    pub first: u8,
}

/// The payloads of all messages whose chain is complete.
#[derive(Default)]
pub struct Payloads {
    /// Of each payload: its message, type, critical flag, and the offset and size of its body.
    pub message: Vec<i64>,
    pub kind: Vec<u8>,
    pub critical: Vec<bool>,
    pub begin: Vec<i64>,
    pub size: Vec<i64>,
    /// Of each message: where its payloads end, and whether its chain is complete.
    pub ends: Vec<i64>,
    pub complete: Vec<bool>,
}

/// Walk all chains. A chain of more than `most` payloads counts as incomplete; None: the message is not wanted.
pub fn walk_chains(heap: &[u8], chains: impl Iterator<Item = Option<Chain>>, most: usize) -> Payloads {
    let mut result = Payloads::default();
    for (message, chain) in chains.enumerate() {
        let before = result.kind.len();
        let complete = chain.is_some_and(|chain| result.add_chain(heap, message, &chain, most).is_some());
        if !complete {
            result.message.truncate(before);
            result.kind.truncate(before);
            result.critical.truncate(before);
            result.begin.truncate(before);
            result.size.truncate(before);
        }
        result.ends.push(result.kind.len() as i64);
        result.complete.push(complete);
    }
    result
}

impl Payloads {
    /// Add the payloads of one message; None: its chain is incomplete.
    fn add_chain(&mut self, heap: &[u8], message: usize, chain: &Chain, most: usize) -> Option<()> {
        let data = heap.get(..chain.end)?;
        let (mut at, mut kind) = (chain.begin, chain.first);
        for _ in 0..most {
            if kind == 0 {
                return Some(());
            }
            let header = data.get(at..at + PAYLOAD_HEADER)?;
            let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
            if length < PAYLOAD_HEADER || at + length > chain.end {
                return None;
            }
            self.message.push(message as i64);
            self.kind.push(kind);
            self.critical.push(header[1] & CRITICAL != 0);
            self.begin.push((at + PAYLOAD_HEADER) as i64);
            self.size.push((length - PAYLOAD_HEADER) as i64);
            // the next payload field of an encrypted payload is the type of the first payload inside
            kind = if kind == SK || kind == SKF { 0 } else { header[0] };
            at += length;
        }
        (kind == 0).then_some(())
    }
}
