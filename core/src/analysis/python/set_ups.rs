//! The functions about the set-ups of handshakes.

use super::{array, check_lengths, read_column, Columns};
use crate::analysis::{host_pairs, timing};
use numpy::{PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Add the functions to the module `_core`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(measure_host_pairs, module)?)?;
    module.add_function(wrap_pyfunction!(divide_set_up_times, module)?)
}

/// Read columns of a Python object into variables with their names.
macro_rules! read {
    ($object:expr, $($name:ident: $type:ty),+) => {
        $(let $name: PyReadonlyArray1<$type> = Columns($object).get(stringify!($name))?;)+
    };
}

fn of_no_handshake() -> PyErr {
    PyValueError::new_err("an exchange is of no handshake")
}

/// What the exchanges show about the paths between hosts, by name.
#[pyfunction]
fn measure_host_pairs<'py>(
    py: Python<'py>,
    exchange_columns: &Bound<'py, PyAny>,
    end_ns: PyReadonlyArray1<'py, i64>,
    messages: &Bound<'py, PyAny>,
    exchange_of_message: PyReadonlyArray1<'py, i32>,
    initiator: PyReadonlyArray1<'py, u64>,
    responder: PyReadonlyArray1<'py, u64>,
) -> PyResult<Bound<'py, PyDict>> {
    read!(messages, response: bool, initiator_asked: bool, transmission: u32, first_ns: i64);
    let sent = host_pairs::Messages {
        exchange: exchange_of_message.as_slice()?,
        response: response.as_slice()?,
        initiator_asked: initiator_asked.as_slice()?,
        transmission: transmission.as_slice()?,
        first_ns: first_ns.as_slice()?,
    };
    let lengths = [
        sent.response.len(),
        sent.initiator_asked.len(),
        sent.transmission.len(),
        sent.first_ns.len(),
    ];
    check_lengths(sent.exchange.len(), &lengths)?;
    read!(exchange_columns, handshake: i32, initiator_asked: bool, set_up: bool);
    read!(exchange_columns, request_messages: u32, response_messages: u32, request_ns: i64);
    let exchanges = host_pairs::Exchanges {
        handshake: handshake.as_slice()?,
        initiator_asked: initiator_asked.as_slice()?,
        set_up: set_up.as_slice()?,
        request_messages: request_messages.as_slice()?,
        response_messages: response_messages.as_slice()?,
        request_ns: request_ns.as_slice()?,
        end_ns: end_ns.as_slice()?,
    };
    let lengths = [
        initiator_asked.len(),
        set_up.len(),
        request_messages.len(),
        response_messages.len(),
        request_ns.len(),
        end_ns.len(),
    ];
    check_lengths(handshake.len(), &lengths)?;
    let (initiator, responder) = (initiator.as_slice()?, responder.as_slice()?);
    check_lengths(initiator.len(), &[responder.len()])?;
    let measures = py.detach(|| host_pairs::measure_host_pairs(&exchanges, &sent, initiator, responder));
    let measures =
        measures.ok_or_else(|| PyValueError::new_err("messages, exchanges and hosts do not fit together"))?;
    let result = PyDict::new(py);
    result.set_item("following", array(py, measures.following))?;
    result.set_item("continues", array(py, measures.continues))?;
    result.set_item("pair", array(py, measures.pair))?;
    result.set_item("round_trip_ns", array(py, measures.round_trip_ns))?;
    result.set_item("possibly_long", array(py, measures.possibly_long))?;
    Ok(result)
}

/// The columns of `TimeBreakdown` by name.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn divide_set_up_times<'py>(
    py: Python<'py>,
    exchanges: &Bound<'py, PyAny>,
    answers: &Bound<'py, PyAny>,
    complete: PyReadonlyArray1<'py, bool>,
    initiator: PyReadonlyArray1<'py, u64>,
    responder: PyReadonlyArray1<'py, u64>,
    path: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    read!(exchanges, handshake: i32, set_up: bool, initiator_asked: bool);
    read!(exchanges, request_messages: u32, response_messages: u32, request_ns: i64, response_ns: i64);
    read!(answers, answered_ns: i64, end_ns: i64, wait_ns: i64, response_wait_ns: i64, uncertain: bool);
    read!(path, vantage: u8, rtt_ns: i64);
    let columns = timing::Exchanges {
        handshake: handshake.as_slice()?,
        set_up: set_up.as_slice()?,
        initiator_asked: initiator_asked.as_slice()?,
        request_messages: request_messages.as_slice()?,
        response_messages: response_messages.as_slice()?,
        request_ns: request_ns.as_slice()?,
        response_ns: response_ns.as_slice()?,
        answered_ns: answered_ns.as_slice()?,
        end_ns: end_ns.as_slice()?,
        wait_ns: wait_ns.as_slice()?,
        response_wait_ns: read_column(&response_wait_ns)?,
        uncertain: uncertain.as_slice()?,
    };
    let lengths = [
        set_up.len(),
        initiator_asked.len(),
        request_messages.len(),
        response_messages.len(),
        request_ns.len(),
        response_ns.len(),
        answered_ns.len(),
        end_ns.len(),
        wait_ns.len(),
        response_wait_ns.len(),
        uncertain.len(),
    ];
    check_lengths(handshake.len(), &lengths)?;
    let handshakes = timing::Handshakes {
        complete: complete.as_slice()?,
        initiator: initiator.as_slice()?,
        responder: responder.as_slice()?,
        vantage: vantage.as_slice()?,
        rtt_ns: rtt_ns.as_slice()?,
    };
    check_lengths(
        complete.len(),
        &[initiator.len(), responder.len(), vantage.len(), rtt_ns.len()],
    )?;
    let breakdown = py.detach(|| timing::divide_set_up_times(&columns, &handshakes));
    let breakdown = breakdown.ok_or_else(of_no_handshake)?;
    let result = PyDict::new(py);
    result.set_item("setup_ns", array(py, breakdown.setup_ns))?;
    result.set_item("initiator_setup_ns", array(py, breakdown.initiator_setup_ns))?;
    result.set_item("network_ns", array(py, breakdown.network_ns))?;
    result.set_item("initiator_ns", array(py, breakdown.initiator_ns))?;
    result.set_item(
        "initiator_and_network_ns",
        array(py, breakdown.initiator_and_network_ns),
    )?;
    result.set_item("responder_ns", array(py, breakdown.responder_ns))?;
    result.set_item("aaa_ns", array(py, breakdown.aaa_ns))?;
    result.set_item("wait_ns", array(py, breakdown.wait_ns))?;
    result.set_item("path_rtt_ns", array(py, breakdown.path_rtt_ns))?;
    result.set_item("end_ns", array(py, breakdown.end_ns))?;
    Ok(result)
}
