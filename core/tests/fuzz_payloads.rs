//! Decrypts messages, damaged or not: no input may make it panic, and every range of the result is in order.
//!
//! Half of the messages are encrypted with AES-GCM, so that contents of any kind are read after decryption; keys and
//! algorithms of the others are random. Run as `fuzz.rs`.

use _core::payloads::chains::{walk_chains, Chain};
use _core::payloads::handshakes::{decrypt_handshakes, Datagrams, KeySet};
use _core::payloads::prefixes::{number_prefixes, Payloads, Rules};
use aes_gcm::{AeadInPlace, Aes256Gcm, KeyInit};
use fastrand::Rng;

const HEADER: usize = 32;
const IV: usize = 8;
const ICV: usize = 16;
/// AES-GCM with an ICV of 16 octets, and the octets of its key: 32, and 4 of salt (RFC 5282).
const AES_GCM: u16 = 20;
const AES_GCM_KEY: usize = 36;
const MAX_MESSAGES: usize = 8;
/// Transform IDs of ciphers and integrity algorithms, known and unknown ones.
const ENCRYPTION: [u16; 12] = [0, 3, 11, 12, 13, 14, 15, 16, 19, 20, 28, 0xFFFF];
const INTEGRITY: [u16; 10] = [0, 1, 2, 5, 6, 7, 12, 13, 14, 1027];
const KEY_BYTES: [usize; 14] = [0, 4, 16, 19, 20, 24, 27, 28, 32, 35, 36, 48, 64, 65];

