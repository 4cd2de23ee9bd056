//! Runs the functions of the core on damaged captures: no input may make them panic, or break what they promise.
//!
//! `RUNS=10000000 cargo test --no-default-features --test fuzz` makes that many executions of each target,
//! and `SEED` selects others. Arithmetic that overflows panics in tests.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use _core::analysis::init_messages::InitForms;
use _core::capture::copy::copy_ranges;
use _core::capture::file::{read_file, Limits, MessageReader, Part, Plan, State, WantedSpis};
use _core::capture::frames::{scan, Link, Packets, Scan, Tables};
use _core::capture::header_rules::HeaderRules;
use _core::capture::records::{find_packet_blocks, guess_record, walk_pcap, PcapLayout, FILE_HEADER};
use fastrand::Rng;

/// Longest input: longer ones take longer, and rarely reach more.
const MAX_BYTES: usize = 4096;
const BOUNDARIES: [u32; 12] = [
    0,
    1,
    7,
    8,
    20,
    28,
    0x7FFF,
    0xFFFF,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFF0,
    u32::MAX,
];

fn runs() -> u64 {
    std::env::var("RUNS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20_000)
}

fn rng() -> Rng {
    Rng::with_seed(
        std::env::var("SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(1),
    )
}

/// The recorded captures of the repository.
fn seeds() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures");
    let mut paths: Vec<PathBuf> = [root.clone(), root.join("lab")]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).expect("captures/"))
        .map(|entry| entry.expect("captures/").path())
        .filter(|path| path.extension().is_some_and(|name| name == "pcap" || name == "pcapng"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).expect("a capture"))
        .collect()
}

/// A damaged part of a capture.
fn input(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let seed = &seeds[rng.usize(..seeds.len())];
    let begin = match rng.u8(..4) {
        0 => 24.min(seed.len()),
        1 => 0,
        _ => rng.usize(..=seed.len()),
    };
    let mut data = seed[begin..(begin + rng.usize(..MAX_BYTES)).min(seed.len())].to_vec();
    for _ in 0..rng.usize(..6) {
        mutate(&mut data, rng);
    }
    data
}

fn mutate(data: &mut Vec<u8>, rng: &mut Rng) {
    if data.is_empty() {
        return;
    }
    let place = rng.usize(..data.len());
    match rng.u8(..6) {
        0 => data[place] ^= 1 << rng.u8(..8),
        1 => data[place] = rng.u8(..),
        2 | 3 => {
            let number = BOUNDARIES[rng.usize(..BOUNDARIES.len())];
            let bytes = if rng.bool() {
                number.to_be_bytes()
            } else {
                number.to_le_bytes()
            };
            let width = [1, 2, 4][rng.usize(..3)];
            let part = &bytes[if rng.bool() { 0 } else { 4 - width }..][..width];
            for (target, byte) in data[place..].iter_mut().zip(part) {
                *target = *byte;
            }
        }
        4 => data.truncate(place),
        _ => {
            let copy = data[place..(place + rng.usize(..200)).min(data.len())].to_vec();
            let target = rng.usize(..=data.len());
            data.splice(target..target, copy);
        }
    }
}

fn layout(rng: &mut Rng) -> PcapLayout {
    let modified = rng.u8(..8) == 0;
    PcapLayout {
        big_endian: rng.u8(..4) == 0,
        lengths_swapped: rng.u8(..8) == 0,
        lengths_unordered: rng.u8(..8) == 0,
        header_size: if modified { 24 } else { 16 },
        fraction_ns: if rng.bool() { 1 } else { 1000 },
        usual: if rng.bool() { 262_144 } else { 1000 },
    }
}

#[test]
fn records_are_in_the_file_and_in_order() {
    let (seeds, mut rng) = (seeds(), rng());
    for _ in 0..runs() {
        let data = input(&seeds, &mut rng);
        let (start, end) = (rng.usize(..=data.len()), rng.usize(..=data.len()));
        let layout = layout(&mut rng);
        let Some(records) = walk_pcap(&data, start, end, &layout) else {
            continue;
        };
        let mut next = start;
        for ((&offset, &captured), &length) in records.offset.iter().zip(&records.captured).zip(&records.length) {
            assert_eq!(offset as usize, next + layout.header_size);
            assert!(captured > 0 && captured <= length);
            next = (offset + captured) as usize;
        }
        assert_eq!(next, records.stop);
        assert!(records.stop <= end || records.stop == start);
        assert_eq!(records.time_ns.len(), records.offset.len());
    }
}

