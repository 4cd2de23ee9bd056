//! The functions that ikeanalyze/analysis/decryption calls.

use super::chains::{self, Chain};
use super::handshakes::{self, Datagrams, KeySet};
use super::prefixes::{self, Payloads, Rules};
use numpy::{PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Add the functions to the module `_core`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(decrypt_handshakes, module)?)?;
    module.add_function(wrap_pyfunction!(walk_chains, module)?)?;
    module.add_function(wrap_pyfunction!(number_prefixes, module)?)
}

/// Whether these are the ends of consecutive ranges of `count` values.
fn are_ends(ends: &[i64], count: usize) -> bool {
    ends.windows(2).all(|pair| pair[0] <= pair[1])
        && ends.first().is_none_or(|&first| first >= 0)
        && ends
            .last()
            .map_or(count == 0, |&last| usize::try_from(last) == Ok(count))
}

/// Decrypt the messages of handshakes with their key sets; returns the columns of `handshakes::Decrypted`.
///
/// `keys`: a heap, and offset and size of SK_ei, SK_er, SK_ai and SK_ar of each key set in it; `encryption`,
/// `integrity`: the transform IDs of each key set; `decrypted_heap`: gets headers and plaintexts.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn decrypt_handshakes<'py>(
    py: Python<'py>,
    heap: PyReadonlyArray1<'py, u8>,
    columns: &Bound<'py, PyDict>,
    ends: PyReadonlyArray1<'py, i64>,
    keys: (
        PyReadonlyArray1<'py, u8>,
        PyReadonlyArray1<'py, i64>,
        PyReadonlyArray1<'py, i64>,
    ),
    encryption: PyReadonlyArray1<'py, u16>,
    integrity: PyReadonlyArray1<'py, u16>,
    key_ends: PyReadonlyArray1<'py, i64>,
    threads: usize,
    mut decrypted_heap: PyReadwriteArray1<'py, u8>,
) -> PyResult<Bound<'py, PyDict>> {
    let get = |name: &str| -> PyResult<Bound<'py, PyAny>> {
        columns
            .get_item(name)?
            .ok_or_else(|| PyValueError::new_err("a column is missing"))
    };
    let begin: PyReadonlyArray1<'py, i64> = get("begin")?.extract()?;
    let size: PyReadonlyArray1<'py, i64> = get("size")?.extract()?;
    let slot: PyReadonlyArray1<'py, i64> = get("slot")?.extract()?;
    let body: PyReadonlyArray1<'py, i64> = get("body")?.extract()?;
    let number: PyReadonlyArray1<'py, u16> = get("number")?.extract()?;
    let total: PyReadonlyArray1<'py, u16> = get("total")?.extract()?;
    let from_initiator: PyReadonlyArray1<'py, bool> = get("from_initiator")?.extract()?;
    let datagrams = Datagrams {
        heap: heap.as_slice()?,
        begin: begin.as_slice()?,
        size: size.as_slice()?,
        slot: slot.as_slice()?,
        body: body.as_slice()?,
        number: number.as_slice()?,
        total: total.as_slice()?,
        from_initiator: from_initiator.as_slice()?,
    };
    let (ends, key_ends) = (ends.as_slice()?, key_ends.as_slice()?);
    let (encryption, integrity) = (encryption.as_slice()?, integrity.as_slice()?);
    let count = datagrams.begin.len();
    let lengths = [
        datagrams.size.len(),
        datagrams.slot.len(),
        datagrams.body.len(),
        datagrams.number.len(),
        datagrams.total.len(),
        datagrams.from_initiator.len(),
    ];
    let (key_heap, key_begin, key_size) = (keys.0.as_slice()?, keys.1.as_slice()?, keys.2.as_slice()?);
    if lengths.iter().any(|&length| length != count)
        || key_begin.len() != 4 * encryption.len()
        || key_size.len() != 4 * encryption.len()
        || integrity.len() != encryption.len()
        || ends.len() != key_ends.len()
        || !are_ends(ends, count)
        || !are_ends(key_ends, encryption.len())
    {
        return Err(PyValueError::new_err("columns differ in length"));
    }
    let read_key = |place: usize| -> Option<&[u8]> {
        let begin = usize::try_from(key_begin[place]).ok()?;
        key_heap.get(begin..begin.checked_add(usize::try_from(key_size[place]).ok()?)?)
    };
    let key_sets: Vec<KeySet> = (0..encryption.len())
        .map(|number| {
            Some(KeySet {
                encryption: encryption[number],
                integrity: integrity[number],
                sk_ei: read_key(4 * number)?,
                sk_er: read_key(4 * number + 1)?,
                sk_ai: read_key(4 * number + 2)?,
                sk_ar: read_key(4 * number + 3)?,
            })
        })
        .collect::<Option<_>>()
        .ok_or_else(|| PyValueError::new_err("keys are outside of their heap"))?;
    let target = decrypted_heap.as_slice_mut()?;
    let decrypted =
        py.detach(|| handshakes::decrypt_handshakes(&datagrams, ends, &key_sets, key_ends, threads, target));
    let result = PyDict::new(py);
    result.set_item("handled", PyArray1::from_vec(py, decrypted.handled))?;
    result.set_item("message_ends", PyArray1::from_vec(py, decrypted.message_ends))?;
    result.set_item("undecrypted_ends", PyArray1::from_vec(py, decrypted.undecrypted_ends))?;
    result.set_item("last", PyArray1::from_vec(py, decrypted.last))?;
    result.set_item("position", PyArray1::from_vec(py, decrypted.position))?;
    result.set_item("first", PyArray1::from_vec(py, decrypted.first))?;
    result.set_item("begin", PyArray1::from_vec(py, decrypted.begin))?;
    result.set_item("size", PyArray1::from_vec(py, decrypted.size))?;
    result.set_item("part_ends", PyArray1::from_vec(py, decrypted.part_ends))?;
    result.set_item("parts", PyArray1::from_vec(py, decrypted.parts))?;
    result.set_item("undecrypted", PyArray1::from_vec(py, decrypted.undecrypted))?;
    Ok(result)
}

