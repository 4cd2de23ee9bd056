//! Hex dumps of charon: a line for each 16 bytes, with the offset, three characters for each byte, and the bytes as
//! text.

use memchr::memchr;

const BYTES_PER_LINE: usize = 16;
/// The layout of offsets changes at five digits.
const MAX_BYTES: usize = 10_000;
const OFFSET_CHARACTERS: usize = 6;

/// The prefix of the further lines of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// There are no further lines.
    Empty,
    /// That of the line with the label.
    Repeated,
    /// As many spaces: the journal.
    Indented,
}

/// A dump of which every line follows the one before.
#[derive(Debug, PartialEq, Eq)]
pub struct Dump {
    pub layout: Layout,
    pub data: Vec<u8>,
    /// Where its last line ends.
    pub end: usize,
    /// How many lines follow the label.
    pub lines: usize,
}

/// Read the dump of `size` bytes whose lines begin at `start`; None: its lines must be read one by one.
///
/// `prefix` is the text before the label.
pub fn read_dump(block: &[u8], start: usize, prefix: &[u8], size: usize) -> Option<Dump> {
    if size > MAX_BYTES {
        return None;
    }
    let first = block.get(start..)?;
    let layout = if size == 0 {
        Layout::Empty
    } else if first.starts_with(prefix) {
        Layout::Repeated
    } else {
        Layout::Indented
    };
    let mut dump = Dump {
        layout,
        data: Vec::with_capacity(size),
        end: start,
        lines: size.div_ceil(BYTES_PER_LINE),
    };
    for offset in (0..size).step_by(BYTES_PER_LINE) {
        let rest = block.get(dump.end..)?;
        let line = rest.get(..memchr(b'\n', rest)?)?;
        let text = skip_prefix(line, prefix, layout)?;
        let (begin, digits) = text.split_at_checked(OFFSET_CHARACTERS)?;
        if parse_offset(begin) != Some(offset) {
            return None;
        }
        let count = BYTES_PER_LINE.min(size - offset);
        for triple in digits.get(..3 * count)?.chunks_exact(3) {
            let &[high, low, b' '] = triple else { return None };
            dump.data.push(parse_digit(high)? << 4 | parse_digit(low)?);
        }
        dump.end += line.len() + 1;
    }
    Some(dump)
}

fn skip_prefix<'a>(line: &'a [u8], prefix: &[u8], layout: Layout) -> Option<&'a [u8]> {
    if layout == Layout::Repeated {
        return line.strip_prefix(prefix);
    }
    let (indent, text) = line.split_at_checked(prefix.len())?;
    indent.iter().all(|&byte| byte == b' ').then_some(text)
}

/// The number in four characters, aligned to the right, and ": ".
fn parse_offset(text: &[u8]) -> Option<usize> {
    let digits = text.strip_suffix(b": ")?.trim_ascii_start();
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with(b"0")) {
        return None;
    }
    digits.iter().try_fold(0, |number: usize, &digit| {
        digit.is_ascii_digit().then(|| 10 * number + usize::from(digit - b'0'))
    })
}

fn parse_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_follow_each_other_are_one_dump() {
        let block = b"x]    0: 00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0f  .\nx]   16: FF    .\n";
        let dump = read_dump(block, 0, b"x] ", 17).unwrap();
        assert_eq!(dump.data[..16], (0..16).collect::<Vec<u8>>());
        assert_eq!((dump.data[16], dump.end, dump.lines), (255, block.len(), 2));
        assert_eq!(dump.layout, Layout::Repeated);
    }

    #[test]
    fn a_dump_that_lacks_bytes_or_its_last_newline_is_handed_back() {
        for block in [
            &b"x]    0: 00 01  .\n"[..],
            b"x]    0: 00 01 02  .",
            b"x]    1: 00 01 02  .\n",
            b"",
        ] {
            assert_eq!(read_dump(block, 0, b"x] ", 3), None);
        }
    }
}