#[test]
fn packet_blocks_are_in_the_file_and_in_order() {
    let (seeds, mut rng) = (seeds(), rng());
    for _ in 0..runs() {
        let data = input(&seeds, &mut rng);
        let (start, end) = (rng.usize(..=data.len()), rng.usize(..=data.len() + 8));
        let (big_endian, numbered) = (rng.u8(..4) == 0, rng.bool());
        let (positions, stop) = find_packet_blocks(&data, start, end, big_endian, numbered);
        assert!(positions.windows(2).all(|pair| pair[0] + 16 <= pair[1]));
        assert!(positions
            .iter()
            .all(|&at| at as usize >= start && at as usize + 16 <= stop));
        assert!(stop <= data.len() || stop == start);
    }
}

/// What headers mean, as Python says; random in a few executions.
struct Meanings {
    ethertypes: Vec<u8>,
    protocols: Vec<u8>,
    ports: Vec<u8>,
}

impl Meanings {
    fn usual() -> Self {
        let mut meanings = Self {
            ethertypes: vec![0; 1 << 16],
            protocols: vec![8; 256],
            ports: vec![0; 1 << 16],
        };
        for (kind, meaning) in [
            (0x0800, 1),
            (0x86DD, 2),
            (0x8100, 3),
            (0x88A8, 3),
            (0x8864, 255),
            (0x8847, 255),
        ] {
            meanings.ethertypes[kind] = meaning;
        }
        for (protocol, meaning) in [(17, 253), (6, 254), (50, 1), (51, 255), (44, 255), (1, 251), (58, 252)] {
            meanings.protocols[protocol] = meaning;
        }
        for (port, flags) in [(500, 1), (4500, 2 | 32), (1812, 8), (4789, 16), (5000, 4 | 32)] {
            meanings.ports[port] = flags;
        }
        meanings
    }

    fn random(rng: &mut Rng) -> Self {
        let mut make = |size: usize| (0..rng.usize(..=size)).map(|_| rng.u8(..)).collect();
        Self {
            ethertypes: make(1 << 12),
            protocols: make(256),
            ports: make(1 << 12),
        }
    }
}

#[test]
fn each_packet_is_counted_or_handed_back_once() {
    let (seeds, mut rng) = (seeds(), rng());
    let usual = Meanings::usual();
    let mut messages = 0;
    for _ in 0..runs() {
        let data = input(&seeds, &mut rng);
        let random = if rng.u8(..200) == 0 {
            Some(Meanings::random(&mut rng))
        } else {
            None
        };
        let meanings = random.as_ref().unwrap_or(&usual);
        let links = [
            Link::EtherType { size: 14, at: 12 },
            Link::EtherType { size: 16, at: 14 },
            Link::EtherType {
                size: rng.usize(..),
                at: rng.usize(..),
            },
            Link::Raw,
            Link::HandBack,
        ];
        let link = [0, 0, 0, 1, 2, 3, 4][rng.usize(..7)];
        let tables = Tables {
            links: &links[link..=link],
            ethertypes: &meanings.ethertypes,
            protocols: &meanings.protocols,
            ports: &meanings.ports,
        };
        let records = walk_pcap(&data, 0, data.len(), &layout(&mut rng));
        let mut records = records.unwrap_or_default();
        for (offset, captured) in random_frames(&data, &mut rng) {
            records.offset.push(offset);
            records.captured.push(captured);
            records
                .length
                .push(captured.saturating_add([0, 0, 100, -1, i64::MAX][rng.usize(..5)]));
            records.time_ns.push(rng.i64(..));
        }
        let count = records.offset.len();
        let packets = Packets {
            data: &data,
            offset: &records.offset,
            captured: &records.captured,
            length: &records.length,
            time_ns: &records.time_ns,
            interface: &vec![u32::from(rng.u8(..50) == 0); count],
        };
        let result = scan(&packets, &tables, rng.u32(..));
        check(&result, &packets, count);
        messages += result.row.len();
    }
    assert!(messages > 0);
}

