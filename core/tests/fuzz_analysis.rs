//! Runs the functions of the analysis on generated columns: no values may make them panic, and nothing may be lost.
//!
//! `RUNS=10000000 cargo test --no-default-features --test fuzz_analysis` makes that many executions, and
//! `SEED` selects others. Arithmetic that overflows panics in tests.

use _core::analysis::association::{group_by_spi, Datagrams as SpiColumns};
use _core::analysis::duplicates::{find_candidates, Frames};
use _core::analysis::evidence::{self, collect_evidence, find_last_times, sum_auth_exchanges};
use _core::analysis::exchanges::{self, end_in_order, pair_exchanges, ExchangeTimes, MessageTimes};
use _core::analysis::grouping::{find_distinct, number_pairs};
use _core::analysis::handshakes;
use _core::analysis::host_pairs::{self, measure_host_pairs};
use _core::analysis::init_messages::{compare_nat_hashes, fit_form, Endpoints};
use _core::analysis::messages::{group_messages, Column, Datagrams, Messages};
use _core::analysis::sorting::order_times;
use _core::analysis::timing::{self, divide_set_up_times};
use _core::analysis::volumes::{self, sum_phases, sum_volumes};
use fastrand::Rng;

const HANDSHAKES: usize = 5;
/// Times outside of this range are set to its ends when a capture is read.
const LATEST_NS: i64 = (1 << 62) - 1;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn column<T>(rng: &mut Rng, rows: usize, mut value: impl FnMut(&mut Rng) -> T) -> Vec<T> {
    (0..rows).map(|_| value(rng)).collect()
}

fn choose<T: Copy>(values: &'static [T]) -> impl FnMut(&mut Rng) -> T {
    |rng| values[rng.usize(..values.len())]
}

/// Times in order, seldom at the ends of what is possible.
fn times(rng: &mut Rng, rows: usize) -> Vec<i64> {
    let mut values = column(rng, rows, |rng| match rng.u8(..32) {
        0 => -LATEST_NS,
        1 => LATEST_NS,
        _ => rng.i64(0..10_000_000_000),
    });
    values.sort_unstable();
    values
}

#[test]
fn generated_columns() {
    let mut rng = Rng::with_seed(variable("SEED", 1));
    for _ in 0..variable("RUNS", 20_000) {
        let rows = rng.usize(..60);
        frames(&mut rng, rows);
        init_messages(&mut rng);
        spis(&mut rng, rows);
        set_ups(&mut rng, rows);
        summaries(&mut rng, rows);
        datagrams(&mut rng, rows);
    }
}

fn frames(rng: &mut Rng, rows: usize) {
    let digest = column(rng, rows, choose(&[0, 1, 2, 3, 1 << 40, u64::MAX]));
    let mut time_ns = times(rng, rows);
    if rng.bool() {
        rng.shuffle(&mut time_ns);
    }
    let (ttl, interface) = (column(rng, rows, choose(&[63, 64])), column(rng, rows, choose(&[0, 1])));
    let frames = Frames {
        digest: &digest,
        time_ns: &time_ns,
        ttl: &ttl,
        interface: &interface,
    };
    let (repeated, candidates) = find_candidates(&frames);
    let (distinct, place) = find_distinct(&digest);
    assert_eq!(rows - repeated, distinct.len());
    assert!(digest
        .iter()
        .zip(&place)
        .all(|(&value, &place)| distinct[place as usize] == value));
    assert!(candidates.is_sorted_by_key(|&row| time_ns[row as usize]));
}

