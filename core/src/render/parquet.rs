//! Writes tables of numbers and repeated texts as Parquet files.
//!
//! polars writes every table. This writes the large ones, whose columns it gets as arrays, so that no table is made of
//! them; it takes a quarter of the time, because it makes dictionaries of small numbers without hashing them. The crate
//! `parquet` writes headers and metadata. Schema and metadata are those of an empty file that polars has written.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::encodings::{bit_width, choose_encoding, find_small, pack_booleans, push_hybrid, push_run, Encoded};

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

/// Bytes that are compressed before all are.
const SAMPLE: usize = 8192;

/// The values of a column, one for each row.
pub enum Values<'a> {
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    Bool(&'a [bool]),
    /// Texts, and which of them each value is.
    Texts(Texts<'a>, &'a [u32]),
    /// All rows have this text.
    Same(&'a str),
    /// No row has a value.
    Missing,
}

/// A column, and which of its values are known; None: all.
pub struct Column<'a> {
    pub values: Values<'a>,
    pub known: Option<&'a [bool]>,
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
            Values::Bool(values) => Some(values.len()),
            Values::Texts(_, places) => Some(places.len()),
            Values::Same(_) | Values::Missing => None,
        }
    }
}

/// Write a table of so many rows with the schema of the empty file `template`, in groups of `group` rows.
pub fn write_table(
    out: impl Write + Send,
    template: &[u8],
    columns: &[Column],
    rows: usize,
    group: usize,
) -> Result<()> {
    let template = ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::copy_from_slice(template))?;
    let metadata = template.file_metadata();
    let descriptors = metadata.schema_descr().columns();
    if descriptors.len() != columns.len() || group == 0 {
        return Err(ParquetError::General("other columns than in the schema".into()));
    }
    for column in columns {
        let lengths = [column.values.len(), column.known.map(<[bool]>::len)];
        if lengths.iter().flatten().any(|&length| length != rows) {
            return Err(ParquetError::General("columns of different lengths".into()));
        }
    }
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(out, metadata.schema_descr().root_schema_ptr(), properties)?;
    for entry in metadata.key_value_metadata().into_iter().flatten() {
        writer.append_key_value_metadata(entry.clone());
    }
    for first in (0..rows).step_by(group) {
        let last = rows.min(first + group);
        let mut row_group = writer.next_row_group()?;
        for (column, descriptor) in columns.iter().zip(descriptors) {
            let (data, closed) = encode_chunk(column, first, last, descriptor)?;
            row_group.append_column(&bytes::Bytes::from(data), closed)?;
        }
        row_group.close()?;
    }
    writer.finish()?;
    writer.flush()?; // dropping it would ignore errors
    Ok(())
}

/// The values of a page, and its dictionary.
struct Pages {
    /// The dictionary and the number of its values.
    dictionary: Option<(Vec<u8>, usize)>,
    values: Vec<u8>,
    encoding: Encoding,
}

impl Pages {
    fn plain(values: Vec<u8>) -> Self {
        Self {
            dictionary: None,
            values,
            encoding: Encoding::PLAIN,
        }
    }

    fn coded(dictionary: Vec<u8>, distinct: usize, codes: &[u32]) -> Self {
        let width = bit_width(distinct);
        let mut values = vec![width as u8];
        push_hybrid(&mut values, codes, width);
        Self {
            dictionary: Some((dictionary, distinct)),
            values,
            encoding: Encoding::RLE_DICTIONARY,
        }
    }
}

