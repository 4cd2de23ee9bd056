//! Writes tables of numbers, repeated texts and lists of them as Parquet files (parquet-format, README.md and parquet.thrift).
//!
//! polars can write them too. This gets their columns as arrays, so that no table is made of them and polars is not
//! loaded; it takes a quarter of the time, because it makes dictionaries of small numbers without hashing them. Schema
//! and metadata are those of an empty file that polars has written.
//!
//! The crate `parquet` hashes too, and its licence does not allow to distribute it with scapy: it is used by tests alone.

use std::io::{BufWriter, Write};

use crate::analysis::grouping::Numbering;

use super::encodings::{bit_width, choose_encoding, find_small, pack_booleans, push_hybrid, push_run, Encoded};
use super::template::{Leaf, Template, BOOLEAN, BYTE_ARRAY, DOUBLE, INT32, INT64};
use super::thrift::StructWriter;

const MAGIC: &[u8] = b"PAR1";
const CREATED_BY: &[u8] = b"ikeanalyze";
/// Encodings.
const PLAIN: usize = 0;
const RLE: usize = 3;
const DELTA_BINARY_PACKED: usize = 5;
const RLE_DICTIONARY: usize = 8;
/// Compression codecs.
const UNCOMPRESSED: usize = 0;
const LZ4_RAW: usize = 7;
/// Types of pages.
const DATA_PAGE: usize = 0;
const DICTIONARY_PAGE: usize = 2;

/// Why a table was not written.
#[derive(Debug)]
pub enum Error {
    Io(std::io::Error),
    /// The arguments do not fit together.
    Invalid(&'static str),
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Io(error)
    }
}

type Result<T> = std::result::Result<T, Error>;

/// The columns are not those of the schema.
pub const OTHER_COLUMNS: Error = Error::Invalid("other columns than in the schema");

/// Texts one after another.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    pub data: &'a [u8],
    /// Where each text ends.
    pub ends: &'a [i64],
}

impl<'a> Texts<'a> {
    fn get(&self, place: usize) -> Option<&'a [u8]> {
        let begin = place.checked_sub(1).map_or(Some(&0), |before| self.ends.get(before))?;
        let end = self.ends.get(place)?;
        self.data
            .get(usize::try_from(*begin).ok()?..usize::try_from(*end).ok()?)
    }
}

/// Address codes from this one on are places of IPv6 addresses.
const FIRST_IPV6: u64 = 1 << 32;
/// Bits of address codes that are not the number of a capture.
const ADDRESS_BITS: u64 = (1 << 33) - 1;
/// Bytes that are compressed before all are.
const SAMPLE: usize = 8192;

/// The values of a column, one for each row.
pub enum Values<'a> {
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    /// In a column of texts: as 16 hexadecimal digits.
    U64(&'a [u64]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    F64(&'a [f64]),
    Bool(&'a [bool]),
    /// Texts, and which of them each value is.
    Texts(Texts<'a>, &'a [u32]),
    /// The same of few texts.
    Names(Texts<'a>, &'a [u8]),
    /// Addresses as codes (AddressBook in ikeanalyze/capture/decode/ip.py), whose lowest bits are an IPv4 address or,
    /// from FIRST_IPV6 on, the place of a text.
    Addresses(Texts<'a>, &'a [u64]),
    /// So many rows have this number.
    Repeated(u32, usize),
    /// All rows have this text.
    Same(&'a str),
    /// No row has a value.
    Missing,
}

/// Levels of the values of a column in lists, and of its empty lists and nulls (parquet-format, README.md).
#[derive(Clone, Copy)]
pub struct Levels<'a> {
    pub definition: &'a [u8],
    /// 0: a row begins.
    pub repetition: &'a [u8],
}

/// A column.
pub struct Column<'a> {
    pub values: Values<'a>,
    /// Which of the values are known; None: all.
    pub known: Option<&'a [bool]>,
    /// Of a column in lists, which has only the known values; None: it has one for each row.
    pub levels: Option<Levels<'a>>,
}

