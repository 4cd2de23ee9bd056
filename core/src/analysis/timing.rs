//! The parts of set-up times (ikeanalyze/analysis/exchanges/timing.py, which explains them), without AAA servers.
//!
//! Clocks may contradict one another by any time, so differences wrap around as those of numpy do.

use super::grouping::number_pairs;
use super::messages::Column;

/// Unknown time, and later than all times (exchanges.py).
const UNKNOWN: i64 = i64::MIN;
const NEVER: i64 = i64::MAX;
/// Sides of a capture (capture_point.py).
const INITIATOR: u8 = 0;
const RESPONDER: u8 = 1;
const UNKNOWN_VANTAGE: u8 = 2;
/// In round trips: an interval below the first bound is too short for one; about one is between the others.
const TOO_SHORT: f64 = 0.75;
const ABOUT_ONE: (f64, f64) = (0.9, 1.25);

/// The columns of the exchanges, all of one length, in order of handshake and time.
pub struct Exchanges<'a> {
    pub handshake: &'a [i32],
    pub set_up: &'a [bool],
    pub initiator_asked: &'a [bool],
    pub request_messages: &'a [u32],
    pub response_messages: &'a [u32],
    pub request_ns: &'a [i64],
    pub response_ns: &'a [i64],
    // how they were answered
    pub answered_ns: &'a [i64],
    pub end_ns: &'a [i64],
    pub wait_ns: &'a [i64],
    pub response_wait_ns: Column<'a>,
    pub uncertain: &'a [bool],
}

/// The columns of the handshakes, all of one length.
pub struct Handshakes<'a> {
    /// In the capture from the first request to the last response.
    pub complete: &'a [bool],
    pub initiator: &'a [u64],
    pub responder: &'a [u64],
    pub vantage: &'a [u8],
    pub rtt_ns: &'a [i64],
}

/// The columns of `TimeBreakdown`.
pub struct Breakdown {
    pub setup_ns: Vec<i64>,
    pub initiator_setup_ns: Vec<i64>,
    pub network_ns: Vec<i64>,
    pub initiator_ns: Vec<i64>,
    pub initiator_and_network_ns: Vec<i64>,
    pub responder_ns: Vec<i64>,
    pub aaa_ns: Vec<i64>,
    pub wait_ns: Vec<i64>,
    pub path_rtt_ns: Vec<i64>,
    pub end_ns: Vec<i64>,
}

/// Consecutive intervals of a set-up, see `_Intervals`.
struct Interval {
    request_ns: i64,
    end_ns: i64,
    last: bool,
    answered: bool,
    by_responder: bool,
    next_by_responder: bool,
    wait: i64,
    turn: i64,
    gap: i64,
    longest_gap: i64,
    doubtful: bool,
    // where the path is: in the turn or, if not, in the gap; or in neither
    in_turn: bool,
    holds_path: bool,
}

/// Divide the set-up time of each handshake. None: an exchange is of no handshake.
pub fn divide_set_up_times(exchanges: &Exchanges, handshakes: &Handshakes) -> Option<Breakdown> {
    let rows = select_exchanges(exchanges, handshakes)?;
    let measured = measure_paths(exchanges, handshakes, &rows);
    let count = handshakes.complete.len();
    let mut breakdown = Breakdown::new(count);
    let mut begin = 0;
    let mut has_intervals = vec![false; count];
    for own in
        rows.chunk_by(|&first, &second| exchanges.handshake[first as usize] == exchanges.handshake[second as usize])
    {
        let intervals = begin..begin + own.len();
        begin += own.len();
        let handshake = exchanges.handshake[own[0] as usize] as usize;
        has_intervals[handshake] = true;
        let rtt = match handshakes.rtt_ns[handshake] {
            UNKNOWN => measured.get(handshakes, handshake),
            rtt => rtt,
        };
        let intervals = intervals.map(|place| Interval::get(exchanges, handshakes, &rows, place));
        breakdown.divide(handshake, handshakes, intervals, rtt);
    }
    for handshake in (0..count).filter(|&handshake| handshakes.complete[handshake] && !has_intervals[handshake]) {
        breakdown.divide(handshake, handshakes, std::iter::empty(), UNKNOWN);
    }
    Some(breakdown)
}

/// The rows of the exchanges that set up complete handshakes.
fn select_exchanges(exchanges: &Exchanges, handshakes: &Handshakes) -> Option<Vec<u32>> {
    let mut rows = Vec::with_capacity(exchanges.handshake.len());
    for (&handshake, row) in exchanges.handshake.iter().zip(0..) {
        let complete = *handshakes.complete.get(usize::try_from(handshake).ok()?)?;
        if complete && exchanges.set_up[row as usize] && exchanges.request_messages[row as usize] > 0 {
            rows.push(row);
        }
    }
    Some(rows)
}

