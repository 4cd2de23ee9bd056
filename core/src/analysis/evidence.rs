//! The evidence for the outcome of handshakes without RADIUS (exchange_evidence.py and outcome.py in
//! ikeanalyze/analysis/handshakes, which explain it).

/// Unknown time (exchanges.py).
const UNKNOWN: i64 = i64::MIN;
/// `Protocol` of ikeanalyze/capture/decode/classify.py.
const IKEV2: u8 = 0;
const IKEV1: u8 = 1;
const HIP: u8 = 3;
/// Exchange types: RFC 7296, section 3.1, RFC 5723 and RFC 9838.
const IKE_SA_INIT: u8 = 34;
const IKE_AUTH: u8 = 35;
const IKE_SESSION_RESUME: u8 = 38;
const GSA_AUTH: u8 = 39;
/// RFC 2408, section 3.1, and RFC 2409, appendix A.
const MAIN_MODE: u8 = 2;
const AGGRESSIVE: u8 = 4;
const IKEV1_INFORMATIONAL: u8 = 5;
const QUICK_MODE: u8 = 32;
/// Numbers of exchanges of HIP (exchanges/hip_exchange_types.py).
const I1_R1: u8 = 129;
const I2_R2: u8 = 131;
const HIP_NOTIFY: u8 = 145;

/// The columns of the exchanges, all of one length, in order of handshake and time.
pub struct Exchanges<'a> {
    pub handshake: &'a [i32],
    pub protocol: &'a [u8],
    pub exchange_type: &'a [u8],
    pub message_id: &'a [u32],
    pub start_ns: &'a [i64],
    pub attempt: &'a [i32],
    pub initiator_asked: &'a [bool],
    pub set_up: &'a [bool],
    pub request_messages: &'a [u32],
    pub response_messages: &'a [u32],
    /// Those whose responses do not count.
    pub unprotected: &'a [bool],
    /// Those whose responses the initiator cannot have received, if they are the last ones.
    pub unreceived: &'a [bool],
    /// Those whose requests do not count.
    pub asked_in_clear: &'a [bool],
}

/// Columns of `Evidence`.
pub struct Evidence {
    pub begun: Vec<bool>,
    pub hole: Vec<bool>,
    pub last_unanswered: Vec<bool>,
    pub last_repeated: Vec<bool>,
    pub finished: Vec<bool>,
    pub asked_again: Vec<bool>,
}

/// Collect the evidence for each handshake; `undone`: whose decrypted payloads show that the set-up had not ended.
/// None: an exchange is of no handshake.
pub fn collect_evidence(exchanges: &Exchanges, undone: &[bool]) -> Option<Evidence> {
    let count = undone.len();
    let mut evidence = Evidence {
        begun: vec![false; count],
        hole: vec![false; count],
        last_unanswered: vec![false; count],
        last_repeated: vec![false; count],
        finished: vec![false; count],
        asked_again: vec![false; count],
    };
    let (mut begin, mut ids) = (0, Vec::new());
    for own in exchanges.handshake.chunk_by(|first, second| first == second) {
        let handshake = usize::try_from(own[0]).ok().filter(|&handshake| handshake < count)?;
        let rows = begin..begin + own.len();
        begin += own.len();
        evidence.add(exchanges, rows.clone(), handshake, undone[handshake]);
        evidence.hole[handshake] |= has_wrong_ids(exchanges, rows, &mut ids);
    }
    Some(evidence)
}

impl Exchanges<'_> {
    fn is_asked(&self, row: usize) -> bool {
        self.request_messages[row] > 0
    }

    fn is_answered(&self, row: usize) -> bool {
        self.response_messages[row] > 0 && !self.unprotected[row]
    }

    fn is_ikev1(&self, row: usize) -> bool {
        self.protocol[row] == IKEV1
    }

    fn is_type(&self, row: usize, types: &[u8]) -> bool {
        types.contains(&self.exchange_type[row])
    }

    /// Whether its third message is not answered: IKEv1's aggressive and quick mode.
    fn is_of_three(&self, row: usize) -> bool {
        self.is_ikev1(row) && self.is_type(row, &[AGGRESSIVE, QUICK_MODE])
    }

    fn is_authentication(&self, row: usize) -> bool {
        self.is_type(row, &[IKE_AUTH, GSA_AUTH])
    }

    /// Whether it has a request that needs a response.
    fn needs_response(&self, row: usize) -> bool {
        let never = match self.protocol[row] {
            IKEV1 => self.exchange_type[row] == IKEV1_INFORMATIONAL,
            HIP => self.exchange_type[row] == HIP_NOTIFY,
            _ => false,
        };
        self.is_asked(row) && !never
    }
}