fn init_messages(rng: &mut Rng) {
    let size = rng.usize(..80);
    let heap = column(rng, size, |rng| rng.u8(..2));
    let begin = column(rng, 4, |rng| rng.i64(-1..100));
    let (low, high) = (
        column(rng, 3, |rng| rng.i64(-1..40)),
        column(rng, 3, |rng| rng.i64(-1..40)),
    );
    fit_form(&heap, &begin, &heap[..size / 2], &low, &high);
    let address = column(rng, 4, choose(&[1, 1 << 32, (1 << 32) + 1, u64::MAX]));
    let ends = Endpoints {
        address: &address,
        port: &[500; 4],
        ipv6: &[1; 16],
    };
    compare_nat_hashes(&heap, &begin, &[16, i64::MAX], &ends);
    compare_nat_hashes(&heap, &begin, &low, &ends);
}

fn summaries(rng: &mut Rng, rows: usize) {
    let handshake = column(rng, rows, |rng| rng.i32(-1..HANDSHAKES as i32 * 9) / 9);
    let columns = handshakes::Datagrams {
        handshake: &handshake,
        from_initiator: &column(rng, rows, |rng| rng.bool()),
        protocol: &column(rng, rows, choose(&[0, 0, 0, 1, 3])),
        exchange_type: &column(rng, rows, choose(&[34, 35, 38, 129])),
        flags: &column(rng, rows, |rng| rng.u8(..)),
        next_payload: &column(rng, rows, choose(&[33, 41])),
        spi_r: &column(rng, rows, choose(&[0, 1])),
    };
    let count = rng.usize(..=HANDSHAKES);
    let summary = handshakes::summarise(&columns, count);
    let all_exist = handshake.iter().all(|&number| (0..count as i32).contains(&number));
    assert_eq!(summary.is_some(), all_exist);
    let first = handshakes::find_first_rows(&handshake, count);
    assert_eq!(first.is_some(), all_exist);
    for &row in first.iter().flatten().filter(|&&row| row > 0) {
        assert!(!handshake[..row as usize].contains(&handshake[row as usize]));
    }
    let ttl = column(rng, rows, choose(&[63, 64]));
    let port = column(rng, rows, choose(&[500, 4500]));
    let asked = columns.from_initiator;
    let sides = handshakes::infer_capture_sides(&handshake, asked, &ttl, count);
    let on_port = handshakes::find_responders_on_port(&handshake, asked, &port, 4500, count);
    assert_eq!((sides.is_some(), on_port.is_some()), (all_exist, all_exist));
    for row in summary
        .iter()
        .flat_map(|summary| summary.request.iter().chain(&summary.response))
    {
        assert!(*row < rows as i64);
    }
}

