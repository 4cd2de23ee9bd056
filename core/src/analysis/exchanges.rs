//! Messages to exchanges, and the endings of exchanges by the order of their transmissions
//! (ikeanalyze/analysis/exchanges/exchanges.py and answers.py, which explain them).

/// Unknown time, and later than all times (exchanges.py).
const UNKNOWN: i64 = i64::MIN;
const NEVER: i64 = i64::MAX;
/// `Protocol.IKEV1` of ikeanalyze/capture/decode/classify.py.
const IKEV1: u8 = 1;

/// The columns of the messages, all of one length, in order of slot, so of handshake.
pub struct Messages<'a> {
    pub slot: &'a [i64],
    pub handshake: &'a [i32],
    pub protocol: &'a [u8],
    pub exchange_type: &'a [u8],
    pub message_id: &'a [u32],
    pub initiator_asked: &'a [bool],
    pub response: &'a [bool],
    pub first_ns: &'a [i64],
    pub frames: &'a [u32],
    pub bytes: &'a [i64],
}

/// The requests, or the responses, of each exchange.
pub struct Sent {
    pub messages: Vec<u32>,
    pub frames: Vec<u32>,
    pub bytes: Vec<i64>,
    pub first_ns: Vec<i64>, // UNKNOWN: none
}

impl Sent {
    fn with_capacity(count: usize) -> Self {
        Self {
            messages: Vec::with_capacity(count),
            frames: Vec::with_capacity(count),
            bytes: Vec::with_capacity(count),
            first_ns: Vec::with_capacity(count),
        }
    }
}

/// The columns of `ExchangeColumns` but `set_up`, and `of_message`: the row of the exchange of each message.
pub struct Exchanges {
    pub handshake: Vec<i32>,
    pub protocol: Vec<u8>,
    pub exchange_type: Vec<u8>,
    pub message_id: Vec<u32>,
    pub attempt: Vec<i32>,
    pub initiator_asked: Vec<bool>,
    pub start_ns: Vec<i64>,
    pub request: Sent,
    pub response: Sent,
    pub of_message: Vec<i32>,
}

/// An exchange before it has a row: its messages, among `rows`, and when it began.
struct Pairing {
    start_ns: i64,
    rows: std::ops::Range<usize>,
}

/// Group messages into exchanges; `attempt` is that of each message. They are in order of handshake and time.
pub fn pair_exchanges(messages: &Messages, attempt: &[i32]) -> Exchanges {
    let mut exchanges = Exchanges::with_capacity(messages);
    let mut rows: Vec<u32> = Vec::new(); // of the messages of a handshake
    let mut pairings: Vec<Pairing> = Vec::new();
    let mut begin = 0;
    for own in messages.handshake.chunk_by(|first, second| first == second) {
        rows.clear();
        rows.extend((begin..begin + own.len()).map(|row| row as u32));
        begin += own.len();
        find_pairings(messages, attempt, &mut rows, &mut pairings);
        pairings.sort_by_key(|pairing| pairing.start_ns);
        for pairing in pairings.drain(..) {
            exchanges.add(messages, attempt, &rows[pairing.rows]);
        }
    }
    exchanges
}

/// Sort the messages of a handshake by pair of slots, attempt and role, and find those of each exchange.
fn find_pairings(messages: &Messages, attempt: &[i32], rows: &mut [u32], pairings: &mut Vec<Pairing>) {
    let key = |&row: &u32| {
        let row = row as usize;
        (messages.slot[row] >> 1, attempt[row])
    };
    if rows.iter().any(|&row| attempt[row as usize] > 0) {
        rows.sort_by_key(|row| (key(row), messages.response[*row as usize]));
    }
    let mut begin = 0;
    for own in rows.chunk_by(|first, second| key(first) == key(second)) {
        let first_ns = |response: bool| {
            let of_role = own
                .iter()
                .map(|&row| row as usize)
                .filter(|&row| messages.response[row] == response);
            of_role.map(|row| messages.first_ns[row]).min()
        };
        let start_ns = first_ns(false).or_else(|| first_ns(true)).unwrap_or(UNKNOWN);
        pairings.push(Pairing {
            start_ns,
            rows: begin..begin + own.len(),
        });
        begin += own.len();
    }
}