impl Values<'_> {
    fn len(&self) -> Option<usize> {
        match self {
            Values::U8(values) => Some(values.len()),
            Values::U16(values) => Some(values.len()),
            Values::U32(values) => Some(values.len()),
            Values::U64(values) => Some(values.len()),
            Values::I32(values) => Some(values.len()),
            Values::I64(values) => Some(values.len()),
            Values::F64(values) => Some(values.len()),
            Values::Bool(values) => Some(values.len()),
            Values::Texts(_, places) => Some(places.len()),
            Values::Names(_, places) => Some(places.len()),
            Values::Addresses(_, codes) => Some(codes.len()),
            Values::Repeated(_, count) => Some(*count),
            Values::Same(_) | Values::Missing => None,
        }
    }
}

/// Write a table of so many rows with the schema of the empty file `template`, in groups of `group` rows.
///
/// `order`: the row of the columns that each row of the table is; None: their order is that of the table, as that of
/// columns in lists always is.
pub fn write_table(
    out: impl Write,
    template: &[u8],
    columns: &[Column],
    rows: usize,
    order: Option<&[i32]>,
    group: usize,
) -> Result<()> {
    let mut table = TableWriter::new(out, template, rows, group)?;
    if table.template.leaves.len() != columns.len() {
        return Err(OTHER_COLUMNS);
    }
    let columns: Vec<(usize, &Column)> = columns.iter().enumerate().collect();
    table.write(&columns, order)?;
    table.finish()
}

/// A table that is being written. Columns can be written in any order, because each has its place in the metadata.
pub struct TableWriter<W: Write> {
    out: BufWriter<W>,
    at: usize,
    template: Template,
    rows: usize,
    group: usize,
    /// By row group and leaf: the metadata of the chunk and its bytes without compression; None: not written yet.
    chunks: Vec<Vec<Option<(StructWriter, usize)>>>,
}

impl<W: Write> TableWriter<W> {
    /// Begin a table of so many rows with the schema of the empty file `template`, in groups of `group` rows.
    pub fn new(out: W, template: &[u8], rows: usize, group: usize) -> Result<Self> {
        let template = Template::read(template).ok_or(Error::Invalid("the template is not a Parquet file"))?;
        if group == 0 {
            return Err(Error::Invalid("groups without rows"));
        }
        let mut out = BufWriter::new(out);
        out.write_all(MAGIC)?;
        let chunks = (0..rows.div_ceil(group))
            .map(|_| template.leaves.iter().map(|_| None).collect())
            .collect();
        Ok(Self {
            out,
            at: MAGIC.len(),
            template,
            rows,
            group,
            chunks,
        })
    }

    /// The numbers of the leaves of a column of the schema.
    pub fn find_leaves(&self, name: &str) -> impl Iterator<Item = usize> + '_ {
        let name = name.as_bytes().to_vec();
        let leaves = self.template.leaves.iter().enumerate();
        leaves
            .filter(move |(_, leaf)| leaf.path.first() == Some(&name))
            .map(|(number, _)| number)
    }

    /// Write some columns, each with the number of its leaf in the schema; `order` is that of `write_table`.
    pub fn write(&mut self, columns: &[(usize, &Column)], order: Option<&[i32]>) -> Result<()> {
        let (rows, group) = (self.rows, self.group);
        let is_outside = |&row: &i32| usize::try_from(row).map_or(true, |row| row >= rows);
        if order.is_some_and(|order| order.len() != rows || order.iter().any(is_outside)) {
            return Err(Error::Invalid("an order of other rows"));
        }
        let mut bounds = Vec::with_capacity(columns.len());
        for (place, column) in columns {
            let leaf = self.template.leaves.get(*place).ok_or(OTHER_COLUMNS)?;
            bounds.push(find_bounds(column, leaf, rows, group)?);
        }
        for (number, chunks) in self.chunks.iter_mut().enumerate() {
            for (bounds, &(place, column)) in bounds.iter().zip(columns) {
                let leaf = &self.template.leaves[place];
                let chunk = encode_chunk(column, order, &bounds[number], &bounds[number + 1], leaf)?;
                for part in &chunk.parts {
                    self.out.write_all(part)?;
                }
                let described = describe_chunk(&chunk, leaf, self.at);
                self.at += chunk.size;
                if chunks[place].replace((described, chunk.bytes)).is_some() {
                    return Err(Error::Invalid("a column twice"));
                }
            }
        }
        Ok(())
    }

    /// Write the metadata, when all columns have been written.
    pub fn finish(mut self) -> Result<()> {
        let mut row_groups = Vec::with_capacity(self.chunks.len());
        for (number, chunks) in self.chunks.into_iter().enumerate() {
            let (mut described, mut bytes) = (Vec::with_capacity(chunks.len()), 0);
            for chunk in chunks {
                let (metadata, size) = chunk.ok_or(OTHER_COLUMNS)?;
                described.push(metadata);
                bytes += size;
            }
            let row_group = StructWriter::default().structures(1, described);
            row_groups.push(
                row_group
                    .i64(2, bytes)
                    .i64(3, self.group.min(self.rows - number * self.group)),
            );
        }
        let metadata = StructWriter::default().i32(1, 1).copied_list(2, &self.template.schema);
        let mut metadata = metadata.i64(3, self.rows).structures(4, row_groups);
        if let Some(key_values) = &self.template.key_values {
            metadata = metadata.copied_list(5, key_values);
        }
        let metadata = metadata.binary(6, CREATED_BY).finish();
        self.out.write_all(&metadata)?;
        self.out.write_all(&(metadata.len() as u32).to_le_bytes())?;
        self.out.write_all(MAGIC)?;
        self.out.flush()?; // dropping it would ignore errors
        Ok(())
    }
}