/// Exchanges with any numbers and times, whether or not they fit together.
fn set_ups(rng: &mut Rng, rows: usize) {
    let anything = |rng: &mut Rng| match rng.u8(..8) {
        0 => i64::MIN,
        1 => -LATEST_NS,
        2 => LATEST_NS,
        _ => rng.i64(0..3_000_000_000),
    };
    let least = if rng.u8(..8) == 0 { -1 } else { 0 };
    let mut handshake = column(rng, rows, |rng| rng.i32(least..HANDSHAKES as i32));
    if rng.u8(..4) > 0 {
        handshake.sort_unstable();
    }
    let all_exist = handshake.iter().all(|&number| number >= 0);
    let protocol = column(rng, rows, choose(&[0, 0, 0, 1, 3]));
    let exchange_type = column(rng, rows, choose(&[2, 4, 5, 32, 34, 35, 37, 38, 39, 129, 131, 145]));
    let (message_id, attempt) = (
        column(rng, rows, choose(&[0, 1, 2, u32::MAX])),
        column(rng, rows, choose(&[0, 1, 2])),
    );
    let (asked, set_up) = (column(rng, rows, Rng::bool), column(rng, rows, Rng::bool));
    let requests = column(rng, rows, choose(&[0, 1, 1, 2, 3]));
    let responses = column(rng, rows, choose(&[0, 1, 1, 2, 3]));
    let [request_ns, response_ns, end_ns, answered_ns, wait_ns] = [(); 5].map(|()| column(rng, rows, anything));
    let undone = column(rng, HANDSHAKES, Rng::bool);
    let of_exchanges = evidence::Exchanges {
        handshake: &handshake,
        protocol: &protocol,
        exchange_type: &exchange_type,
        message_id: &message_id,
        start_ns: &request_ns,
        attempt: &attempt,
        initiator_asked: &asked,
        set_up: &set_up,
        request_messages: &requests,
        response_messages: &responses,
        unprotected: &column(rng, rows, Rng::bool),
        unreceived: &column(rng, rows, Rng::bool),
        asked_in_clear: &column(rng, rows, Rng::bool),
    };
    assert_eq!(collect_evidence(&of_exchanges, &undone).is_some(), all_exist);
    let bytes = column(rng, rows, |rng| rng.i64(0..2000));
    let types = (&handshake[..], &protocol[..], &exchange_type[..]);
    if let Some(sums) = sum_auth_exchanges(types, (&requests, &bytes), (&responses, &bytes), HANDSHAKES) {
        assert_eq!(sums.request_bytes, sums.response_bytes);
    }
    let exchange = column(rng, rows, |rng| rng.i32(-1..rows as i32 + 1));
    find_last_times(&exchange, &end_ns, &handshake, &set_up, HANDSHAKES);
    let (initiator, responder) = (
        column(rng, HANDSHAKES, choose(&[1, u64::MAX])),
        column(rng, HANDSHAKES, choose(&[1, 2])),
    );
    let (pairs, count) = number_pairs(initiator.iter().copied().zip(responder.iter().copied()));
    assert!(pairs.iter().all(|&pair| (pair as usize) < count));
    let with_ends = host_pairs::Exchanges {
        handshake: &handshake,
        initiator_asked: &asked,
        set_up: &set_up,
        request_messages: &requests,
        response_messages: &responses,
        request_ns: &request_ns,
        end_ns: &end_ns,
    };
    let messages = host_pairs::Messages {
        exchange: &exchange,
        response: &column(rng, rows, Rng::bool),
        initiator_asked: &column(rng, rows, Rng::bool),
        transmission: &column(rng, rows, choose(&[1, 1, 1, 1, 2])),
        first_ns: &wait_ns,
    };
    if let Some(measures) = measure_host_pairs(&with_ends, &messages, &initiator, &responder) {
        assert!(measures.round_trip_ns.iter().all(|&time| time >= 0));
        assert!(measures
            .following
            .iter()
            .zip(0..)
            .all(|(&next, row)| next == -1 || next > row));
    }
    let answers = timing::Exchanges {
        handshake: &handshake,
        set_up: &set_up,
        initiator_asked: &asked,
        request_messages: &requests,
        response_messages: &responses,
        request_ns: &request_ns,
        response_ns: &response_ns,
        answered_ns: &answered_ns,
        end_ns: &end_ns,
        wait_ns: &wait_ns,
        response_wait_ns: if rng.bool() {
            Column::Same(0)
        } else {
            Column::Rows(&response_ns)
        },
        uncertain: &column(rng, rows, Rng::bool),
    };
    let paths = timing::Handshakes {
        complete: &column(rng, HANDSHAKES, Rng::bool),
        initiator: &initiator,
        responder: &responder,
        vantage: &column(rng, HANDSHAKES, choose(&[0, 1, 2, 3])),
        rtt_ns: &column(rng, HANDSHAKES, anything),
    };
    assert_eq!(divide_set_up_times(&answers, &paths).is_some(), all_exist);
    let order = order_times(&end_ns);
    assert!(order.windows(2).all(|pair| {
        let [first, second] = [pair[0], pair[1]].map(|row| (end_ns[row as usize], row));
        first < second
    }));
}