impl Interval {
    /// The intervals of the exchange at this place of `rows`.
    fn get(exchanges: &Exchanges, handshakes: &Handshakes, rows: &[u32], place: usize) -> Self {
        let row = rows[place] as usize;
        let handshake = exchanges.handshake[row];
        let next = rows.get(place + 1).map(|&next| next as usize);
        let next = next.filter(|&next| exchanges.handshake[next] == handshake);
        let last = next.is_none();
        let next_ns = next.map_or(NEVER, |next| exchanges.request_ns[next]);
        let request_ns = exchanges.request_ns[row];
        let answered = exchanges.answered_ns[row] != UNKNOWN;
        let by_responder = !exchanges.initiator_asked[row];
        let next_by_responder = next.is_some_and(|next| !exchanges.initiator_asked[next]);
        // the responder continues after a transmission of the message without response
        let repeated = !answered && !by_responder && next_by_responder && exchanges.wait_ns[row] > 0;
        let sent = match repeated {
            true => request_ns.wrapping_add(exchanges.wait_ns[row]),
            false => request_ns,
        };
        let asked = match answered {
            true => exchanges.answered_ns[row],
            false if sent < next_ns => sent,
            false => request_ns,
        };
        let end_ns = if answered { exchanges.end_ns[row] } else { asked };
        let following = if last { end_ns } else { next_ns };
        // a response that was captured late cannot be later than the request that followed it
        let answer = end_ns.min(following);
        let asked = asked.min(answer);
        let turn = answer.wrapping_sub(asked);
        let response_wait = exchanges.response_wait_ns.get(row).min(turn);
        let since = match exchanges.uncertain[row] {
            true => exchanges.response_ns[row].min(answer),
            false => answer,
        };
        let vantage = handshakes.vantage[handshake as usize];
        let (in_turn, between) = match vantage {
            INITIATOR => (!by_responder, next_by_responder),
            _ => (by_responder, !last && !next_by_responder),
        };
        Self {
            request_ns,
            end_ns,
            last,
            answered,
            by_responder,
            next_by_responder,
            wait: asked.wrapping_sub(request_ns).wrapping_add(response_wait),
            turn: turn.wrapping_sub(response_wait),
            gap: following.wrapping_sub(answer),
            longest_gap: following.wrapping_sub(since),
            doubtful: exchanges.request_messages[row] > 1
                && exchanges.request_messages[row] != exchanges.response_messages[row],
            in_turn,
            holds_path: answered && (in_turn || between) && vantage != UNKNOWN_VANTAGE,
        }
    }

    /// The interval that the path is in.
    fn around_path(&self) -> i64 {
        if self.in_turn {
            self.turn
        } else {
            self.longest_gap
        }
    }
}

/// The round-trip times of paths that are not known otherwise.
#[derive(Default)]
struct MeasuredPaths {
    /// The pair of hosts of each handshake.
    pair: Vec<u32>,
    /// The shortest interval by pair, on the initiator's and on the responder's side; NEVER: unknown.
    shortest: Vec<[i64; 2]>,
}

impl MeasuredPaths {
    /// The round-trip time of a handshake's path.
    fn get(&self, handshakes: &Handshakes, handshake: usize) -> i64 {
        let pair = self
            .pair
            .get(handshake)
            .and_then(|&pair| self.shortest.get(pair as usize));
        match pair.map_or(NEVER, |pair| pair[side(handshakes, handshake)]) {
            NEVER => UNKNOWN,
            rtt => rtt,
        }
    }
}

fn side(handshakes: &Handshakes, handshake: usize) -> usize {
    usize::from(handshakes.vantage[handshake] == RESPONDER)
}

/// Measure the paths that hold an interval and are not known.
fn measure_paths(exchanges: &Exchanges, handshakes: &Handshakes, rows: &[u32]) -> MeasuredPaths {
    let mut paths = MeasuredPaths::default();
    if !handshakes.rtt_ns.contains(&UNKNOWN) {
        return paths;
    }
    let hosts = handshakes.initiator.iter().zip(handshakes.responder);
    let (pairs, count) = number_pairs(hosts.map(|(&initiator, &responder)| (initiator, responder)));
    paths.pair = pairs;
    paths.shortest = vec![[NEVER; 2]; count];
    let mut doubtful = Vec::new(); // intervals that are round trips if the transmission was answered that is assumed
    for (place, &row) in rows.iter().enumerate() {
        let handshake = exchanges.handshake[row as usize] as usize;
        let interval = Interval::get(exchanges, handshakes, rows, place);
        if !interval.holds_path {
            continue;
        }
        let at = (paths.pair[handshake] as usize, side(handshakes, handshake));
        if interval.in_turn && interval.doubtful {
            doubtful.push((at, interval));
        } else {
            let shortest = &mut paths.shortest[at.0][at.1];
            *shortest = interval.around_path().min(*shortest);
        }
    }
    let certain = paths.shortest.clone();
    for ((pair, side), interval) in doubtful {
        if may_measure(&interval, certain[pair][side]) {
            let shortest = &mut paths.shortest[pair][side];
            *shortest = interval.around_path().min(*shortest);
        }
    }
    paths
}

