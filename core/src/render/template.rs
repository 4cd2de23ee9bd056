//! Schema and metadata of a Parquet file (parquet-format, parquet.thrift).

use super::thrift::Reader;

const MAGIC: &[u8] = b"PAR1";
const OPTIONAL: i64 = 1;
const REPEATED: i64 = 2;

/// Physical types.
pub const BOOLEAN: i64 = 0;
pub const INT32: i64 = 1;
pub const INT64: i64 = 2;
pub const DOUBLE: i64 = 5;
pub const BYTE_ARRAY: i64 = 6;

/// A column with values: a leaf of the schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    pub kind: i64,
    pub path: Vec<Vec<u8>>,
    /// Definition and repetition level of a value.
    pub definition: u32,
    pub repetition: u32,
}

/// Parts of the metadata of a file; the lists are as in the file.
pub struct Template {
    pub leaves: Vec<Leaf>,
    pub schema: Vec<u8>,
    pub key_values: Option<Vec<u8>>,
}

impl Template {
    /// Read the metadata of a file; None: it is not a valid Parquet file.
    pub fn read(file: &[u8]) -> Option<Self> {
        let rest = file.strip_suffix(MAGIC)?;
        let (rest, size) = rest.split_last_chunk::<4>()?;
        let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
        let mut reader = Reader::new(rest.get(rest.len().checked_sub(size)?..)?);
        let (mut schema, mut key_values, mut last) = (None, None, 0);
        while let Some((number, kind)) = reader.field(last)? {
            let value = reader.skip(kind)?;
            match number {
                2 => schema = Some(value),
                5 => key_values = Some(value),
                _ => {}
            }
            last = number;
        }
        let schema = schema?;
        Some(Self {
            leaves: read_leaves(schema)?,
            schema: schema.to_vec(),
            key_values: key_values.map(<[u8]>::to_vec),
        })
    }
}

/// A group whose children follow.
struct Group {
    remaining: i64,
    path: Vec<Vec<u8>>,
    definition: u32,
    repetition: u32,
}

fn read_leaves(schema: &[u8]) -> Option<Vec<Leaf>> {
    let mut reader = Reader::new(schema);
    let (count, _) = reader.list()?;
    let mut leaves = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    for _ in 0..count {
        let (mut kind, mut repetition, mut name, mut children, mut last) = (None, 0, None, 0, 0);
        while let Some((number, field_kind)) = reader.field(last)? {
            match number {
                1 => kind = Some(reader.number()?),
                3 => repetition = reader.number()?,
                4 => name = Some(reader.binary()?),
                5 => children = reader.number()?,
                _ => {
                    reader.skip(field_kind)?;
                }
            }
            last = number;
        }
        let Some(parent) = groups.last_mut() else {
            if leaves.is_empty() {
                // the root has no place in paths
                groups.push(Group {
                    remaining: children,
                    path: Vec::new(),
                    definition: 0,
                    repetition: 0,
                });
                continue;
            }
            return None;
        };
        parent.remaining = parent.remaining.saturating_sub(1);
        let mut path = parent.path.clone();
        path.push(name?.to_vec());
        let definition = parent.definition + u32::from(repetition == OPTIONAL || repetition == REPEATED);
        let repetition = parent.repetition + u32::from(repetition == REPEATED);
        if children > 0 {
            groups.push(Group {
                remaining: children,
                path,
                definition,
                repetition,
            });
        } else {
            leaves.push(Leaf {
                kind: kind?,
                path,
                definition,
                repetition,
            });
        }
        while groups.last().is_some_and(|group| group.remaining <= 0) {
            groups.pop();
        }
    }
    Some(leaves)
}