/// Where a row group begins in a column.
struct Bound {
    level: usize,
    value: usize,
}

/// Where each row group begins, and where the last one ends; an error if the column does not have so many rows.
fn find_bounds(column: &Column, leaf: &Leaf, rows: usize, group: usize) -> Result<Vec<Bound>> {
    let different = Error::Invalid("columns of different lengths");
    let Some(levels) = column.levels else {
        let lengths = [column.values.len(), column.known.map(<[bool]>::len)];
        if lengths.iter().flatten().any(|&length| length != rows) {
            return Err(different);
        }
        let starts = (0..rows).step_by(group).chain([rows]);
        return Ok(starts.map(|row| Bound { level: row, value: row }).collect());
    };
    if levels.definition.len() != levels.repetition.len() || column.known.is_some() {
        return Err(different);
    }
    if levels.repetition.first().is_some_and(|&level| level > 0) {
        return Err(Error::Invalid("the first row has no beginning"));
    }
    let (mut bounds, mut row, mut value) = (Vec::new(), 0, 0);
    for (level, (&definition, &repetition)) in levels.definition.iter().zip(levels.repetition).enumerate() {
        if u32::from(definition) > leaf.definition || u32::from(repetition) > leaf.repetition {
            return Err(Error::Invalid("a level above those of the schema"));
        }
        if repetition == 0 {
            if row % group == 0 {
                bounds.push(Bound { level, value });
            }
            row += 1;
        }
        value += usize::from(u32::from(definition) == leaf.definition);
    }
    if row != rows || column.values.len().unwrap_or(0) != value {
        return Err(different);
    }
    bounds.push(Bound {
        level: levels.definition.len(),
        value,
    });
    Ok(bounds)
}

/// A column chunk: its pages with their headers.
struct Chunk {
    /// Headers and pages, one after another: copying them together would take longer than to write them.
    parts: Vec<Vec<u8>>,
    /// Bytes of these.
    size: usize,
    /// Values with those that are null, and empty lists.
    values: usize,
    /// Without compression.
    bytes: usize,
    /// Where the data page begins; the dictionary is before it.
    data_page: usize,
    encodings: Vec<usize>,
    codec: usize,
}

/// The metadata of a chunk at an offset of the file.
fn describe_chunk(chunk: &Chunk, leaf: &Leaf, at: usize) -> StructWriter {
    let metadata = StructWriter::default()
        .i32(1, leaf.kind as usize)
        .numbers(2, &chunk.encodings)
        .binaries(3, &leaf.path)
        .i32(4, chunk.codec)
        .i64(5, chunk.values)
        .i64(6, chunk.bytes)
        .i64(7, chunk.size)
        .i64(9, at + chunk.data_page);
    let metadata = if chunk.data_page > 0 {
        metadata.i64(11, at)
    } else {
        metadata
    };
    StructWriter::default().i64(2, at).structure(3, metadata)
}

/// The values of a page, and its dictionary.
struct Pages {
    /// The dictionary and the number of its values.
    dictionary: Option<(Vec<u8>, usize)>,
    values: Vec<u8>,
    encoding: usize,
}

impl Pages {
    fn plain(values: Vec<u8>) -> Self {
        Self {
            dictionary: None,
            values,
            encoding: PLAIN,
        }
    }

