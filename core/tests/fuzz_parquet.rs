//! Writes random tables as Parquet files, and reads them with the crate `parquet`.
//!
//! `RUNS=1000000 cargo test --no-default-features --test fuzz_parquet` makes that many executions, and `SEED`
//! selects others. Arithmetic that overflows panics in tests.

use std::net::Ipv4Addr;
use std::sync::Arc;

use _core::render::levels::repeat_levels;
use _core::render::parquet::{write_table, Column, Levels, Texts, Values};
use bytes::Bytes;
use fastrand::Rng;
use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::column::reader::ColumnReader;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// Address codes from this one on are places of IPv6 addresses.
const FIRST_IPV6: u64 = 1 << 32;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// An empty file with these columns.
fn template(kinds: &[Physical]) -> Vec<u8> {
    let fields = kinds.iter().enumerate().map(|(index, &kind)| {
        let name = format!("c{index}");
        let field = Type::primitive_type_builder(&name, kind).with_repetition(Repetition::OPTIONAL);
        let field = if kind == Physical::BYTE_ARRAY {
            field.with_converted_type(ConvertedType::UTF8)
        } else {
            field
        };
        Arc::new(field.build().expect("a type"))
    });
    let schema = Type::group_type_builder("root").with_fields(fields.collect()).build();
    let properties = Arc::new(WriterProperties::builder().build());
    let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema.expect("a schema")), properties);
    writer.expect("a writer").into_inner().expect("a file")
}

/// Numbers like those of tables: constant, rising, of few or many different values, or of all sizes.
fn numbers(rng: &mut Rng, rows: usize) -> Vec<i64> {
    let (mut value, shape) = (rng.i64(..), rng.u8(..6));
    let few: Vec<i64> = (0..rng.usize(1..300)).map(|_| rng.i64(..)).collect();
    (0..rows)
        .map(|_| {
            value = match shape {
                0 => value,
                1 => value.wrapping_add(rng.i64(-9..1000)),
                2 => few[rng.usize(..few.len())],
                3 => rng.i64(0..70_000),
                4 => rng.i64(..) >> rng.u32(..64),
                _ => value.wrapping_add(i64::from(rng.u8(..50) == 0)),
            };
            value
        })
        .collect()
}

/// Read a column of all row groups; None: null.
fn read(file: &SerializedFileReader<Bytes>, column: usize) -> Vec<Option<Vec<u8>>> {
    let mut result = Vec::new();
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group).expect("a row group");
        let rows = group.metadata().num_rows() as usize;
        let mut levels = Vec::new();
        macro_rules! values {
            ($reader:expr, $convert:expr) => {{
                let mut values = Vec::new();
                let (read, _, _) = $reader
                    .read_records(rows, Some(&mut levels), None, &mut values)
                    .expect("values");
                assert_eq!(read, rows);
                values.iter().map($convert).collect::<Vec<Vec<u8>>>()
            }};
        }
        let values = match group.get_column_reader(column).expect("a column") {
            ColumnReader::BoolColumnReader(mut reader) => values!(reader, |&value| vec![u8::from(value)]),
            ColumnReader::Int32ColumnReader(mut reader) => values!(reader, |value| value.to_le_bytes().to_vec()),
            ColumnReader::Int64ColumnReader(mut reader) => values!(reader, |value| value.to_le_bytes().to_vec()),
            ColumnReader::ByteArrayColumnReader(mut reader) => values!(reader, |value| value.data().to_vec()),
            _ => panic!("another type"),
        };
        let mut values = values.into_iter();
        result.extend(
            levels
                .iter()
                .map(|&level| (level == 1).then(|| values.next()).flatten()),
        );
        assert!(values.next().is_none());
    }
    result
}

