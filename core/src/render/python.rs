//! The functions that ikeanalyze/render calls.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use numpy::{PyArray1, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

use super::levels;
use super::parquet::{Column, Error, Levels, TableWriter, Texts, Values, OTHER_COLUMNS};

/// The values of a column as Python has them.
#[derive(FromPyObject)]
enum Array<'py> {
    U8(PyReadonlyArray1<'py, u8>),
    U16(PyReadonlyArray1<'py, u16>),
    U32(PyReadonlyArray1<'py, u32>),
    U64(PyReadonlyArray1<'py, u64>),
    I32(PyReadonlyArray1<'py, i32>),
    I64(PyReadonlyArray1<'py, i64>),
    F64(PyReadonlyArray1<'py, f64>),
    Bool(PyReadonlyArray1<'py, bool>),
    Same(String),
}

/// Texts one after another, and where each ends.
type TextArguments<'py> = (PyBackedStr, PyReadonlyArray1<'py, i64>);

/// Definition and repetition levels.
type LevelArguments<'py> = (PyReadonlyArray1<'py, u8>, PyReadonlyArray1<'py, u8>);

/// Values (None: no row has one), which of them are known (None: all), the texts that numbers stand for, and the levels
/// of a column in lists.
type ColumnArguments<'py> = (
    Option<Array<'py>>,
    Option<PyReadonlyArray1<'py, bool>>,
    Option<TextArguments<'py>>,
    Option<LevelArguments<'py>>,
);

fn make_column<'a>(arguments: &'a ColumnArguments<'_>) -> PyResult<Column<'a>> {
    let (array, known, texts, levels) = arguments;
    let texts = match texts {
        Some((data, ends)) => Some(Texts {
            data: data.as_bytes(),
            ends: ends.as_slice()?,
        }),
        None => None,
    };
    let values = match (array, texts) {
        (None, _) => Values::Missing,
        (Some(Array::U8(places)), Some(texts)) => Values::Names(texts, places.as_slice()?),
        (Some(Array::U32(places)), Some(texts)) => Values::Texts(texts, places.as_slice()?),
        (Some(Array::U64(codes)), Some(texts)) => Values::Addresses(texts, codes.as_slice()?),
        (Some(_), Some(_)) => return Err(PyValueError::new_err("places of texts must be uint8, uint32 or uint64")),
        (Some(Array::U8(values)), _) => Values::U8(values.as_slice()?),
        (Some(Array::U16(values)), _) => Values::U16(values.as_slice()?),
        (Some(Array::U32(values)), _) if values.len() > 1 && values.strides() == [0] => {
            Values::Repeated(values.as_array()[0], values.len())
        }
        (Some(Array::U32(values)), _) => Values::U32(values.as_slice()?),
        (Some(Array::U64(values)), _) => Values::U64(values.as_slice()?),
        (Some(Array::I32(values)), _) => Values::I32(values.as_slice()?),
        (Some(Array::I64(values)), _) => Values::I64(values.as_slice()?),
        (Some(Array::F64(values)), _) => Values::F64(values.as_slice()?),
        (Some(Array::Bool(values)), _) => Values::Bool(values.as_slice()?),
        (Some(Array::Same(text)), _) => Values::Same(text),
    };
    let known = known.as_ref().map(|known| known.as_slice()).transpose()?;
    let levels = match levels {
        Some((definition, repetition)) => Some(Levels {
            definition: definition.as_slice()?,
            repetition: repetition.as_slice()?,
        }),
        None => None,
    };
    Ok(Column { values, known, levels })
}

fn make_error(error: Error) -> PyErr {
    match error {
        Error::Io(error) => error.into(),
        Error::Invalid(reason) => PyValueError::new_err(reason),
    }
}

/// A table that is written column by column.
#[pyclass(frozen)]
struct ParquetTable(Mutex<Option<TableWriter<File>>>);

#[pymethods]
impl ParquetTable {
    #[new]
    fn new(path: PathBuf, template: &[u8], rows: usize, row_group: usize) -> PyResult<Self> {
        let writer = TableWriter::new(File::create(path)?, template, rows, row_group).map_err(make_error)?;
        Ok(Self(Mutex::new(Some(writer))))
    }

    /// Write some columns, each with its leaves.
    fn write(
        &self,
        py: Python<'_>,
        columns: Vec<(String, Vec<ColumnArguments<'_>>)>,
        order: Option<PyReadonlyArray1<'_, i32>>,
    ) -> PyResult<()> {
        let mut leaves = Vec::new();
        for (name, arguments) in &columns {
            let converted: Vec<Column> = arguments.iter().map(make_column).collect::<PyResult<_>>()?;
            leaves.push((name, converted));
        }
        let order = order.as_ref().map(|order| order.as_slice()).transpose()?;
        py.detach(|| {
            let mut writer = self.lock();
            let writer = writer.as_mut().ok_or(FINISHED)?;
            let mut numbered = Vec::new();
            for (name, columns) in &leaves {
                let numbers: Vec<usize> = writer.find_leaves(name).collect();
                if numbers.len() != columns.len() {
                    return Err(OTHER_COLUMNS);
                }
                numbered.extend(numbers.into_iter().zip(columns));
            }
            writer.write(&numbered, order)
        })
        .map_err(make_error)
    }

    /// Complete the file.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.lock().take().map_or(Err(FINISHED), TableWriter::finish))
            .map_err(make_error)
    }
}

const FINISHED: Error = Error::Invalid("the table is finished");

impl ParquetTable {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<TableWriter<File>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Array1<'py, T> = Bound<'py, PyArray1<T>>;

/// The definition and repetition levels of a leaf in each row, and which of the values of the leaf each value is.
#[pyfunction]
fn repeat_levels<'py>(
    py: Python<'py>,
    definition: PyReadonlyArray1<'py, u8>,
    repetition: PyReadonlyArray1<'py, u8>,
    has_values: bool,
    place: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Array1<'py, u8>, Array1<'py, u8>, Array1<'py, u32>)> {
    let (definition, repetition, place) = (definition.as_slice()?, repetition.as_slice()?, place.as_slice()?);
    let rows = py.detach(|| levels::repeat_levels(definition, repetition, has_values, place));
    let rows = rows.ok_or_else(|| PyValueError::new_err("a place is outside of the lists"))?;
    Ok((
        PyArray1::from_vec(py, rows.definition),
        PyArray1::from_vec(py, rows.repetition),
        PyArray1::from_vec(py, rows.place),
    ))
}

/// Add the functions to the module `_core`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ParquetTable>()?;
    module.add_function(wrap_pyfunction!(repeat_levels, module)?)
}