    fn coded(dictionary: Vec<u8>, distinct: usize, codes: &[u32]) -> Self {
        let width = bit_width(distinct);
        let mut values = Vec::with_capacity(codes.len() * width as usize / 8 + 16);
        values.push(width as u8);
        push_hybrid(&mut values, codes, width);
        Self {
            dictionary: Some((dictionary, distinct)),
            values,
            encoding: RLE_DICTIONARY,
        }
    }
}

/// A row group of a column as a column chunk.
fn encode_chunk(column: &Column, order: Option<&[i32]>, begin: &Bound, end: &Bound, leaf: &Leaf) -> Result<Chunk> {
    let (first, last) = (begin.value, end.value);
    let span = match (order, column.levels) {
        (Some(order), None) => Span::Ordered(&order[first..last]),
        _ => Span::Range(first, last),
    };
    let mut page = Vec::new();
    let known = match (&column.values, column.known) {
        (Values::Missing, _) if column.levels.is_none() => Some(vec![false; last - first]),
        (_, known) => known.map(|known| select(known, &span, None, |&known| known)),
    };
    let known = known.as_deref();
    if let Some(levels) = column.levels {
        push_levels(&mut page, leaf.repetition, &levels.repetition[begin.level..end.level]);
        push_levels(&mut page, leaf.definition, &levels.definition[begin.level..end.level]);
    } else {
        // a column of lists without levels is null in all rows
        if leaf.repetition > 0 {
            if !matches!(column.values, Values::Missing) {
                return Err(Error::Invalid("values of a column of lists"));
            }
            push_known(&mut page, leaf.repetition, last - first, known)?;
        }
        push_known(&mut page, leaf.definition, last - first, known)?;
    }
    let pages = encode_values(&column.values, &span, known, leaf.kind)?;
    page.extend_from_slice(&pages.values);
    let values = end.level - begin.level;
    let mut chunk = Chunk {
        parts: Vec::new(),
        size: 0,
        values,
        bytes: 0,
        data_page: 0,
        encodings: vec![RLE, pages.encoding],
        codec: choose_codec(&page),
    };
    if let Some((dictionary, distinct)) = pages.dictionary {
        let header = StructWriter::default().i32(1, distinct).i32(2, PLAIN);
        chunk.push_page(DICTIONARY_PAGE, 7, header, dictionary);
        chunk.data_page = chunk.size;
        chunk.encodings.push(PLAIN);
    }
    let header = StructWriter::default().i32(1, values).i32(2, pages.encoding);
    chunk.push_page(DATA_PAGE, 5, header.i32(3, RLE).i32(4, RLE), page);
    Ok(chunk)
}

impl Chunk {
    /// Append a page; `field` is the number of the field of the header for pages of this kind.
    fn push_page(&mut self, kind: usize, field: u8, header: StructWriter, page: Vec<u8>) {
        let size = page.len();
        let data = match self.codec {
            LZ4_RAW => lz4_flex::block::compress(&page),
            _ => page,
        };
        let common = StructWriter::default().i32(1, kind).i32(2, size).i32(3, data.len());
        let header = common.structure(field, header).finish();
        self.bytes += header.len() + size;
        self.size += header.len() + data.len();
        self.parts.extend([header, data]);
    }
}

/// Random bytes, as of digests, are not compressed.
fn choose_codec(page: &[u8]) -> usize {
    let middle = page.len() / 2;
    match page.get(middle..middle + SAMPLE) {
        Some(sample) if lz4_flex::block::compress(sample).len() > SAMPLE * 7 / 8 => UNCOMPRESSED,
        _ => LZ4_RAW,
    }
}

/// Append repetition or definition levels of a page, up to `highest`.
fn push_levels(page: &mut Vec<u8>, highest: u32, levels: &[u8]) {
    if highest > 0 {
        let levels: Vec<u32> = levels.iter().map(|&level| level.into()).collect();
        let mut packed = Vec::new();
        push_hybrid(&mut packed, &levels, u32::BITS - highest.leading_zeros());
        push_sized(page, &packed);
    }
}