fn spis(rng: &mut Rng, rows: usize) {
    let spi_i = column(rng, rows, choose(&[0, 1, 2, 3, u64::MAX]));
    let columns = SpiColumns {
        spi_i: &spi_i,
        spi_r: &column(rng, rows, choose(&[0, 1])),
        protocol: &column(rng, rows, choose(&[0, 0, 0, 1])),
        exchange_type: &column(rng, rows, choose(&[5, 34, 35, 38])),
        flags: &column(rng, rows, |rng| rng.u8(..)),
        digest: &column(rng, rows, choose(&[1, 2])),
        first_ns: &times(rng, rows),
        source: &column(rng, rows, choose(&[1, u64::MAX])),
        source_port: &column(rng, rows, choose(&[500, u16::MAX])),
        destination: &column(rng, rows, choose(&[1, u64::MAX])),
        destination_port: &column(rng, rows, choose(&[500, u16::MAX])),
    };
    let (labels, ambiguous) = group_by_spi(&spi_i, &columns);
    let (distinct, place) = find_distinct(&spi_i);
    assert_eq!(ambiguous.len(), distinct.len());
    assert!(labels.iter().zip(place).all(|(&label, place)| label == place as i32));
}

/// Datagrams to messages, exchanges and sums of handshakes: messages, frames and bytes are the same in all of them.
fn datagrams(rng: &mut Rng, rows: usize) {
    let handshake = column(rng, rows, |rng| rng.i32(0..HANDSHAKES as i32));
    let message_id = column(rng, rows, choose(&[0, 1, 2]));
    let exchange_type = column(rng, rows, choose(&[34, 35, 37]));
    let (asked, response) = (column(rng, rows, Rng::bool), column(rng, rows, Rng::bool));
    let slot: Vec<i64> = (0..rows)
        .map(|row| {
            let pair =
                (i64::from(handshake[row]) << 2 | i64::from(message_id[row])) << 8 | i64::from(exchange_type[row]);
            (pair << 1 | i64::from(!asked[row])) << 1 | i64::from(response[row])
        })
        .collect();
    let fragmented = rng.bool();
    let fragment = column(rng, rows, |rng| if fragmented { rng.u16(..4) } else { 0 });
    let totals: &'static [u16] = &[0, 2, 3, 3, u16::MAX];
    let fragments: Vec<u16> = fragment
        .iter()
        .map(|&number| {
            if number > 0 {
                totals[rng.usize(..totals.len())]
            } else {
                0
            }
        })
        .collect();
    let first_ns = times(rng, rows);
    let last_ns: Vec<i64> = first_ns
        .iter()
        .map(|&when| when.saturating_add(rng.i64(0..1000)))
        .collect();
    let frames = column(rng, rows, |rng| rng.i64(1..4));
    let narrow = column(rng, rows, |rng| rng.u32(..));
    let bytes: Vec<i64> = narrow.iter().map(|&size| i64::from(size)).collect();
    let resent_bytes: Vec<i64> = bytes.iter().map(|&size| rng.i64(0..=size)).collect();
    let ip_fragments = column(rng, rows, choose(&[0, 0, 2]));
    let arrived = column(rng, rows, choose(&[true, true, false]));
    let columns = Datagrams {
        handshake: &handshake,
        from_initiator: &asked,
        initiator_asked: &asked,
        response: &response,
        ikev1: &column(rng, rows, choose(&[false, false, true])),
        arrived: rng.bool().then_some(&arrived[..]),
        first_ns: &first_ns,
        last_ns: &last_ns,
        number: &column(rng, rows, |rng| rng.u32(..)),
        frames: if rng.bool() {
            Column::Rows(&frames)
        } else {
            Column::Same(1)
        },
        bytes: if rng.bool() {
            Column::Rows(&bytes)
        } else {
            Column::Narrow(&narrow)
        },
        resent_bytes: if rng.bool() {
            Column::Rows(&resent_bytes)
        } else {
            Column::Same(0)
        },
        ip_fragments: if rng.bool() {
            Column::Rows(&ip_fragments)
        } else {
            Column::Same(0)
        },
        protocol: &column(rng, rows, choose(&[0, 1])),
        exchange_type: &exchange_type,
        next_payload: &column(rng, rows, choose(&[33, 41])),
        message_id: &message_id,
        fragment: &fragment,
        fragments: &fragments,
        digest: &column(rng, rows, choose(&[1, 2, u64::MAX])),
    };
    let messages = group_messages(&slot, &columns).expect("no handshake is negative");
    assert!(messages.slot.is_sorted());
    assert!(messages.transmission.iter().all(|&transmission| transmission > 0));
    assert_eq!(messages.bytes.iter().sum::<i64>(), bytes.iter().sum::<i64>());
    for (row, &message) in messages.of_datagram.iter().enumerate() {
        assert_eq!(messages.slot[message as usize], slot[row]);
    }
    exchanges_and_sums(rng, &messages, &first_ns);
}

