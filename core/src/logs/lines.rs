//! Find the lines of a log that matter in a block of whole lines, and convert the dumps that can be read at once.
//!
//! A line that does not matter may be found, too: Python reads it and uses nothing of it.

use super::dumps::{self, Dump};
use memchr::{memchr, memchr_iter, memmem};

/// Longer lines are read by Python, which cuts them.
const MAX_LINE_BYTES: usize = 1 << 12;
/// No daemon's prefix is as long.
const MAX_PREFIX_BYTES: usize = 1 << 9;
const MAX_SIZE_DIGITS: usize = 7;
const MAX_NUMBER_DIGITS: usize = 10;

/// What matters in a log of charon.
pub struct Patterns<'a> {
    /// Labels of dumps.
    pub labels: &'a [&'a [u8]],
    /// How other messages begin, and phrases of which they have one, if there are any.
    pub messages: &'a [(&'a [u8], Vec<&'a [u8]>)],
}

/// Whether a text that matters begins with each byte: most lines are decided by it.
type FirstBytes = [bool; 256];

impl Patterns<'_> {
    fn first_bytes(&self) -> FirstBytes {
        let mut firsts = [false; 256];
        let texts = self
            .labels
            .iter()
            .chain(self.messages.iter().map(|(beginning, _)| beginning));
        for first in texts.filter_map(|text| text.first()) {
            firsts[usize::from(*first)] = true;
        }
        firsts
    }
}

/// The rest of a line that matters.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// A line for all readers.
    Any,
    /// A message of charon.
    Message,
    /// A whole dump, and the index of its label.
    Dump(usize, Dump),
}

/// A line that matters.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    pub start: usize,
    /// Where the text after charon's prefix begins.
    pub text: usize,
    /// Where it ends, with its newline; that of a dump with its further lines.
    pub end: usize,
    /// How many lines of the block are before it, from the start of the scan.
    pub number: usize,
    pub content: Content,
}

/// Find the lines that matter in `block` from `start` on, where a line begins.
pub fn find_lines(block: &[u8], start: usize, patterns: &Patterns<'_>) -> Vec<Line> {
    let secrets = memmem::Finder::new(b"ikev");
    let firsts = patterns.first_bytes();
    let mut lines = Vec::new();
    let (mut position, mut number) = (start, 0);
    while let Some(rest) = block.get(position..).filter(|rest| !rest.is_empty()) {
        let size = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest.get(..size).unwrap_or(rest);
        let begin = position;
        let first = number;
        position += size + 1;
        number += 1;
        let (text, content) = if let Some((text, found)) = find_text(line, patterns, &firsts) {
            let (prefix, is_short) = (line.get(..text), line.len() <= MAX_LINE_BYTES);
            let content = match (found, prefix) {
                (Text::Dump(label, size), Some(prefix)) if is_short && prefix.len() <= MAX_PREFIX_BYTES => {
                    dumps::read_dump(block, position, prefix, size)
                        .map_or(Content::Any, |dump| Content::Dump(label, dump))
                }
                (Text::Message, Some(prefix)) if is_short && prefix.len() <= MAX_PREFIX_BYTES => Content::Message,
                _ => Content::Any,
            };
            (text, content)
        } else if may_have_keys(line, &secrets) {
            (0, Content::Any)
        } else {
            continue;
        };
        if let Content::Dump(_, dump) = &content {
            position = dump.end;
            number += dump.lines;
        }
        lines.push(Line {
            start: begin,
            text: begin + text,
            end: position.min(block.len()),
            number: first,
            content,
        });
    }
    lines
}

enum Text {
    Message,
    /// The index of the label, and the bytes of the dump.
    Dump(usize, usize),
}

/// The first text in a line that matters, and where it begins: after a prefix, or at the beginning of the line.
fn find_text(line: &[u8], patterns: &Patterns<'_>, firsts: &FirstBytes) -> Option<(usize, Text)> {
    let begin = count_spaces(line);
    if let Some(text) = line.get(begin..).and_then(|text| match_text(text, patterns, firsts)) {
        return Some((begin, text));
    }
    memchr_iter(b']', line).find_map(|bracket| {
        let after = line.get(bracket + 1..)?;
        // Two spaces begin a line of a dump, which is the most frequent kind of line.
        if after.starts_with(b"  ") {
            return None;
        }
        let name = skip_name(after);
        let spaces = count_spaces(after.get(name..)?);
        let text = match_text(after.get(name + spaces..)?, patterns, firsts)?;
        Some((bracket + 1 + name + spaces, text))
    })
}

/// How many bytes the name of the IKE SA has: " <name|1>"; or a colon.
fn skip_name(text: &[u8]) -> usize {
    if text.starts_with(b":") {
        return 1;
    }
    let Some(name) = text.strip_prefix(b" <") else { return 0 };
    let Some(size) = memchr(b'>', name) else { return 0 };
    let number = name
        .get(..size)
        .and_then(|name| name.rsplit(|&byte| byte == b'|').next());
    match number {
        Some(digits) if (1..=MAX_NUMBER_DIGITS).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit) => {
            size + 3
        }
        _ => 0,
    }
}

