//! What the exchanges between two hosts show about the path between them (ikeanalyze/analysis/exchanges/answers.py,
//! which explains it).

use super::grouping::number_pairs;

/// Unknown time, and later than all times (exchanges.py).
const UNKNOWN: i64 = i64::MIN;
const NEVER: i64 = i64::MAX;
/// The longest time that one round trip takes, in round trips.
const MAX_ROUND_TRIP: f64 = 1.25;

/// The columns of the exchanges, all of one length, in order of handshake and time.
pub struct Exchanges<'a> {
    pub handshake: &'a [i32],
    pub initiator_asked: &'a [bool],
    pub set_up: &'a [bool],
    pub request_messages: &'a [u32],
    pub response_messages: &'a [u32],
    pub request_ns: &'a [i64],
    /// When it ended, by the order of the transmissions.
    pub end_ns: &'a [i64],
}

/// The columns of the messages, all of one length.
pub struct Messages<'a> {
    pub exchange: &'a [i32],
    pub response: &'a [bool],
    pub initiator_asked: &'a [bool],
    pub transmission: &'a [u32],
    pub first_ns: &'a [i64],
}

/// What is known about the exchanges and about the pairs of hosts.
pub struct Measures {
    /// The row of the initiator's next exchange in the same handshake, or -1. (exchanges,)
    pub following: Vec<i64>,
    /// Whether that follows at once and sets up the IKE SA. (exchanges,)
    pub continues: Vec<bool>,
    /// The pair of hosts of each handshake.
    pub pair: Vec<u32>,
    /// The round trip between capture point and initiator; 0: unknown. (pairs,)
    pub round_trip_ns: Vec<i64>,
    /// Whether the round trip may take longer than the retransmission timer. (pairs,)
    pub possibly_long: Vec<bool>,
}

/// The sums of a pair of hosts.
#[derive(Clone)]
struct Pair {
    shortest: i64, // round trip
    agreeing: u32, // repeated exchanges with about this round trip
    often: u32,    // exchanges that were repeated
    seldom: u32,
    longest: i64, // bound of the round trip
    timer: i64,   // shortest timer
}

/// Measure the paths between the hosts of handshakes. None: an exchange is of no handshake, or a message of no exchange.
pub fn measure_host_pairs(
    exchanges: &Exchanges,
    messages: &Messages,
    initiator: &[u64],
    responder: &[u64],
) -> Option<Measures> {
    let count = exchanges.handshake.len();
    let is_outside = |&handshake: &i32| usize::try_from(handshake).map_or(true, |row| row >= initiator.len());
    if initiator.len() != responder.len() || exchanges.handshake.iter().any(is_outside) {
        return None;
    }
    let (following, continues) = find_next_exchanges(exchanges);
    let (pair_of, pairs) = number_pairs(initiator.iter().copied().zip(responder.iter().copied()));
    let mut pairs = vec![
        Pair {
            shortest: NEVER,
            agreeing: 0,
            often: 0,
            seldom: 0,
            longest: NEVER,
            timer: NEVER,
        };
        pairs
    ];
    let pair_of_exchange = |row: usize| pair_of[exchanges.handshake[row] as usize] as usize;
    let mut repeated_gaps = Vec::new();
    for row in (0..count).filter(|&row| exchanges.initiator_asked[row] && exchanges.end_ns[row] != UNKNOWN) {
        let number = pair_of_exchange(row);
        let pair = &mut pairs[number];
        let (requests, responses) = (exchanges.request_messages[row], exchanges.response_messages[row]);
        if requests > 1 && responses > 1 {
            pair.often += 1;
        } else if requests > 0 {
            pair.seldom += 1;
        }
        if !continues[row] {
            continue;
        }
        let next_ns = exchanges.request_ns[following[row] as usize];
        if responses == 1 {
            let gap = next_ns.wrapping_sub(exchanges.end_ns[row]);
            pair.shortest = gap.min(pair.shortest);
            if requests > 1 {
                repeated_gaps.push((number, gap));
            }
        }
        if requests == 1 {
            pair.longest = next_ns.wrapping_sub(exchanges.request_ns[row]).min(pair.longest);
        }
    }
    for (number, gap) in repeated_gaps {
        let pair = &mut pairs[number];
        pair.agreeing += u32::from(gap as f64 <= MAX_ROUND_TRIP * pair.shortest as f64);
    }
    for (row, &transmission) in messages.transmission.iter().enumerate() {
        if transmission == 2 && !messages.response[row] && messages.initiator_asked[row] {
            let exchange = usize::try_from(messages.exchange[row])
                .ok()
                .filter(|&row| row < count)?;
            let timer = messages.first_ns[row].wrapping_sub(exchanges.request_ns[exchange]);
            let pair = &mut pairs[pair_of_exchange(exchange)];
            pair.timer = timer.min(pair.timer);
        }
    }
    let round_trip = |pair: &Pair| match pair.agreeing > 1 && pair.shortest > 0 {
        true => pair.shortest,
        false => 0,
    };
    let is_possibly_long =
        |pair: &Pair| pair.often > pair.seldom && MAX_ROUND_TRIP * pair.longest as f64 > pair.timer as f64;
    Some(Measures {
        following,
        continues,
        pair: pair_of,
        round_trip_ns: pairs.iter().map(round_trip).collect(),
        possibly_long: pairs.iter().map(is_possibly_long).collect(),
    })
}

/// The row of the initiator's next exchange in the same handshake, or -1; and whether it follows at once in the set-up.
fn find_next_exchanges(exchanges: &Exchanges) -> (Vec<i64>, Vec<bool>) {
    let count = exchanges.handshake.len();
    let (mut following, mut continues) = (vec![-1; count], vec![false; count]);
    let mut next: Option<usize> = None;
    for row in (0..count).rev() {
        if !exchanges.initiator_asked[row] || exchanges.request_ns[row] == UNKNOWN {
            continue;
        }
        if let Some(next) = next.filter(|&next| exchanges.handshake[next] == exchanges.handshake[row]) {
            following[row] = next as i64;
            continues[row] = next == row + 1 && exchanges.set_up[row] && exchanges.set_up[next];
        }
        next = Some(row);
    }
    (following, continues)
}