fn read(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn bytes(rng: &mut Rng, count: usize) -> Vec<u8> {
    std::iter::repeat_with(|| rng.u8(..)).take(count).collect()
}

/// Encrypt what follows the IV at `start` of a message, except for the ICV at its end.
fn encrypt(message: &mut [u8], start: usize, key: &[u8]) {
    let (clear, rest) = message.split_at_mut(start + IV);
    if rest.len() <= ICV {
        return;
    }
    let (content, icv) = rest.split_at_mut(rest.len() - ICV);
    let nonce = [&key[32..], &clear[start..]].concat();
    let cipher = Aes256Gcm::new_from_slice(&key[..32]).expect("a key of 32 octets");
    let tag = cipher.encrypt_in_place_detached(nonce.as_slice().into(), &clear[..start], content);
    icv.copy_from_slice(&tag.expect("few octets"));
}

/// A message with SK or SKF, perhaps encrypted with this key, and perhaps damaged.
fn make_message(rng: &mut Rng, key: Option<&[u8]>) -> Vec<u8> {
    let (kind, numbers) = *rng.choice(&[(46u8, 0usize), (53, 4)]).expect("kinds");
    let body = rng.usize(..120);
    let mut message = bytes(rng, 16);
    message.extend([kind, 0x20, 37, rng.u8(..)]);
    message.extend(rng.u32(..4).to_be_bytes());
    message.extend(((32 + numbers + body) as u32).to_be_bytes());
    message.extend([rng.u8(..), 0]);
    message.extend(((4 + numbers + body) as u16).to_be_bytes());
    if numbers > 0 {
        message.extend([0, rng.u8(..3), 0, rng.u8(..3)]);
    }
    message.extend(bytes(rng, body));
    if let Some(key) = key {
        if body > IV {
            encrypt(&mut message, HEADER + numbers, key);
        }
        if rng.bool() {
            return message;
        }
    }
    for _ in 0..rng.usize(..4) {
        let at = rng.usize(..message.len());
        message[at] = rng.u8(..);
    }
    message.truncate(message.len() - rng.usize(..3) * rng.usize(..message.len() / 3));
    message
}

#[test]
fn decrypt_damaged_messages() {
    let mut rng = Rng::with_seed(read("SEED", 1));
    let mut decrypted = 0;
    for _ in 0..read("RUNS", 20_000) {
        let mut keys: Vec<[Vec<u8>; 4]> = (0..rng.usize(..3))
            .map(|_| {
                let sizes = [
                    *rng.choice(&KEY_BYTES).expect("sizes"),
                    *rng.choice(&KEY_BYTES).expect("sizes"),
                ];
                [sizes[0], sizes[0], sizes[1], sizes[1]].map(|count| bytes(&mut rng, count))
            })
            .collect();
        let key = rng.bool().then(|| bytes(&mut rng, AES_GCM_KEY));
        if let Some(key) = &key {
            keys.push([key.clone(), key.clone(), vec![], vec![]]);
        }
        let messages: Vec<Vec<u8>> = (0..rng.usize(..MAX_MESSAGES))
            .map(|_| make_message(&mut rng, key.as_deref()))
            .collect();
        let count = messages.len();
        let size: Vec<i64> = messages.iter().map(|message| message.len() as i64).collect();
        let mut begin: Vec<i64> = (0..count).map(|row| size[..row].iter().sum()).collect();
        if count > 0 && rng.u8(..20) == 0 {
            begin[rng.usize(..count)] = rng.i64(..);
        }
        let numbers: Vec<u16> = (0..count).map(|_| rng.u16(..3)).collect();
        let totals: Vec<u16> = (0..count).map(|_| rng.u16(..3)).collect();
        let slots: Vec<i64> = (0..count).map(|_| rng.i64(..3)).collect();
        let senders: Vec<bool> = (0..count).map(|_| rng.bool()).collect();
        let mut key_sets: Vec<KeySet> = keys
            .iter()
            .map(|[sk_ei, sk_er, sk_ai, sk_ar]| KeySet {
                encryption: *rng.choice(&ENCRYPTION).expect("algorithms"),
                integrity: *rng.choice(&INTEGRITY).expect("algorithms"),
                sk_ei,
                sk_er,
                sk_ai,
                sk_ar,
            })
            .collect();
        if key.is_some() {
            // other key sets may have algorithms that are not implemented: then the handshake goes back to Python
            if rng.bool() {
                key_sets.drain(..keys.len() - 1);
            }
            let last = key_sets.last_mut().expect("the key of the messages");
            (last.encryption, last.integrity) = (AES_GCM, 0);
        }
        let datagrams = Datagrams {
            heap: &messages.concat(),
            begin: &begin,
            size: &size,
            slot: &slots,
            body: &vec![0; count],
            number: &numbers,
            total: &totals,
            from_initiator: &senders,
        };
        let split = rng.usize(..=count) as i64;
        // now and then too small
        let mut heap = vec![0; datagrams.heap.len() * rng.usize(1..20).min(10) / 10];
        let result = decrypt_handshakes(
            &datagrams,
            &[split, count as i64],
            &key_sets,
            &[0, key_sets.len() as i64],
            rng.usize(..3),
            &mut heap,
        );
        assert_eq!(result.handled.len(), 2);
        let messages = result.last.len();
        assert_eq!(result.message_ends[1] as usize, messages);
        assert_eq!(result.undecrypted_ends[1] as usize, result.undecrypted.len());
        for column in [&result.position, &result.begin, &result.size, &result.part_ends] {
            assert_eq!(column.len(), messages);
        }
        assert_eq!(result.first.len(), messages);
        assert_eq!(
            result.part_ends.last().map_or(0, |&end| end as usize),
            result.parts.len()
        );
        let mut end = 0;
        for (&begin, &size) in result.begin.iter().zip(&result.size) {
            assert!(begin >= end && size >= 0);
            end = begin + size;
        }
        assert!(end as usize <= heap.len());
        // without a key nothing is decrypted
        assert!(result.message_ends[0] == 0);
        decrypted += messages;
    }
    assert!(decrypted > 0);
}

#[test]
fn walk_damaged_chains() {
    let mut rng = Rng::with_seed(read("SEED", 1));
    let mut payloads = 0;
    for _ in 0..read("RUNS", 20_000) {
        let mut heap = Vec::new();
        let mut bounds = Vec::new();
        for _ in 0..rng.usize(..MAX_MESSAGES) {
            let (begin, first) = (heap.len(), rng.u8(..60));
            for _ in 0..rng.usize(..6) {
                let size = rng.usize(..12);
                heap.extend([rng.u8(..60), rng.u8(..), 0, 4 + size as u8]);
                heap.extend(bytes(&mut rng, size));
            }
            // ends of chains beyond the heap, too
            let end = heap.len() + rng.usize(..20) / 19 * 8;
            bounds.push((begin, end, first, rng.u8(..10) > 0));
        }
        let chains = bounds
            .iter()
            .map(|&(begin, end, first, wanted)| wanted.then_some(Chain { begin, end, first }));
        let result = walk_chains(&heap, chains, 4);
        assert_eq!(result.complete.len(), bounds.len());
        assert_eq!(result.ends.last().map_or(0, |&end| end as usize), result.kind.len());
        for column in [&result.message, &result.begin, &result.size] {
            assert_eq!(column.len(), result.kind.len());
        }
        for ((&message, &begin), &size) in result.message.iter().zip(&result.begin).zip(&result.size) {
            assert!((begin + size) as usize <= bounds[message as usize].1.min(heap.len()));
        }
        payloads += result.kind.len();
    }
    assert!(payloads > 0);
}

#[test]
fn number_payloads_anywhere() {
    let mut rng = Rng::with_seed(read("SEED", 1));
    let is_opaque: Vec<bool> = (0..1 << 16).map(|kind| kind % 3 == 0).collect();
    let mut whole = 0;
    for _ in 0..read("RUNS", 20_000) {
        let count = rng.usize(..MAX_MESSAGES);
        let heap_bytes = rng.usize(..64);
        let heap = bytes(&mut rng, heap_bytes);
        let kind: Vec<u8> = (0..count).map(|_| rng.u8(33..54)).collect();
        let flags: Vec<bool> = (0..count).map(|_| rng.bool()).collect();
        // now and then outside of the heap
        let begin: Vec<i64> = (0..count).map(|_| rng.i64(-1..80)).collect();
        let size: Vec<i64> = (0..count).map(|_| rng.i64(..20)).collect();
        let prefix: Vec<i8> = (0..256).map(|_| rng.i8(-1..5)).collect();
        let suspicious: Vec<i64> = (0..count as i64).filter(|_| rng.u8(..4) == 0).collect();
        let payloads = Payloads {
            heap: &heap,
            kind: &kind,
            critical: &flags,
            answers: &flags,
            begin: &begin,
            size: &size,
        };
        let rules = Rules {
            prefix: &prefix,
            notify: 41,
            is_opaque: &is_opaque,
            auth: 39,
            signature: 14,
        };
        let result = number_prefixes(&payloads, &suspicious, &rules);
        assert_eq!((result.number.len(), result.whole.len()), (count, count));
        for row in 0..count {
            let number = result.number[row];
            assert_eq!((number >> 56) as u8, kind[row]);
            assert_eq!(number >> 54 & 3, if flags[row] { 3 } else { 0 });
            assert_eq!(number >> 32 & 0x003F_FFFF, size[row].max(0) as u64);
            whole += usize::from(result.whole[row]);
        }
        for &row in &suspicious {
            assert!(result.whole[row as usize] && result.number[row as usize] as u32 == 0);
        }
    }
    assert!(whole > 0);
}