fn exchanges_and_sums(rng: &mut Rng, messages: &Messages, first_ns: &[i64]) {
    let columns = exchanges::Messages {
        slot: &messages.slot,
        handshake: &messages.handshake,
        protocol: &messages.protocol,
        exchange_type: &messages.exchange_type,
        message_id: &messages.message_id,
        initiator_asked: &messages.initiator_asked,
        response: &messages.response,
        first_ns: &messages.first_ns,
        frames: &messages.frames,
        bytes: &messages.bytes,
    };
    let count = messages.slot.len();
    let attempt = if rng.bool() {
        vec![0; count]
    } else {
        (0..count)
            .map(|row| messages.body.get(row).map_or(0, |&body| body as i32))
            .collect()
    };
    let paired = pair_exchanges(&columns, &attempt);
    let sent = paired.request.bytes.iter().chain(&paired.response.bytes).sum::<i64>();
    assert_eq!(sent, messages.bytes.iter().sum::<i64>());
    let times = MessageTimes {
        exchange: &paired.of_message,
        response: &messages.response,
        first_ns: &messages.first_ns,
        last_ns: &messages.last_ns,
    };
    let of_exchanges = ExchangeTimes {
        handshake: &paired.handshake,
        protocol: &paired.protocol,
        initiator_asked: &paired.initiator_asked,
        start_ns: &paired.start_ns,
        request_ns: &paired.request.first_ns,
        response_ns: &paired.response.first_ns,
    };
    let endings = end_in_order(&times, &of_exchanges).expect("each exchange has a message");
    assert_eq!(endings.end_ns.len(), paired.handshake.len());
    assert!(endings
        .answered_ns
        .iter()
        .all(|when| *when == i64::MIN || first_ns.contains(when)));
    let sums = volumes::Messages {
        handshake: &messages.handshake,
        set_up: &column(rng, count, Rng::bool),
        from_initiator: &messages.from_initiator,
        protocol: &messages.protocol,
        exchange_type: &messages.exchange_type,
        transmission: &messages.transmission,
        first_ns: &messages.first_ns,
        frames: &messages.frames,
        bytes: &messages.bytes,
        needed_bytes: &messages.needed_bytes,
        fragments: &messages.fragments,
        fragments_seen: &messages.fragments_seen,
        ip_fragments: match &messages.ip_fragments[..] {
            [] => Column::Same(0),
            rows => Column::Rows(rows),
        },
    };
    let volumes = sum_volumes(&sums, HANDSHAKES).expect("each message is of a handshake");
    let total: u32 = volumes
        .by_side
        .iter()
        .flatten()
        .flat_map(|volume| &volume.messages)
        .sum();
    assert_eq!(total as usize, count);
    let phases = sum_phases(&sums, HANDSHAKES).expect("messages are in order of handshake");
    let in_set_up: u32 = volumes.by_side[0].iter().flat_map(|volume| &volume.messages).sum();
    assert_eq!(phases.messages.iter().sum::<u32>(), in_set_up);
}