#[test]
fn a_packet_without_message_is_not_counted_as_ike() {
    let mut meanings = Meanings::usual();
    meanings.protocols[50] = 0;
    let tables = Tables {
        links: &[Link::Raw],
        ethertypes: &meanings.ethertypes,
        protocols: &meanings.protocols,
        ports: &meanings.ports,
    };
    let mut data = vec![0; 40];
    (data[0], data[3], data[9]) = (0x45, 40, 50);
    let packets = Packets {
        data: &data,
        offset: &[0],
        captured: &[40],
        length: &[40],
        time_ns: &[0],
        interface: &[0],
    };
    let result = scan(&packets, &tables, 1);
    check(&result, &packets, 1);
    assert_eq!(result.rest, [0]);
}

/// Frames anywhere in the data, and outside of it.
fn random_frames(data: &[u8], rng: &mut Rng) -> Vec<(i64, i64)> {
    (0..rng.usize(..4))
        .map(|_| match rng.u8(..8) {
            0 => (rng.i64(..), rng.i64(..)),
            _ => (rng.i64(0..=data.len() as i64), rng.i64(0..200)),
        })
        .collect()
}

fn check(result: &Scan, packets: &Packets, count: usize) {
    let counted: i64 = result.packets.iter().sum();
    assert_eq!(counted as usize + result.rest.len(), count);
    assert_eq!(result.packets[0] as usize, result.row.len());
    assert!(result.row.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(result.rest.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(result.row.iter().all(|row| result.rest.binary_search(row).is_err()));
    let lengths = [
        result.begin.len(),
        result.digest.len(),
        result.spi_r.len(),
        result.fragments.len(),
    ];
    assert!(lengths.iter().all(|&length| length == result.row.len()));
    for (index, &row) in result.row.iter().enumerate() {
        let (begin, end, row) = (result.begin[index], result.end[index], row as usize);
        let frame = packets.offset[row]..=packets.offset[row] + packets.captured[row];
        assert!(begin + 28 <= end && frame.contains(&begin) && frame.contains(&end));
        assert!(end - begin <= i64::from(result.ike_bytes[index]));
    }
    let ipv6 = result.ipv6.len() as u64;
    assert!(result
        .source
        .iter()
        .chain(&result.destination)
        .all(|&code| code < (1 << 32) + ipv6));
}

#[test]
fn a_guessed_record_is_followed_by_others() {
    let (seeds, mut rng) = (seeds(), rng());
    let mut guessed = 0;
    for _ in 0..runs() {
        let data = input(&seeds, &mut rng);
        let layout = layout(&mut rng);
        let Some(at) = guess_record(&data, &layout) else {
            continue;
        };
        let records = walk_pcap(&data, at, data.len(), &layout).expect("plausible records");
        assert!(records.offset.len() >= 7);
        guessed += 1;
    }
    assert!(guessed > 0);
}

#[test]
fn blocks_of_a_file_have_what_all_of_it_has() {
    let (seeds, mut rng) = (seeds(), rng());
    let meanings = Meanings::usual();
    let mut messages_read = 0;
    for _ in 0..runs() {
        let data = input(&seeds, &mut rng);
        let spis: HashSet<u64> = [rng.u64(..)].into();
        let forms = InitForms::default();
        let mut plan = Plan {
            layout: layout(&mut rng),
            tables: Tables {
                links: &[Link::EtherType { size: 14, at: 12 }],
                ethertypes: &meanings.ethertypes,
                protocols: &meanings.protocols,
                ports: &meanings.ports,
            },
            encrypted: if rng.bool() {
                WantedSpis::All
            } else {
                WantedSpis::Of(&spis)
            },
            reader: rng.bool().then_some(&forms as &dyn MessageReader),
        };
        let size = data.len() as u64;
        let read = |begin: u64, block: u64, threads: usize, rest: usize, plan: &Plan| {
            let limits = Limits {
                threads,
                block,
                rest,
                unconfirmed: u64::MAX,
            };
            let open = |offset: u64| data.get(offset as usize..);
            read_file(open, (begin, size), 1, limits, plan, &State::default())
        };
        let whole = read(0, size, 1, usize::MAX, &plan);
        check_part(&whole, &data);
        let block = [1, 100, 500, 2000][rng.usize(..4)] * rng.u64(1..4);
        let threads = if rng.u8(..16) == 0 { 3 } else { 1 };
        let blocks = read(0, block, threads, usize::MAX, &plan);
        check_equal(&blocks, &whole, &data);
        check_samples(&forms);
        messages_read += blocks.readings.row.len();
        // in parts, because of a limit for the packets that are handed back
        plan.reader = None;
        let whole = read(0, size, 1, usize::MAX, &plan);
        let (mut stop, mut packets, mut digests, mut rest) = (0, 0, Vec::new(), Vec::new());
        loop {
            let part = read(stop, block, 1, 200, &plan);
            check_part(&part, &data);
            digests.extend_from_slice(&part.scan.digest);
            rest.extend_from_slice(&part.rest.data[..part.rest.data.len() - 256]);
            packets += part.packets;
            if part.stop == stop {
                break;
            }
            stop = part.stop;
        }
        assert_eq!((stop, packets), (whole.stop, whole.packets));
        assert_eq!(digests, whole.scan.digest);
        assert_eq!(rest, whole.rest.data[..rest.len()]);
        assert_eq!(rest.len() + 256, whole.rest.data.len());
    }
    assert!(messages_read > 0);
}

#[test]
fn a_reading_that_is_confirmed_later_has_all_of_the_file() {
    let (seeds, mut rng) = (seeds(), rng());
    let rules = HeaderRules::new(&[]);
    let links = [Link::EtherType { size: 14, at: 12 }];
    for _ in 0..runs() / 20 {
        let data = input(&seeds, &mut rng);
        let plan = Plan {
            layout: layout(&mut rng),
            tables: rules.tables(&links),
            encrypted: WantedSpis::All,
            reader: None,
        };
        let size = data.len() as u64;
        let open = |offset: u64| data.get(offset as usize..);
        let mut limits = Limits {
            threads: 1,
            block: size,
            rest: usize::MAX,
            unconfirmed: u64::MAX,
        };
        let whole = read_file(open, (0, size), 1, limits, &plan, &State::default());
        (limits.threads, limits.block, limits.unconfirmed) = (rng.usize(1..4), rng.u64(1..5000), rng.u64(..10_000));
        let state = State::unconfirmed();
        let late = std::thread::scope(|scope| {
            let reading = scope.spawn(|| read_file(open, (0, size), 1, limits, &plan, &state));
            state.confirm();
            reading.join().expect("no panic")
        });
        check_equal(&late, &whole, &data);
    }
}

#[test]
fn a_file_header_gives_a_layout_or_none() {
    let mut rng = rng();
    for _ in 0..runs() {
        let mut header = [0; FILE_HEADER];
        header[..8].copy_from_slice(&[0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0]);
        for _ in 0..rng.usize(..4) {
            header[rng.usize(..FILE_HEADER)] = rng.u8(..);
        }
        if let Some((layout, link_type)) = PcapLayout::parse(&header) {
            assert!(layout.usual >= 262_144 && link_type < 1 << 26);
        }
    }
}

#[test]
fn a_file_that_changes_is_read_up_to_there() {
    let (seeds, mut rng) = (seeds(), rng());
    let meanings = Meanings::usual();
    let forms = InitForms::default();
    let mut stopped = 0;
    for _ in 0..runs() {
        let data = input(&seeds, &mut rng);
        let plan = Plan {
            layout: layout(&mut rng),
            tables: Tables {
                links: &[Link::EtherType { size: 14, at: 12 }],
                ethertypes: &meanings.ethertypes,
                protocols: &meanings.protocols,
                ports: &meanings.ports,
            },
            encrypted: WantedSpis::All,
            reader: rng.bool().then_some(&forms as &dyn MessageReader),
        };
        let (replaced, cut) = (rng.u64(..=data.len() as u64), rng.usize(..=data.len()));
        // another file has its path from an offset on, or it becomes shorter
        let open = |offset: u64| match data.get(..if offset < replaced { data.len() } else { cut }) {
            Some(rest) if offset < replaced || rest.len() % 2 == 0 => rest.get(offset as usize..),
            _ => None,
        };
        let limits = Limits {
            threads: if rng.u8(..16) == 0 { 3 } else { 1 },
            block: rng.u64(1..2000),
            rest: rng.usize(..2000),
            unconfirmed: u64::MAX,
        };
        let state = State::default();
        if rng.u8(..4) == 0 {
            state.stop();
        }
        let part = read_file(open, (0, data.len() as u64), 1, limits, &plan, &state);
        check_part(&part, &data);
        assert_eq!(state.position.load(Ordering::Relaxed), part.stop);
        stopped += u64::from(part.stop < data.len() as u64);
    }
    assert!(stopped > 0);
}

fn check_equal(blocks: &Part, whole: &Part, data: &[u8]) {
    check_part(blocks, data);
    assert_eq!(
        (blocks.stop, blocks.packets, blocks.bytes),
        (whole.stop, whole.packets, whole.bytes)
    );
    assert_eq!((blocks.first_ns, blocks.last_ns), (whole.first_ns, whole.last_ns));
    assert_eq!(blocks.truncated, whole.truncated);
    assert_eq!(blocks.scan.packets, whole.scan.packets);
    assert_eq!(blocks.scan.total, whole.scan.total);
    assert_eq!(blocks.scan.ipv6, whole.scan.ipv6);
    macro_rules! check {
        ($($name:ident),*) => { $(assert_eq!(blocks.scan.$name, whole.scan.$name);)* };
    }
    check!(
        number,
        time_ns,
        bytes,
        captured,
        encapsulation,
        source,
        source_port,
        destination,
        ttl
    );
    check!(
        destination_port,
        ip_id,
        digest,
        protocol,
        spi_i,
        spi_r,
        next_payload,
        exchange_type
    );
    check!(flags, message_id, ike_bytes, fragment, fragments);
    for (some, all) in [(&blocks.clear, &whole.clear), (&blocks.encrypted, &whole.encrypted)] {
        assert_eq!((&some.row, &some.begin, &some.end), (&all.row, &all.begin, &all.end));
        assert_eq!(some.heap, all.heap);
    }
    assert_eq!(blocks.readings.row, whole.readings.row);
    assert_eq!(blocks.readings.form, whole.readings.form);
    assert_eq!(blocks.readings.sender_differs, whole.readings.sender_differs);
    assert_eq!(blocks.rest.index, whole.rest.index);
    assert_eq!(blocks.rest.data, whole.rest.data);
}

/// Each form has its own number, and no other message has its form.
fn check_samples(forms: &InitForms) {
    let samples = forms.samples();
    let different: HashSet<&Vec<u8>> = samples.iter().collect();
    assert_eq!(different.len(), samples.len());
}

fn check_part(part: &Part, data: &[u8]) {
    assert!(part.stop <= data.len() as u64);
    let counted: i64 = part.scan.packets.iter().sum();
    assert_eq!(counted as usize + part.rest.index.len(), part.packets as usize);
    assert_eq!(part.scan.number.len(), part.scan.digest.len());
    for stored in [&part.clear, &part.encrypted] {
        assert!(stored.row.iter().all(|&row| (row as usize) < part.scan.number.len()));
        assert_eq!(
            stored.end.last().copied().unwrap_or(0) as usize + 256,
            stored.heap.len()
        );
        assert_eq!(stored.begin.len(), stored.row.len());
        assert!(stored
            .begin
            .iter()
            .zip(&stored.end)
            .all(|(begin, end)| begin + 28 <= *end));
    }
    let readings = &part.readings;
    for ((&row, &place), &size) in readings.row.iter().zip(&readings.place).zip(&readings.size) {
        let message = &data[place as usize..(place + size) as usize];
        assert_eq!(message[..8], part.scan.spi_i[row as usize].to_be_bytes());
        assert!([34, 38].contains(&message[18]));
    }
    let last = part.rest.offset.last().zip(part.rest.captured.last());
    let end = last.map_or(0, |(offset, captured)| offset + captured);
    assert_eq!(end as usize + 256, part.rest.data.len());
}

#[test]
fn copies_are_complete_or_refused() {
    let (seeds, mut rng) = (seeds(), rng());
    for _ in 0..runs() {
        let data = input(&seeds, &mut rng);
        let mut target = vec![0; rng.usize(..MAX_BYTES)];
        let (begin, end): (Vec<i64>, Vec<i64>) = random_frames(&data, &mut rng)
            .into_iter()
            .map(|(begin, size)| (begin, begin.saturating_add(size)))
            .unzip();
        let at = if rng.u8(..9) == 0 {
            rng.usize(..)
        } else {
            rng.usize(..=target.len())
        };
        if copy_ranges(&mut target, at, &data, &begin, &end).is_some() {
            let expected: Vec<u8> = begin
                .iter()
                .zip(&end)
                .flat_map(|(&low, &high)| &data[low as usize..high as usize])
                .copied()
                .collect();
            assert!(expected.is_empty() || target[at..at + expected.len()] == expected);
        }
    }
}