#[test]
fn what_is_written_is_read() {
    let mut rng = Rng::with_seed(number("SEED", 1));
    let kinds = [
        Physical::INT64,
        Physical::INT32,
        Physical::BOOLEAN,
        Physical::BYTE_ARRAY,
    ];
    let template = template(&kinds);
    for _ in 0..number("RUNS", 3000) {
        let rows = rng.usize(..600);
        let wide = numbers(&mut rng, rows);
        let mut narrow: Vec<u32> = numbers(&mut rng, rows).into_iter().map(|value| value as u32).collect();
        let truths: Vec<bool> = (0..rows).map(|_| rng.bool()).collect();
        let texts: Vec<String> = (0..rng.usize(1..50))
            .map(|size| "é".repeat(size % 7) + &size.to_string())
            .collect();
        let names: Vec<u8> = (0..rows).map(|_| rng.u8(..texts.len() as u8)).collect();
        let places: Vec<u32> = names.iter().map(|&place| place.into()).collect();
        let ends: Vec<i64> = texts
            .iter()
            .scan(0, |end, text| {
                *end += text.len() as i64;
                Some(*end)
            })
            .collect();
        let data = texts.concat();
        let codes: Vec<u64> = places
            .iter()
            .map(|&place| {
                let code = if rng.bool() {
                    rng.u32(..).into()
                } else {
                    FIRST_IPV6 + u64::from(place)
                };
                code | rng.u64(..9) << 33
            })
            .collect();
        let repeated = rows > 0 && rng.u8(..4) == 0;
        if repeated {
            let value = narrow[0];
            narrow.fill(value);
        }
        let with_addresses = rng.u8(..3) == 0;
        let share = rng.u8(..);
        let known: Vec<bool> = (0..rows).map(|_| rng.u8(..) <= share).collect();
        let known_texts = rng.bool().then_some(&known[..]);
        let together = Texts {
            data: data.as_bytes(),
            ends: &ends,
        };
        let columns = [
            Column {
                values: Values::I64(&wide),
                known: Some(&known),
                levels: None,
            },
            Column {
                values: if repeated {
                    Values::Repeated(narrow[0], narrow.len())
                } else {
                    Values::U32(&narrow)
                },
                known: None,
                levels: None,
            },
            Column {
                values: if rng.u8(..9) == 0 {
                    Values::Missing
                } else {
                    Values::Bool(&truths)
                },
                known: Some(&known),
                levels: None,
            },
            Column {
                values: if with_addresses {
                    Values::Addresses(together, &codes)
                } else if rng.bool() {
                    Values::Texts(together, &places)
                } else {
                    Values::Names(together, &names)
                },
                known: known_texts,
                levels: None,
            },
        ];
        let mut order: Option<Vec<i32>> = rng.bool().then(|| (0..rows as i32).collect());
        if let Some(order) = &mut order {
            rng.shuffle(order);
            let wrong = vec![rows as i32; rows.max(1)];
            assert!(write_table(Vec::new(), &template, &columns, rows, Some(&wrong), 100).is_err());
        }
        let mut file = Vec::new();
        write_table(
            &mut file,
            &template,
            &columns,
            rows,
            order.as_deref(),
            rng.usize(1..700),
        )
        .expect("a file");
        let mut damaged = template.clone();
        for _ in 0..rng.usize(1..4) {
            let place = rng.usize(..damaged.len());
            damaged[place] = rng.u8(..);
        }
        damaged.truncate(if rng.u8(..4) == 0 {
            rng.usize(..damaged.len())
        } else {
            damaged.len()
        });
        let _ = write_table(Vec::new(), &damaged, &columns, rows, None, 100); // without panic
        let file = SerializedFileReader::new(Bytes::from(file)).expect("a Parquet file");
        let expect = |known: Option<&[bool]>, value: &dyn Fn(usize) -> Vec<u8>| -> Vec<Option<Vec<u8>>> {
            (0..rows)
                .map(|row| order.as_ref().map_or(row, |order| order[row] as usize))
                .map(|row| known.map_or(true, |known| known[row]).then(|| value(row)))
                .collect()
        };
        assert_eq!(
            read(&file, 0),
            expect(Some(&known), &|row| wide[row].to_le_bytes().to_vec())
        );
        assert_eq!(read(&file, 1), expect(None, &|row| narrow[row].to_le_bytes().to_vec()));
        let missing = vec![false; rows];
        let known_truths = if matches!(columns[2].values, Values::Missing) {
            &missing
        } else {
            &known
        };
        assert_eq!(
            read(&file, 2),
            expect(Some(known_truths), &|row| vec![u8::from(truths[row])])
        );
        let text = |row: usize| match codes[row] & (2 * FIRST_IPV6 - 1) {
            code if with_addresses && code < FIRST_IPV6 => Ipv4Addr::from(code as u32).to_string().into_bytes(),
            _ => texts[places[row] as usize].clone().into_bytes(),
        };
        assert_eq!(read(&file, 3), expect(known_texts, &text));
    }
}