/// Walk the chains of payloads of messages; returns the columns of `chains::Payloads`.
#[pyfunction]
fn walk_chains<'py>(
    py: Python<'py>,
    heap: PyReadonlyArray1<'py, u8>,
    begin: PyReadonlyArray1<'py, i64>,
    end: PyReadonlyArray1<'py, i64>,
    first: PyReadonlyArray1<'py, u8>,
    wanted: PyReadonlyArray1<'py, bool>,
    most: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let (heap, begin, end) = (heap.as_slice()?, begin.as_slice()?, end.as_slice()?);
    let (first, wanted) = (first.as_slice()?, wanted.as_slice()?);
    if [end.len(), first.len(), wanted.len()]
        .iter()
        .any(|&length| length != begin.len())
    {
        return Err(PyValueError::new_err("columns differ in length"));
    }
    let chains = (0..begin.len()).map(|row| {
        let (begin, end) = (usize::try_from(begin[row]).ok()?, usize::try_from(end[row]).ok()?);
        wanted[row].then_some(Chain {
            begin,
            end,
            first: first[row],
        })
    });
    let payloads = py.detach(|| chains::walk_chains(heap, chains, most));
    let result = PyDict::new(py);
    result.set_item("message", PyArray1::from_vec(py, payloads.message))?;
    result.set_item("type", PyArray1::from_vec(py, payloads.kind))?;
    result.set_item("critical", PyArray1::from_vec(py, payloads.critical))?;
    result.set_item("begin", PyArray1::from_vec(py, payloads.begin))?;
    result.set_item("size", PyArray1::from_vec(py, payloads.size))?;
    result.set_item("ends", PyArray1::from_vec(py, payloads.ends))?;
    result.set_item("complete", PyArray1::from_vec(py, payloads.complete))?;
    Ok(result)
}

/// Number payloads by their first bytes; returns the columns of `prefixes::Numbers`.
///
/// `payloads`: heap, type, critical flag, offset and size of each. `answers`: whether each belongs to a response.
/// `prefix`, `is_opaque`, `notify`, `auth`: see `prefixes::Rules`; `auth` is a type and a method.
#[pyfunction]
#[allow(clippy::too_many_arguments, clippy::type_complexity)]
fn number_prefixes<'py>(
    py: Python<'py>,
    payloads: (
        PyReadonlyArray1<'py, u8>,
        PyReadonlyArray1<'py, u8>,
        PyReadonlyArray1<'py, bool>,
        PyReadonlyArray1<'py, i64>,
        PyReadonlyArray1<'py, i64>,
    ),
    answers: PyReadonlyArray1<'py, bool>,
    suspicious: PyReadonlyArray1<'py, i64>,
    prefix: PyReadonlyArray1<'py, i8>,
    is_opaque: PyReadonlyArray1<'py, bool>,
    notify: u8,
    auth: (u8, u8),
) -> PyResult<(Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<bool>>)> {
    let (heap, kind, critical, begin, size) = &payloads;
    let columns = Payloads {
        heap: heap.as_slice()?,
        kind: kind.as_slice()?,
        critical: critical.as_slice()?,
        answers: answers.as_slice()?,
        begin: begin.as_slice()?,
        size: size.as_slice()?,
    };
    let rules = Rules {
        prefix: prefix.as_slice()?,
        notify,
        is_opaque: is_opaque.as_slice()?,
        auth: auth.0,
        signature: auth.1,
    };
    let lengths = [
        columns.critical.len(),
        columns.answers.len(),
        columns.begin.len(),
        columns.size.len(),
    ];
    if lengths.iter().any(|&length| length != columns.kind.len())
        || rules.prefix.len() != 1 << 8
        || rules.is_opaque.len() != 1 << 16
    {
        return Err(PyValueError::new_err("columns differ in length"));
    }
    let suspicious = suspicious.as_slice()?;
    let numbers = py.detach(|| prefixes::number_prefixes(&columns, suspicious, &rules));
    Ok((
        PyArray1::from_vec(py, numbers.number),
        PyArray1::from_vec(py, numbers.whole),
    ))
}