/// The rows from `first` to `last` of a column as a column chunk.
fn encode_chunk(
    column: &Column,
    first: usize,
    last: usize,
    descriptor: &ColumnDescPtr,
) -> Result<(Vec<u8>, ColumnCloseResult)> {
    let rows = last - first;
    let missing = vec![
        false;
        if matches!(column.values, Values::Missing) {
            rows
        } else {
            0
        }
    ];
    let known = match column.values {
        Values::Missing => Some(&missing[..]),
        _ => column.known.map(|known| &known[first..last]),
    };
    let mut page = Vec::new();
    if descriptor.max_rep_level() > 0 {
        // a column of lists, which are all null
        if !matches!(column.values, Values::Missing) {
            return Err(ParquetError::General("values of a column of lists".into()));
        }
        push_levels(&mut page, descriptor.max_rep_level(), rows, known)?;
    }
    push_levels(&mut page, descriptor.max_def_level(), rows, known)?;
    let pages = encode_values(&column.values, first, last, known, descriptor.physical_type())?;
    page.extend_from_slice(&pages.values);
    let compression = choose_compression(&page);
    let compress = |data: Vec<u8>| match compression {
        Compression::LZ4_RAW => lz4_flex::block::compress(&data).into(),
        _ => bytes::Bytes::from(data),
    };
    let mut sink = TrackedWrite::new(Vec::with_capacity(page.len()));
    let mut writer = SerializedPageWriter::new(&mut sink);
    let (mut bytes, mut compressed, mut dictionary_offset) = (0, 0, None);
    let mut encodings = vec![Encoding::RLE, pages.encoding];
    if let Some((dictionary, distinct)) = pages.dictionary {
        let size = dictionary.len();
        let buf = compress(dictionary);
        let dictionary = Page::DictionaryPage {
            buf,
            num_values: distinct as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let written = writer.write_page(CompressedPage::new(dictionary, size))?;
        bytes += written.uncompressed_size;
        compressed += written.compressed_size;
        dictionary_offset = Some(written.offset as i64);
        encodings.push(Encoding::PLAIN);
    }
    let size = page.len();
    let data = Page::DataPage {
        buf: compress(page),
        num_values: rows as u32,
        encoding: pages.encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    let written = writer.write_page(CompressedPage::new(data, size))?;
    bytes += written.uncompressed_size;
    compressed += written.compressed_size;
    let metadata = ColumnChunkMetaData::builder(descriptor.clone())
        .set_compression(compression)
        .set_encodings(encodings)
        .set_total_compressed_size(compressed as i64)
        .set_total_uncompressed_size(bytes as i64)
        .set_num_values(rows as i64)
        .set_data_page_offset(written.offset as i64)
        .set_dictionary_page_offset(dictionary_offset)
        .build()?;
    let closed = ColumnCloseResult {
        bytes_written: compressed as u64,
        rows_written: rows as u64,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok((sink.into_inner()?, closed))
}

/// Random bytes, as of digests, are not compressed.
fn choose_compression(page: &[u8]) -> Compression {
    let middle = page.len() / 2;
    match page.get(middle..middle + SAMPLE) {
        Some(sample) if lz4_flex::block::compress(sample).len() > SAMPLE * 15 / 16 => Compression::UNCOMPRESSED,
        _ => Compression::LZ4_RAW,
    }
}

/// Append repetition or definition levels of a page: `highest` where the value is known (None: everywhere), else 0.
fn push_levels(page: &mut Vec<u8>, highest: i16, rows: usize, known: Option<&[bool]>) -> Result<()> {
    if highest == 0 {
        return match known {
            Some(known) if known.contains(&false) => Err(ParquetError::General("a null in a required column".into())),
            _ => Ok(()),
        };
    }
    let highest = highest as u32;
    let width = u32::BITS - highest.leading_zeros();
    let mut levels = Vec::new();
    match known {
        Some(known) => {
            let of_rows: Vec<u32> = known.iter().map(|&known| if known { highest } else { 0 }).collect();
            push_hybrid(&mut levels, &of_rows, width);
        }
        None => push_run(&mut levels, rows, highest, width),
    }
    page.extend_from_slice(&(levels.len() as u32).to_le_bytes());
    page.extend_from_slice(&levels);
    Ok(())
}

fn encode_values(values: &Values, first: usize, last: usize, known: Option<&[bool]>, kind: Type) -> Result<Pages> {
    macro_rules! integers {
        ($values:expr) => {
            encode_integers(
                &select($values.get(first..last), known, |&value| value as i64),
                kind,
            )
        };
    }
    match (values, kind) {
        (Values::Missing, _) => Ok(Pages::plain(Vec::new())),
        (Values::Bool(values), Type::BOOLEAN) => {
            let values = select(values.get(first..last), known, |&value| value);
            Ok(Pages::plain(pack_booleans(values.into_iter())))
        }
        (Values::Same(text), Type::BYTE_ARRAY) => {
            let count = known.map_or(last - first, |known| known.iter().filter(|&&known| known).count());
            let mut dictionary = Vec::new();
            push_text(&mut dictionary, text.as_bytes());
            Ok(Pages::coded(dictionary, 1, &vec![0; count]))
        }
        (Values::Texts(texts, places), Type::BYTE_ARRAY) => {
            encode_texts(*texts, &select(places.get(first..last), known, |&place| place))
        }
        (Values::U8(values), Type::INT32 | Type::INT64) => {
            let values = select(values.get(first..last), known, |&value| u16::from(value));
            Ok(encode_small(&values, kind))
        }
        (Values::U16(values), Type::INT32 | Type::INT64) => Ok(encode_small(
            &select(values.get(first..last), known, |&value| value),
            kind,
        )),
        (Values::U32(values), Type::INT32 | Type::INT64) => integers!(values),
        (Values::I32(values), Type::INT32 | Type::INT64) => integers!(values),
        (Values::U64(values), Type::INT64) => integers!(values),
        (Values::I64(values), Type::INT64) => integers!(values),
        _ => Err(ParquetError::General(format!("values of another type than {kind}"))),
    }
}

/// The known values, converted.
fn select<T, U>(values: Option<&[T]>, known: Option<&[bool]>, convert: impl Fn(&T) -> U) -> Vec<U> {
    let values = values.unwrap_or(&[]);
    match known {
        None => values.iter().map(convert).collect(),
        Some(known) => {
            let known = values.iter().zip(known).filter(|(_, &known)| known);
            known.map(|(value, _)| convert(value)).collect()
        }
    }
}

fn encode_integers(values: &[i64], kind: Type) -> Result<Pages> {
    let size = if kind == Type::INT64 { 8 } else { 4 };
    Ok(match choose_encoding(values, size) {
        Encoded::Plain => Pages::plain(write_plain(values.iter().copied(), size)),
        Encoded::Delta(values) => Pages {
            dictionary: None,
            values,
            encoding: Encoding::DELTA_BINARY_PACKED,
        },
        Encoded::Dictionary { distinct, codes } => {
            let dictionary = write_plain(distinct.iter().copied(), size);
            Pages::coded(dictionary, distinct.len(), &codes)
        }
    })
}

/// Numbers below 2**16, which need no search for the least one.
fn encode_small(values: &[u16], kind: Type) -> Pages {
    let size = if kind == Type::INT64 { 8 } else { 4 };
    match find_small(values, size) {
        Some((distinct, codes)) => {
            let dictionary = write_plain(distinct.iter().map(|&value| value.into()), size);
            Pages::coded(dictionary, distinct.len(), &codes)
        }
        None => Pages::plain(write_plain(values.iter().map(|&value| value.into()), size)),
    }
}

/// The lowest `size` bytes of each number.
fn write_plain(values: impl ExactSizeIterator<Item = i64>, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.len() * size);
    for value in values {
        out.extend_from_slice(&value.to_le_bytes()[..size]);
    }
    out
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}

fn encode_texts(texts: Texts, places: &[u32]) -> Result<Pages> {
    let mut codes_of = vec![u32::MAX; texts.ends.len()];
    let (mut dictionary, mut distinct) = (Vec::new(), 0);
    let mut codes = Vec::with_capacity(places.len());
    for &place in places {
        let outside = || ParquetError::General("a text outside of the dictionary".into());
        let code = codes_of.get_mut(place as usize).ok_or_else(outside)?;
        if *code == u32::MAX {
            *code = distinct;
            distinct += 1;
            push_text(&mut dictionary, texts.get(place as usize).ok_or_else(outside)?);
        }
        codes.push(*code);
    }
    if codes.is_empty() {
        return Ok(Pages::plain(Vec::new()));
    }
    Ok(Pages::coded(dictionary, distinct as usize, &codes))
}
