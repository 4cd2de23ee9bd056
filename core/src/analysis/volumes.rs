//! Messages, frames and bytes of handshakes (ikeanalyze/analysis/tables/handshake_table.py).

use super::messages::Column;

/// The columns of the messages, all of one length, in order of handshake.
pub struct Messages<'a> {
    pub handshake: &'a [i32],
    pub set_up: &'a [bool],
    pub from_initiator: &'a [bool],
    pub protocol: &'a [u8],
    pub exchange_type: &'a [u8],
    pub transmission: &'a [u32],
    pub first_ns: &'a [i64],
    pub frames: &'a [u32],
    pub bytes: &'a [i64],
    pub needed_bytes: &'a [i64],
    pub fragments: &'a [u16],
    pub fragments_seen: &'a [u32],
    pub ip_fragments: Column<'a>,
}

/// Messages, frames and bytes of each handshake.
pub struct Volume {
    pub messages: Vec<u32>,
    pub frames: Vec<u32>,
    pub bytes: Vec<i64>,
}

impl Volume {
    fn new(count: usize) -> Self {
        Self {
            messages: vec![0; count],
            frames: vec![0; count],
            bytes: vec![0; count],
        }
    }

    fn add(&mut self, handshake: usize, sum: &Sum) {
        self.messages[handshake] += sum.messages;
        self.frames[handshake] = self.frames[handshake].wrapping_add(sum.frames);
        self.bytes[handshake] += sum.bytes;
    }
}

/// Messages, frames and bytes of messages that follow one another.
#[derive(Default)]
struct Sum {
    messages: u32,
    frames: u32,
    bytes: i64,
}

impl Sum {
    fn add(&mut self, messages: &Messages, row: usize) {
        self.messages += 1;
        self.frames = self.frames.wrapping_add(messages.frames[row]);
        self.bytes += messages.bytes[row];
    }
}

/// What the messages of each handshake add up to.
pub struct Volumes {
    /// Of the set-up and after it, by the responder and the initiator.
    pub by_side: [[Volume; 2]; 2],
    pub retransmitted: Volume,
    pub needed_bytes: Vec<i64>,
    pub fragmented: Vec<u32>, // messages in IKE fragments
    pub fragments: Vec<u32>,
    pub ip_fragments: Vec<u32>,
}

/// Add up the messages of `count` handshakes. None: a message is of no handshake.
pub fn sum_volumes(messages: &Messages, count: usize) -> Option<Volumes> {
    let volume = || Volume::new(count);
    let mut sums = Volumes {
        by_side: [[volume(), volume()], [volume(), volume()]],
        retransmitted: volume(),
        needed_bytes: vec![0; count],
        fragmented: vec![0; count],
        fragments: vec![0; count],
        ip_fragments: vec![0; count],
    };
    let mut begin = 0;
    for own in messages.handshake.chunk_by(|first, second| first == second) {
        let handshake = usize::try_from(own[0]).ok().filter(|&handshake| handshake < count)?;
        // in registers, and then in the columns
        let (mut by_side, mut retransmitted) = (<[[Sum; 2]; 2]>::default(), Sum::default());
        let (mut needed_bytes, mut fragmented, mut fragments, mut ip_fragments) = (0, 0, 0_u32, 0_u32);
        for row in begin..begin + own.len() {
            let set_up = messages.set_up[row];
            by_side[usize::from(!set_up)][usize::from(messages.from_initiator[row])].add(messages, row);
            if !set_up {
                continue;
            }
            if messages.transmission[row] > 1 {
                retransmitted.add(messages, row);
            }
            let seen = messages.fragments_seen[row];
            needed_bytes += messages.needed_bytes[row];
            fragmented += u32::from(seen > 0 || messages.fragments[row] > 0);
            fragments = fragments.wrapping_add(seen);
            ip_fragments = ip_fragments.wrapping_add(messages.ip_fragments.get(row) as u32);
        }
        begin += own.len();
        for (volumes, of_sides) in sums.by_side.iter_mut().zip(&by_side) {
            for (volume, sum) in volumes.iter_mut().zip(of_sides) {
                volume.add(handshake, sum);
            }
        }
        sums.retransmitted.add(handshake, &retransmitted);
        sums.needed_bytes[handshake] += needed_bytes;
        sums.fragmented[handshake] += fragmented;
        sums.fragments[handshake] = sums.fragments[handshake].wrapping_add(fragments);
        sums.ip_fragments[handshake] = sums.ip_fragments[handshake].wrapping_add(ip_fragments);
    }
    Some(sums)
}

/// The set-ups of handshakes by exchange type: one row for each type of each handshake, in order of handshake and time.
#[derive(Default)]
pub struct Phases {
    pub exchange_type: Vec<i64>, // the protocol in the high bits
    pub messages: Vec<u32>,
    pub frames: Vec<u32>,
    pub bytes: Vec<u64>,
    pub of_handshake: Vec<i64>, // number of rows
}

/// One exchange type of a handshake, and the time of its first message.
struct Phase {
    begin_ns: i64,
    exchange_type: i64,
    messages: u32,
    frames: u32,
    bytes: u64,
}

/// Add up the set-ups of `count` handshakes by exchange type. None: the messages are not in order of handshake.
pub fn sum_phases(messages: &Messages, count: usize) -> Option<Phases> {
    let mut sums = Phases {
        of_handshake: vec![0; count],
        ..Phases::default()
    };
    let mut phases: Vec<Phase> = Vec::new();
    let mut row = 0;
    for own in messages.handshake.chunk_by(|first, second| first == second) {
        let handshake = usize::try_from(own[0]).ok()?;
        if handshake >= count || (row > 0 && messages.handshake[row - 1] > own[0]) {
            return None;
        }
        for row in (row..row + own.len()).filter(|&row| messages.set_up[row]) {
            add_to_phase(&mut phases, messages, row);
        }
        row += own.len();
        phases.sort_unstable_by_key(|phase| (phase.begin_ns, phase.exchange_type));
        sums.of_handshake[handshake] = phases.len() as i64;
        for phase in phases.drain(..) {
            sums.exchange_type.push(phase.exchange_type);
            sums.messages.push(phase.messages);
            sums.frames.push(phase.frames);
            sums.bytes.push(phase.bytes);
        }
    }
    Some(sums)
}

fn add_to_phase(phases: &mut Vec<Phase>, messages: &Messages, row: usize) {
    let exchange_type = i64::from(messages.protocol[row]) << 8 | i64::from(messages.exchange_type[row]);
    let begin_ns = messages.first_ns[row];
    let known = phases.iter_mut().find(|phase| phase.exchange_type == exchange_type);
    let phase = match known {
        Some(phase) => phase,
        None => {
            phases.push(Phase {
                begin_ns,
                exchange_type,
                messages: 0,
                frames: 0,
                bytes: 0,
            });
            let last = phases.len() - 1;
            &mut phases[last]
        }
    };
    phase.begin_ns = phase.begin_ns.min(begin_ns);
    phase.messages += 1;
    phase.frames = phase.frames.wrapping_add(messages.frames[row]);
    phase.bytes = phase.bytes.wrapping_add(messages.bytes[row] as u64);
}