type Rows = std::ops::Range<usize>;

impl Evidence {
    /// Add the exchanges of a handshake.
    fn add(&mut self, exchanges: &Exchanges, rows: Rows, handshake: usize, undone: bool) {
        let continued = is_continued(exchanges, rows.clone(), undone);
        let is_last_candidate = |&row: &usize| {
            let later = exchanges.initiator_asked[row] && continued;
            (later || exchanges.set_up[row]) && exchanges.needs_response(row)
        };
        let last = rows.clone().rev().find(is_last_candidate);
        let (mut begun, mut first_asked, mut hole) = (false, None, false);
        let (mut accepted, mut open_last, mut open_repeated) = (false, false, false);
        let (mut pending, mut asked_again) = (false, false);
        let (mut authenticated, mut done_v1, mut quick, mut agreed) = (false, false, false, false);
        for row in rows {
            let (asked, answered) = (exchanges.is_asked(row), exchanges.is_answered(row));
            let (ikev1, attempt) = (exchanges.is_ikev1(row), exchanges.attempt[row]);
            let exchange_type = exchanges.exchange_type[row];
            done_v1 |= ikev1
                && ((exchange_type == MAIN_MODE && attempt >= 2 && answered)
                    || (exchange_type == AGGRESSIVE && attempt >= 1));
            if !exchanges.set_up[row] {
                accepted |= !exchanges.initiator_asked[row] && answered;
                continue;
            }
            first_asked.get_or_insert(asked);
            let is_last = last == Some(row);
            let of_three = exchanges.is_of_three(row);
            let unanswered = asked && !answered && !(of_three && attempt > 0);
            let open = is_last && (unanswered || (asked && answered && exchanges.unreceived[row]));
            open_last |= open;
            open_repeated |= open && exchanges.request_messages[row] > 1;
            // the initiator has yet to send the third message
            let waits = of_three && attempt == 0 && answered && is_last;
            pending |= waits;
            asked_again |= waits && exchanges.response_messages[row] > 1;
            begun |= !ikev1 && asked && exchanges.is_type(row, &[IKE_SA_INIT, IKE_SESSION_RESUME, I1_R1]);
            authenticated |= !ikev1 && answered && (exchanges.is_authentication(row) || exchange_type == I2_R2);
            if ikev1 && exchange_type == QUICK_MODE {
                quick = true;
                agreed |= attempt > 0;
            }
            hole |= (unanswered && !is_last) || !asked;
        }
        let half_agreed = quick && !agreed;
        let finished = (authenticated || (done_v1 && !half_agreed)) && !pending && !undone;
        self.begun[handshake] = begun && first_asked != Some(false);
        self.hole[handshake] = hole || (continued && !finished);
        // an initiator that answers a request of the responder has the IKE SA
        self.last_unanswered[handshake] = open_last && !accepted;
        self.last_repeated[handshake] = open_repeated && !accepted;
        self.finished[handshake] = finished || continued;
        self.asked_again[handshake] = asked_again;
    }
}

/// Whether the message IDs of a set-up skip one, which the capture lacks, or fall (`_find_skipped_ids`,
/// `_find_disordered_ids`); `ids` is memory to use.
fn has_wrong_ids(exchanges: &Exchanges, rows: Rows, ids: &mut Vec<u32>) -> bool {
    let by_initiator =
        |&row: &usize| exchanges.protocol[row] == IKEV2 && exchanges.initiator_asked[row] && exchanges.set_up[row];
    ids.clear();
    let mut latest = i64::MAX;
    for row in rows.filter(by_initiator) {
        let (id, start_ns) = (exchanges.message_id[row], exchanges.start_ns[row]);
        if ids.last().is_some_and(|&last| id < last) && start_ns > latest {
            return true;
        }
        ids.push(id);
        latest = start_ns;
    }
    ids.sort_unstable();
    ids.windows(2).any(|pair| pair[1] - pair[0] > 1)
}

