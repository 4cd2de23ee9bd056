//! Thrift's compact protocol, as far as headers and metadata of Parquet files need it (thrift-compact-protocol.md).

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;
/// Structures within structures, in a file that is not damaged far fewer.
const MAX_DEPTH: usize = 32;

pub fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn push_zigzag(out: &mut Vec<u8>, value: i64) {
    push_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Writes a structure: its fields in the order of their numbers.
#[derive(Default)]
pub struct StructWriter {
    out: Vec<u8>,
    last: u8,
}

impl StructWriter {
    fn field(&mut self, number: u8, kind: u8) {
        debug_assert!(number > self.last && number - self.last < 16);
        self.out.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    pub fn i32(mut self, number: u8, value: usize) -> Self {
        self.field(number, I32);
        push_zigzag(&mut self.out, value as i64);
        self
    }

    pub fn i64(mut self, number: u8, value: usize) -> Self {
        self.field(number, I64);
        push_zigzag(&mut self.out, value as i64);
        self
    }

    pub fn binary(mut self, number: u8, value: &[u8]) -> Self {
        self.field(number, BINARY);
        push_varint(&mut self.out, value.len() as u64);
        self.out.extend_from_slice(value);
        self
    }

    pub fn structure(mut self, number: u8, value: StructWriter) -> Self {
        self.field(number, STRUCT);
        self.out.extend(value.finish());
        self
    }

    fn list(&mut self, number: u8, kind: u8, count: usize) {
        self.field(number, LIST);
        if count < 15 {
            self.out.push((count as u8) << 4 | kind);
        } else {
            self.out.push(0xF0 | kind);
            push_varint(&mut self.out, count as u64);
        }
    }

    pub fn numbers(mut self, number: u8, values: &[usize]) -> Self {
        self.list(number, I32, values.len());
        for &value in values {
            push_zigzag(&mut self.out, value as i64);
        }
        self
    }

    pub fn binaries(mut self, number: u8, values: &[Vec<u8>]) -> Self {
        self.list(number, BINARY, values.len());
        for value in values {
            push_varint(&mut self.out, value.len() as u64);
            self.out.extend_from_slice(value);
        }
        self
    }

    pub fn structures(mut self, number: u8, values: Vec<StructWriter>) -> Self {
        self.list(number, STRUCT, values.len());
        for value in values {
            self.out.extend(value.finish());
        }
        self
    }

    /// A list as another file has it.
    pub fn copied_list(mut self, number: u8, value: &[u8]) -> Self {
        self.field(number, LIST);
        self.out.extend_from_slice(value);
        self
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.out.push(0);
        self.out
    }
}

/// A field of a structure: its number and type.
type Field = (i64, u8);

/// Reads values from bytes; None: they end too early, or are not valid.
pub struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.data.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub fn number(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub fn binary(&mut self) -> Option<&'a [u8]> {
        let size = usize::try_from(self.varint()?).ok()?;
        let value = self.data.get(self.at..self.at.checked_add(size)?)?;
        self.at += size;
        Some(value)
    }

    /// The next field of a structure after the field with this number; None in it: the structure ends.
    pub fn field(&mut self, last: i64) -> Option<Option<Field>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        let number = match head >> 4 {
            0 => self.number()?,
            difference => last.checked_add(difference.into())?,
        };
        Some(Some((number, head & 15)))
    }

    /// The number of elements of a list and their type.
    pub fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => count.into(),
        };
        Some((count, head & 15))
    }

    /// The bytes of a value of a type, which is skipped.
    pub fn skip(&mut self, kind: u8) -> Option<&'a [u8]> {
        let begin = self.at;
        self.skip_value(kind, 0)?;
        self.data.get(begin..self.at)
    }

    fn skip_value(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match kind {
            TRUE | FALSE => {}
            BYTE => {
                self.byte()?;
            }
            I16 | I32 | I64 => {
                self.varint()?;
            }
            DOUBLE => {
                self.at = self.at.checked_add(8).filter(|&at| at <= self.data.len())?;
            }
            BINARY => {
                self.binary()?;
            }
            LIST | SET => {
                let (count, kind) = self.list()?;
                for _ in 0..count {
                    match kind {
                        TRUE | FALSE => {
                            self.byte()?;
                        }
                        _ => self.skip_value(kind, depth + 1)?,
                    }
                }
            }
            STRUCT => {
                let mut last = 0;
                while let Some((number, kind)) = self.field(last)? {
                    self.skip_value(kind, depth + 1)?;
                    last = number;
                }
            }
            _ => return None,
        }
        Some(())
    }
}
