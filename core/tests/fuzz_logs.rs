//! Runs the scan of logs on damaged ones: no input may make it panic, or return lines outside of the block.
//!
//! `RUNS` and `SEED` are those of fuzz.rs.

use _core::logs::lines::{find_lines, Content, Patterns};
use fastrand::Rng;

const PIECES: [&[u8]; 24] = [
    b"1795245664 09[IKE]",
    b"1795245664 09[IKE] secret => 18 bytes @ 0x7f0a\n\
        1795245664 09[IKE]    0: 00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F  ................\n\
        1795245664 09[IKE]   16: 10 11                                            ..\n",
    b"secret => 0 bytes @ (nil)",
    b"secret => 9999999 bytes @ 0xff",
    b"   0: ",
    b" <name|1>",
    b" <",
    b"|",
    b">",
    b"] ",
    b"]",
    b"]:",
    b" ",
    b"\r",
    b"\n",
    b"\xff",
    b"IKE_SA x[1] state change: CREATED => CONNECTING",
    b"parsed ",
    b"ikev2 I ",
    b"ikev",
    b"\"IPv4\",",
    b"904a132d2b087803,",
    b"0x1f@",
    b"FF ",
];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn block(rng: &mut Rng) -> Vec<u8> {
    let mut data: Vec<u8> = (0..rng.usize(..40))
        .flat_map(|_| PIECES[rng.usize(..PIECES.len())])
        .copied()
        .collect();
    for _ in 0..rng.usize(..3) {
        if !data.is_empty() {
            let place = rng.usize(..data.len());
            match rng.u8(..3) {
                0 => data[place] = rng.u8(..),
                1 => data.truncate(place),
                _ => {
                    data.remove(place);
                }
            }
        }
    }
    data
}

#[test]
fn lines_are_in_the_block_and_in_order() {
    let patterns = Patterns {
        labels: &[b"secret", b""],
        messages: &[(b"parsed ", vec![]), (b"IKE_SA ", vec![b"CREATED => CONNECTING"])],
    };
    let mut rng = Rng::with_seed(number("SEED", 1));
    let mut dumps = 0;
    for _ in 0..number("RUNS", 20_000) {
        let data = block(&mut rng);
        let start = if rng.u8(..20) == 0 { rng.usize(..) } else { 0 };
        let mut position = start;
        for line in find_lines(&data, start, &patterns) {
            assert!(position <= line.start && line.start <= line.text && line.text <= line.end);
            assert!(line.end <= data.len());
            if start == 0 {
                let before = data[..line.start].iter().filter(|&&byte| byte == b'\n').count();
                assert_eq!(line.number, before);
                assert!(line.start == 0 || data[line.start - 1] == b'\n');
            }
            if let Content::Dump(_, dump) = line.content {
                assert_eq!(dump.lines, dump.data.len().div_ceil(16));
                dumps += 1;
            }
            position = line.end;
        }
    }
    assert!(dumps > 0);
}