/// Whether an interval may measure the path although the request was repeated; `shortest` is the shortest certain one.
fn may_measure(interval: &Interval, shortest: i64) -> bool {
    let since_first = interval.around_path().wrapping_add(interval.wait) as f64;
    let round_trip = shortest as f64;
    let first_answered = since_first >= ABOUT_ONE.0 * round_trip
        && since_first <= ABOUT_ONE.1 * round_trip
        && (interval.around_path() as f64) < TOO_SHORT * round_trip;
    shortest == NEVER || !first_answered
}

impl Breakdown {
    fn new(count: usize) -> Self {
        Self {
            setup_ns: vec![UNKNOWN; count],
            initiator_setup_ns: vec![UNKNOWN; count],
            network_ns: vec![UNKNOWN; count],
            initiator_ns: vec![UNKNOWN; count],
            initiator_and_network_ns: vec![UNKNOWN; count],
            responder_ns: vec![UNKNOWN; count],
            aaa_ns: vec![UNKNOWN; count],
            wait_ns: vec![UNKNOWN; count],
            path_rtt_ns: vec![UNKNOWN; count],
            end_ns: vec![UNKNOWN; count],
        }
    }

    /// Divide the set-up time of a handshake, which consists of these intervals; `rtt` is that of its path.
    fn divide(
        &mut self,
        handshake: usize,
        handshakes: &Handshakes,
        intervals: impl Iterator<Item = Interval>,
        rtt: i64,
    ) {
        let (mut first_ns, mut end_ns, mut path_rtt, mut after_ns) = (None, UNKNOWN, UNKNOWN, UNKNOWN);
        let (mut networks, mut waits) = (0_i64, 0_i64);
        let mut sides = [0_i64; 2]; // the intervals of the initiator and of the responder
        let vantage = handshakes.vantage[handshake];
        for interval in intervals {
            first_ns.get_or_insert(interval.request_ns);
            let (mut turn, mut gap) = (interval.turn, interval.gap);
            if interval.holds_path && rtt != UNKNOWN {
                path_rtt = rtt;
                let around = if interval.in_turn { &mut turn } else { &mut gap };
                let network = rtt.min(*around);
                *around = around.wrapping_sub(network);
                networks = networks.wrapping_add(network);
            }
            // the side that answers, and the side that sends the next request
            for (responder, time) in [(!interval.by_responder, turn), (interval.next_by_responder, gap)] {
                let side = &mut sides[usize::from(responder)];
                *side = side.wrapping_add(time);
            }
            waits = waits.wrapping_add(interval.wait);
            if interval.last {
                end_ns = interval.end_ns;
                // the responder's message that ends the set-up arrives later
                let rtt = if vantage == RESPONDER {
                    handshakes.rtt_ns[handshake]
                } else {
                    UNKNOWN
                };
                let by_initiator = interval.by_responder == interval.answered;
                after_ns = if by_initiator && rtt != UNKNOWN { 0 } else { rtt };
            }
        }
        if vantage == INITIATOR {
            after_ns = 0;
        }
        let setup_ns = end_ns.wrapping_sub(first_ns.unwrap_or(UNKNOWN));
        self.setup_ns[handshake] = setup_ns;
        if after_ns != UNKNOWN {
            self.initiator_setup_ns[handshake] = setup_ns.wrapping_add(after_ns);
        }
        if path_rtt != UNKNOWN {
            self.network_ns[handshake] = networks;
        }
        let initiator = match vantage {
            UNKNOWN_VANTAGE => &mut self.initiator_and_network_ns,
            _ => &mut self.initiator_ns,
        };
        initiator[handshake] = sides[0];
        self.responder_ns[handshake] = sides[1];
        self.aaa_ns[handshake] = 0;
        self.wait_ns[handshake] = waits;
        self.path_rtt_ns[handshake] = path_rtt;
        self.end_ns[handshake] = end_ns;
    }
}