impl Exchanges {
    /// No exchange yet, and room for one in each pair of slots: most pairs have one.
    fn with_capacity(messages: &Messages) -> Self {
        let pairs = messages
            .slot
            .chunk_by(|first, second| first >> 1 == second >> 1)
            .count();
        Self {
            handshake: Vec::with_capacity(pairs),
            protocol: Vec::with_capacity(pairs),
            exchange_type: Vec::with_capacity(pairs),
            message_id: Vec::with_capacity(pairs),
            attempt: Vec::with_capacity(pairs),
            initiator_asked: Vec::with_capacity(pairs),
            start_ns: Vec::with_capacity(pairs),
            request: Sent::with_capacity(pairs),
            response: Sent::with_capacity(pairs),
            of_message: vec![0; messages.slot.len()],
        }
    }

    fn add(&mut self, messages: &Messages, attempt: &[i32], rows: &[u32]) {
        let head = rows[0] as usize;
        let exchange = self.handshake.len();
        for sent in [&mut self.request, &mut self.response] {
            sent.messages.push(0);
            sent.frames.push(0);
            sent.bytes.push(0);
            sent.first_ns.push(UNKNOWN);
        }
        for &row in rows {
            let row = row as usize;
            self.of_message[row] = exchange as i32;
            let sent = if messages.response[row] {
                &mut self.response
            } else {
                &mut self.request
            };
            sent.messages[exchange] += 1;
            sent.frames[exchange] = sent.frames[exchange].wrapping_add(messages.frames[row]);
            sent.bytes[exchange] += messages.bytes[row];
            let when = messages.first_ns[row];
            let first_ns = &mut sent.first_ns[exchange];
            *first_ns = if *first_ns == UNKNOWN {
                when
            } else {
                when.min(*first_ns)
            };
        }
        let asked_ns = self.request.first_ns[exchange];
        self.start_ns.push(if asked_ns == UNKNOWN {
            self.response.first_ns[exchange]
        } else {
            asked_ns
        });
        self.handshake.push(messages.handshake[head]);
        self.protocol.push(messages.protocol[head]);
        self.exchange_type.push(messages.exchange_type[head]);
        self.message_id.push(messages.message_id[head]);
        self.attempt.push(attempt[head]);
        self.initiator_asked.push(messages.initiator_asked[head]);
    }
}

/// The columns of the exchanges that decide about their endings.
pub struct ExchangeTimes<'a> {
    pub handshake: &'a [i32],
    pub protocol: &'a [u8],
    pub initiator_asked: &'a [bool],
    pub start_ns: &'a [i64],
    pub request_ns: &'a [i64],
    pub response_ns: &'a [i64],
}

/// The columns of the messages that decide about the endings of exchanges, and the exchange of each.
pub struct MessageTimes<'a> {
    pub exchange: &'a [i32],
    pub response: &'a [bool],
    pub first_ns: &'a [i64],
    pub last_ns: &'a [i64],
}

/// The columns of `ExchangeEndings` but `uncertain`.
pub struct Endings {
    pub answer_ns: Vec<i64>,
    pub end_ns: Vec<i64>,
    pub answered_ns: Vec<i64>,
    pub last_request_ns: Vec<i64>,
    pub repeated_ns: Vec<i64>,
    pub response_wait_ns: Vec<i64>,
}

/// Find the ending of each exchange by the order of its transmissions. None: a message is of no exchange, or an exchange
/// has no messages.
pub fn end_in_order(messages: &MessageTimes, exchanges: &ExchangeTimes) -> Option<Endings> {
    let count = exchanges.handshake.len();
    let (rows, ends) = sort_by_exchange(messages.exchange, count)?;
    let until = find_next_requests(exchanges);
    let mut endings = Endings::with_capacity(count);
    let mut begin = 0;
    for exchange in 0..count {
        let own = rows.get(begin..ends[exchange] as usize).filter(|own| !own.is_empty())?;
        endings.add(messages, exchanges, own, exchange, until[exchange]);
        begin = ends[exchange] as usize;
    }
    Some(endings)
}