/// Whether a handshake has later exchanges, as only an IKE SA that was set up has them (`_find_continued`).
fn is_continued(exchanges: &Exchanges, rows: Rows, undone: bool) -> bool {
    let by_initiator = |row: usize| exchanges.protocol[row] == IKEV2 && exchanges.initiator_asked[row];
    let (mut last_id, mut has_auth, mut has_later) = (-1, false, false);
    for row in rows.clone() {
        if !by_initiator(row) {
            if !exchanges.set_up[row] && exchanges.is_answered(row) {
                return true;
            }
        } else if exchanges.set_up[row] {
            last_id = last_id.max(i64::from(exchanges.message_id[row]));
            has_auth |= exchanges.is_authentication(row) && !undone;
        } else {
            has_later = true;
        }
    }
    if !has_later {
        return false;
    }
    let is_final =
        |&row: &usize| by_initiator(row) && exchanges.set_up[row] && i64::from(exchanges.message_id[row]) == last_id;
    let in_vain = rows
        .clone()
        .rev()
        .find(is_final)
        .is_some_and(|row| !exchanges.is_answered(row) && exchanges.request_messages[row] > 1);
    let mut later = rows.filter(|&row| {
        by_initiator(row) && !exchanges.set_up[row] && exchanges.is_asked(row) && !exchanges.asked_in_clear[row]
    });
    later.any(|row| {
        let answered = exchanges.is_answered(row);
        match i64::from(exchanges.message_id[row]) - last_id {
            2.. => true,
            1 => has_auth && (answered || !in_vain),
            // message ID 0 synchronises those of an IKE SA (RFC 6311, section 4.1)
            _ => answered,
        }
    })
}

/// The time of the last message of the set-up of each of `count` handshakes, or UNKNOWN. None: a message is of no
/// exchange, or an exchange of no handshake.
pub fn find_last_times(
    exchange_of_message: &[i32],
    last_ns: &[i64],
    handshake: &[i32],
    set_up: &[bool],
    count: usize,
) -> Option<Vec<i64>> {
    let mut latest = vec![UNKNOWN; count];
    for (&exchange, &last_ns) in exchange_of_message.iter().zip(last_ns) {
        let exchange = usize::try_from(exchange).ok()?;
        if *set_up.get(exchange)? {
            let latest = latest.get_mut(usize::try_from(*handshake.get(exchange)?).ok()?)?;
            *latest = last_ns.max(*latest);
        }
    }
    Some(latest)
}

/// What the IKE_AUTH exchanges of each handshake add up to.
pub struct AuthSums {
    pub exchanges: Vec<i64>,
    pub request_messages: Vec<i64>,
    pub request_bytes: Vec<i64>,
    pub response_messages: Vec<i64>,
    pub response_bytes: Vec<i64>,
}

/// Add up the IKE_AUTH exchanges of `count` handshakes. `request` and `response` are messages and bytes of the
/// exchanges. None: an exchange is of no handshake.
pub fn sum_auth_exchanges(
    exchanges: (&[i32], &[u8], &[u8]),
    request: (&[u32], &[i64]),
    response: (&[u32], &[i64]),
    count: usize,
) -> Option<AuthSums> {
    let (handshake, protocol, exchange_type) = exchanges;
    let mut sums = AuthSums {
        exchanges: vec![0; count],
        request_messages: vec![0; count],
        request_bytes: vec![0; count],
        response_messages: vec![0; count],
        response_bytes: vec![0; count],
    };
    for (row, &handshake) in handshake.iter().enumerate() {
        if exchange_type[row] != IKE_AUTH || protocol[row] != IKEV2 {
            continue;
        }
        let handshake = usize::try_from(handshake).ok().filter(|&handshake| handshake < count)?;
        sums.exchanges[handshake] += 1;
        sums.request_messages[handshake] += i64::from(request.0[row]);
        sums.request_bytes[handshake] += request.1[row];
        sums.response_messages[handshake] += i64::from(response.0[row]);
        sums.response_bytes[handshake] += response.1[row];
    }
    Some(sums)
}