/// An empty file with a column of optional lists of optional numbers.
fn list_template() -> Vec<u8> {
    let element = Type::primitive_type_builder("element", Physical::INT64).with_repetition(Repetition::OPTIONAL);
    let list = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![Arc::new(element.build().expect("a type"))]);
    let column = Type::group_type_builder("c")
        .with_repetition(Repetition::OPTIONAL)
        .with_converted_type(ConvertedType::LIST)
        .with_fields(vec![Arc::new(list.build().expect("a type"))]);
    let schema = Type::group_type_builder("root").with_fields(vec![Arc::new(column.build().expect("a type"))]);
    let properties = Arc::new(WriterProperties::builder().build());
    let schema = Arc::new(schema.build().expect("a schema"));
    let writer = SerializedFileWriter::new(Vec::new(), schema, properties).expect("a writer");
    writer.into_inner().expect("a file")
}

fn list_column<'a>(values: &'a [i64], definition: &'a [u8], repetition: &'a [u8]) -> Column<'a> {
    Column {
        values: Values::I64(values),
        known: None,
        levels: Some(Levels { definition, repetition }),
    }
}

#[test]
fn lists_that_are_written_are_read() {
    let mut rng = Rng::with_seed(number("SEED", 1));
    let template = list_template();
    for _ in 0..number("RUNS", 3000) {
        let rows = rng.usize(..200);
        let (mut definition, mut repetition) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            let size = rng.usize(..5);
            repetition.push(0);
            definition.push(if size == 0 { rng.u8(..2) } else { rng.u8(2..4) });
            for _ in 1..size {
                repetition.push(1);
                definition.push(rng.u8(2..4));
            }
        }
        let count = definition.iter().filter(|&&level| level == 3).count();
        let values = numbers(&mut rng, count);
        let mut file = Vec::new();
        let columns = [list_column(&values, &definition, &repetition)];
        write_table(&mut file, &template, &columns, rows, None, rng.usize(1..300)).expect("a file");
        let file = SerializedFileReader::new(Bytes::from(file)).expect("a Parquet file");
        let (mut read, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
        for group in 0..file.num_row_groups() {
            let group = file.get_row_group(group).expect("a row group");
            let ColumnReader::Int64ColumnReader(mut reader) = group.get_column_reader(0).expect("a column") else {
                panic!("another type");
            };
            reader
                .read_records(rows, Some(&mut definitions), Some(&mut repetitions), &mut read)
                .expect("values");
        }
        assert_eq!(read, values);
        assert!(definitions
            .iter()
            .zip(&definition)
            .all(|(&one, &two)| one == i16::from(two)));
        assert!(repetitions
            .iter()
            .zip(&repetition)
            .all(|(&one, &two)| one == i16::from(two)));
        assert_eq!(
            (definitions.len(), repetitions.len()),
            (definition.len(), repetition.len())
        );
        for level in definition.iter_mut().chain(&mut repetition) {
            if rng.u8(..20) == 0 {
                *level = rng.u8(..6);
            }
        }
        let places = [0, 1, rng.i64(-1..50), rng.i64(..)];
        if let Some(rows) = repeat_levels(&definition, &repetition, rng.bool(), &places) {
            assert_eq!(rows.definition.len(), rows.repetition.len());
            assert_eq!(
                rows.repetition.iter().filter(|&&level| level == 0).count(),
                places.len()
            );
            assert!(rows.place.len() <= rows.definition.len());
        }
        let wrong = [list_column(&values, &definition, &repetition)];
        let _ = write_table(Vec::new(), &template, &wrong, rows, None, 100); // without panic
    }
}