/// The same of a column that is not in lists: `highest` where the value is known (None: everywhere), else 0.
fn push_known(page: &mut Vec<u8>, highest: u32, rows: usize, known: Option<&[bool]>) -> Result<()> {
    if highest == 0 {
        return match known {
            Some(known) if known.contains(&false) => Err(Error::Invalid("a null in a required column")),
            _ => Ok(()),
        };
    }
    let width = u32::BITS - highest.leading_zeros();
    let mut levels = Vec::new();
    match known {
        Some(known) => {
            let of_rows: Vec<u32> = known.iter().map(|&known| if known { highest } else { 0 }).collect();
            push_hybrid(&mut levels, &of_rows, width);
        }
        None => push_run(&mut levels, rows, highest, width),
    }
    push_sized(page, &levels);
    Ok(())
}

/// Append bytes after their number.
fn push_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn encode_values(values: &Values, span: &Span, known: Option<&[bool]>, kind: i64) -> Result<Pages> {
    macro_rules! integers {
        ($values:expr) => {
            encode_integers(&select($values, span, known, |&value| value as i64), kind)
        };
    }
    match (values, kind) {
        (Values::Missing, _) => Ok(Pages::plain(Vec::new())),
        (Values::Bool(values), BOOLEAN) => {
            let values = select(values, span, known, |&value| value);
            Ok(Pages::plain(pack_booleans(values.into_iter())))
        }
        (Values::U64(values), BYTE_ARRAY) => {
            let values = select(values, span, known, |&value| value);
            let mut out = Vec::with_capacity(values.len() * 20);
            for value in values {
                push_sized(&mut out, &hex_digits(value));
            }
            Ok(Pages::plain(out))
        }
        (Values::Repeated(value, _), INT32 | INT64) => {
            encode_integers(&vec![i64::from(*value); count_known(span, known)], kind)
        }
        (Values::Same(text), BYTE_ARRAY) => {
            let count = count_known(span, known);
            let mut dictionary = Vec::new();
            push_sized(&mut dictionary, text.as_bytes());
            Ok(Pages::coded(dictionary, 1, &vec![0; count]))
        }
        (Values::Texts(texts, places), BYTE_ARRAY) => {
            encode_texts(*texts, &select(places, span, known, |&place| place))
        }
        (Values::Names(texts, places), BYTE_ARRAY) => {
            encode_texts(*texts, &select(places, span, known, |&place| place.into()))
        }
        (Values::Addresses(texts, codes), BYTE_ARRAY) => {
            encode_addresses(*texts, &select(codes, span, known, |&code| code & ADDRESS_BITS))
        }
        (Values::U8(values), INT32 | INT64) => {
            let values = select(values, span, known, |&value| u16::from(value));
            Ok(encode_small(&values, kind))
        }
        (Values::U16(values), INT32 | INT64) => Ok(encode_small(&select(values, span, known, |&value| value), kind)),
        (Values::U32(values), INT32 | INT64) => integers!(values),
        (Values::I32(values), INT32 | INT64) => integers!(values),
        (Values::U64(values), INT64) => integers!(values),
        (Values::I64(values), INT64) => integers!(values),
        (Values::F64(values), DOUBLE) => {
            encode_integers(&select(values, span, known, |&value| value.to_bits() as i64), kind)
        }
        _ => Err(Error::Invalid("values of another type than in the schema")),
    }
}

/// How many of the rows are known.
fn count_known(span: &Span, known: Option<&[bool]>) -> usize {
    known.map_or(span.len(), |known| known.iter().filter(|&&known| known).count())
}

/// The rows of a row group.
enum Span<'a> {
    Range(usize, usize),
    Ordered(&'a [i32]),
}

impl Span<'_> {
    fn len(&self) -> usize {
        match self {
            Span::Range(first, last) => last - first,
            Span::Ordered(rows) => rows.len(),
        }
    }
}

/// The known values of a row group, converted; `known`: which of them are known.
fn select<T, U>(values: &[T], span: &Span, known: Option<&[bool]>, convert: impl Fn(&T) -> U) -> Vec<U> {
    match (span, known) {
        (Span::Range(first, last), None) => values.get(*first..*last).unwrap_or(&[]).iter().map(convert).collect(),
        (Span::Range(first, last), Some(known)) => {
            let values = values.get(*first..*last).unwrap_or(&[]).iter();
            let known = values.zip(known).filter(|(_, &known)| known);
            known.map(|(value, _)| convert(value)).collect()
        }
        (Span::Ordered(rows), None) => rows.iter().map(|&row| convert(&values[row as usize])).collect(),
        (Span::Ordered(rows), Some(known)) => {
            let known = rows.iter().zip(known).filter(|(_, &known)| known);
            known.map(|(&row, _)| convert(&values[row as usize])).collect()
        }
    }
}