fn match_text(text: &[u8], patterns: &Patterns<'_>, firsts: &FirstBytes) -> Option<Text> {
    let first = *text.first()?;
    if !firsts[usize::from(first)] {
        return None;
    }
    for (index, label) in patterns.labels.iter().enumerate() {
        if label.first() == Some(&first) {
            if let Some(size) = text.strip_prefix(*label).and_then(match_size) {
                return Some(Text::Dump(index, size));
            }
        }
    }
    let is_message = patterns.messages.iter().any(|(beginning, phrases)| {
        text.strip_prefix(*beginning)
            .is_some_and(|rest| phrases.is_empty() || phrases.iter().any(|phrase| memmem::find(rest, phrase).is_some()))
    });
    is_message.then_some(Text::Message)
}

/// The bytes of a dump in the rest of the line after its label: " => 16 bytes @ 0x7f0a".
fn match_size(text: &[u8]) -> Option<usize> {
    let text = text.strip_prefix(b" => ")?;
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(count)?;
    if !(1..=MAX_SIZE_DIGITS).contains(&count) {
        return None;
    }
    let address = rest.strip_prefix(b" bytes @ ")?;
    let after = if let Some(digits) = address.strip_prefix(b"0x") {
        let count = digits.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        digits.get(count..).filter(|_| count > 0)?
    } else {
        address.strip_prefix(b"(nil)")?
    };
    if count_spaces(after) < after.len() {
        return None;
    }
    Some(
        digits
            .iter()
            .fold(0, |size, digit| 10 * size + usize::from(digit - b'0')),
    )
}

/// Whether a line may have keys of libreswan, tcpdump or a table.
fn may_have_keys(line: &[u8], secrets: &memmem::Finder<'_>) -> bool {
    may_be_row(line)
        || secrets
            .find_iter(line)
            .any(|at| is_secret(line.get(at + 4..).unwrap_or_default()))
}

/// The rest of "ikev2 I " after "ikev".
fn is_secret(text: &[u8]) -> bool {
    let Some((b'1' | b'2', rest)) = text.split_first() else {
        return false;
    };
    let spaces = count_spaces(rest);
    // the pattern of Python continues in the next line, too, where it finds lines that do not matter
    spaces > 0 && matches!(rest.get(spaces), Some(b'I' | b'R'))
}

/// Whether a line begins like a row of a table (hexadecimal digits and a comma, or a protocol) or a secret of tcpdump
/// (hexadecimal digits and @).
fn may_be_row(line: &[u8]) -> bool {
    let text = line.get(count_spaces(line)..).unwrap_or_default();
    let text = match text.strip_prefix(b"\"") {
        Some([b'i' | b'I', b'p' | b'P', ..]) => return true,
        Some(rest) => rest,
        None => text,
    };
    let text = text
        .strip_prefix(b"0x")
        .or_else(|| text.strip_prefix(b"0X"))
        .unwrap_or(text);
    let count = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let rest = text.get(count..).unwrap_or_default();
    let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
    count > 0 && matches!(rest.get(count_spaces(rest)), Some(b',' | b'@'))
}

/// How many bytes of white space a line begins with.
fn count_spaces(line: &[u8]) -> usize {
    line.iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(block: &[u8]) -> Vec<Line> {
        let patterns = Patterns {
            labels: &[b"secret"],
            messages: &[(b"parsed ", vec![]), (b"IKE_SA ", vec![b"CREATED => CONNECTING"])],
        };
        find_lines(block, 0, &patterns)
    }

    #[test]
    fn messages_and_dumps_are_found() {
        let block = b"1 09[ENC] <a|1> parsed it\n1 09[IKE] IKE_SA a: other\n1 09[IKE] secret => 2 bytes @ (nil)\r\n\
            1 09[IKE]    0: 0A 0B   ..\n";
        let lines = find(block);
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].start, lines[0].text, lines[0].number), (0, 16, 0));
        assert_eq!(lines[0].content, Content::Message);
        assert_eq!((lines[1].number, lines[1].end), (2, block.len()));
        assert!(matches!(&lines[1].content, Content::Dump(0, dump) if dump.data == [10, 11]));
    }

    #[test]
    fn rows_and_secrets_are_found() {
        for line in [
            &b"904a132d2b087803,f2748b73dae9f971,00,00,\"NULL [RFC2410]\"\n"[..],
            b" \"IPv4\" ,\n",
            b"0x1f@192.0.2.1 aes-cbc:0x00\n",
            b"| ikev2  R 0x00",
        ] {
            assert_eq!(find(line).len(), 1);
        }
        assert_eq!(
            find(b"ikev2 IKE_AUTH\n| ikev1x\n\n1795245664 09[IKE] nothing\n").len(),
            1
        );
    }
}