/// The rows of the messages in order of their exchanges, and where those of each exchange end.
fn sort_by_exchange(exchange: &[i32], count: usize) -> Option<(Vec<u32>, Vec<u32>)> {
    let mut ends = vec![0_u32; count];
    for &exchange in exchange {
        *ends.get_mut(usize::try_from(exchange).ok()?)? += 1;
    }
    let mut total = 0;
    for end in &mut ends {
        let begin = total;
        total += *end;
        *end = begin; // rises to the end while the rows are placed
    }
    let mut rows = vec![0; exchange.len()];
    for (&exchange, row) in exchange.iter().zip(0..) {
        let end = &mut ends[exchange as usize];
        rows[*end as usize] = row;
        *end += 1;
    }
    Some((rows, ends))
}

/// When the same side of the same IKE SA began its next exchange; NEVER if it did not, or if the order is unknown.
fn find_next_requests(exchanges: &ExchangeTimes) -> Vec<i64> {
    let mut until = vec![NEVER; exchanges.handshake.len()];
    let mut next: [Option<usize>; 2] = [None; 2]; // by side
    for row in (0..until.len()).rev() {
        if exchanges.request_ns[row] == UNKNOWN {
            continue;
        }
        let next = &mut next[usize::from(exchanges.initiator_asked[row])];
        if let Some(next) = next.filter(|&next| exchanges.handshake[next] == exchanges.handshake[row]) {
            until[row] = exchanges.request_ns[next];
        }
        *next = Some(row);
    }
    for (until, &start) in until.iter_mut().zip(exchanges.start_ns) {
        if *until <= start {
            *until = NEVER;
        }
    }
    until
}

impl Endings {
    fn with_capacity(count: usize) -> Self {
        let column = || Vec::with_capacity(count);
        Self {
            answer_ns: column(),
            end_ns: column(),
            answered_ns: column(),
            last_request_ns: column(),
            repeated_ns: column(),
            response_wait_ns: column(),
        }
    }

    /// Add an exchange with the messages `rows`; the same side began its next exchange at `until`.
    fn add(&mut self, messages: &MessageTimes, exchanges: &ExchangeTimes, rows: &[u32], exchange: usize, until: i64) {
        let rows = || rows.iter().map(|&row| row as usize);
        let requests = || rows().filter(|&row| !messages.response[row]);
        let responses = || rows().filter(|&row| messages.response[row]);
        let current = |&row: &usize| messages.first_ns[row] < until;
        let when = |row: usize| messages.first_ns[row];

        let last_request = requests().filter(current).map(when).max().unwrap_or(UNKNOWN);
        let first_after = responses()
            .filter(current)
            .map(when)
            .filter(|&when| when > last_request)
            .min();
        let latest = responses().filter(current).map(when).max();
        let latest_end = responses()
            .filter(current)
            .map(|row| messages.last_ns[row])
            .max()
            .unwrap_or(UNKNOWN);
        let is_repeated = latest_end != UNKNOWN && last_request > latest_end;
        let answer = first_after.or(latest).unwrap_or(exchanges.response_ns[exchange]);
        let has_answer = answer != UNKNOWN;
        let answer_row = responses().find(|&row| has_answer && when(row) == answer);
        let mut end = answer_row.map_or(UNKNOWN, |row| messages.last_ns[row]);
        // the responder of IKEv1 repeats its response by itself
        let by_itself = exchanges.protocol[exchange] == IKEV1
            && answer_row.is_some()
            && answer > last_request
            && latest_end > end
            && until != NEVER;
        let response_wait = if by_itself { latest_end - end } else { 0 };
        if by_itself {
            end = latest_end;
        }
        let mut answered = requests()
            .map(when)
            .filter(|&when| when <= answer)
            .max()
            .unwrap_or(UNKNOWN);
        // as many responses as requests: in order
        let ordinal = responses().filter(current).filter(|&row| when(row) <= answer).count();
        let sent = requests().count();
        if sent == responses().count() && sent > 1 && ordinal > 0 && has_answer {
            answered = rows().nth(ordinal - 1).map_or(UNKNOWN, when);
        }
        let is_known = has_answer && answered != UNKNOWN && answered <= answer;
        self.answer_ns.push(answer);
        self.end_ns.push(end);
        self.answered_ns.push(if is_known { answered } else { UNKNOWN });
        self.last_request_ns.push(last_request);
        self.repeated_ns
            .push(if is_repeated { last_request - latest_end } else { 0 });
        self.response_wait_ns.push(response_wait);
    }
}