fn encode_integers(values: &[i64], kind: i64) -> Result<Pages> {
    let size = if kind == INT32 { 4 } else { 8 };
    // readers differ in how the differences of narrow numbers overflow
    Ok(match choose_encoding(values, size, kind == INT64) {
        Encoded::Plain => Pages::plain(write_plain(values.iter().copied(), size)),
        Encoded::Delta(values) => Pages {
            dictionary: None,
            values,
            encoding: DELTA_BINARY_PACKED,
        },
        Encoded::Dictionary { distinct, codes } => {
            let dictionary = write_plain(distinct.iter().copied(), size);
            Pages::coded(dictionary, distinct.len(), &codes)
        }
    })
}

/// Numbers below 2**16, which need no search for the least one.
fn encode_small(values: &[u16], kind: i64) -> Pages {
    let size = if kind == INT64 { 8 } else { 4 };
    match find_small(values, size) {
        Some((distinct, codes)) => {
            let dictionary = write_plain(distinct.iter().map(|&value| value.into()), size);
            Pages::coded(dictionary, distinct.len(), &codes)
        }
        None => Pages::plain(write_plain(values.iter().map(|&value| value.into()), size)),
    }
}

/// The lowest `size` bytes of each number, 4 or 8.
fn write_plain(values: impl ExactSizeIterator<Item = i64>, size: usize) -> Vec<u8> {
    let mut out = vec![0; values.len() * size];
    // copying as many bytes as a variable says would take longer than all else
    if size == 4 {
        for (bytes, value) in out.chunks_exact_mut(4).zip(values) {
            bytes.copy_from_slice(&(value as u32).to_le_bytes());
        }
    } else {
        for (bytes, value) in out.chunks_exact_mut(8).zip(values) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }
    out
}

fn hex_digits(value: u64) -> [u8; 16] {
    std::array::from_fn(|place| b"0123456789abcdef"[(value >> (60 - 4 * place) & 15) as usize])
}

fn encode_texts(texts: Texts, places: &[u32]) -> Result<Pages> {
    let mut codes_of = vec![u32::MAX; texts.ends.len()];
    let (mut dictionary, mut distinct) = (Vec::new(), 0);
    let mut codes = Vec::with_capacity(places.len());
    for &place in places {
        let outside = || Error::Invalid("a text outside of the dictionary");
        let code = codes_of.get_mut(place as usize).ok_or_else(outside)?;
        if *code == u32::MAX {
            *code = distinct;
            distinct += 1;
            push_sized(&mut dictionary, texts.get(place as usize).ok_or_else(outside)?);
        }
        codes.push(*code);
    }
    if codes.is_empty() {
        return Ok(Pages::plain(Vec::new()));
    }
    Ok(Pages::coded(dictionary, distinct as usize, &codes))
}

/// `texts` are the IPv6 addresses.
fn encode_addresses(texts: Texts, codes: &[u64]) -> Result<Pages> {
    let mut numbering = Numbering::default();
    let (mut dictionary, mut distinct, mut text) = (Vec::new(), 0, Vec::new());
    let mut numbers = Vec::with_capacity(codes.len());
    for &code in codes {
        let (number, is_new) = numbering.number(code);
        numbers.push(number);
        if !is_new {
            continue;
        }
        distinct += 1;
        if code >= FIRST_IPV6 {
            let outside = Error::Invalid("an address outside of the book");
            push_sized(&mut dictionary, texts.get((code - FIRST_IPV6) as usize).ok_or(outside)?);
        } else {
            text.clear();
            for octet in (code as u32).to_be_bytes() {
                push_decimal(&mut text, octet);
                text.push(b'.');
            }
            push_sized(&mut dictionary, &text[..text.len() - 1]);
        }
    }
    if numbers.is_empty() {
        return Ok(Pages::plain(Vec::new()));
    }
    Ok(Pages::coded(dictionary, distinct, &numbers))
}

fn push_decimal(out: &mut Vec<u8>, number: u8) {
    if number >= 100 {
        out.push(b'0' + number / 100);
    }
    if number >= 10 {
        out.push(b'0' + number / 10 % 10);
    }
    out.push(b'0' + number % 10);
}
