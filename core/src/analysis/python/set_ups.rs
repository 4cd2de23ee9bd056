//! The functions about the set-ups of handshakes.

use super::{array, check_lengths, read_column, Array, Columns};
use crate::analysis::{evidence, host_pairs, timing};
use numpy::{PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Add the functions to the module `_core`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(measure_host_pairs, module)?)?;
    module.add_function(wrap_pyfunction!(collect_evidence, module)?)?;
    module.add_function(wrap_pyfunction!(find_last_times, module)?)?;
    module.add_function(wrap_pyfunction!(sum_auth_exchanges, module)?)?;
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

/// Columns of `Evidence` that the exchanges show, by name.
#[pyfunction]
fn collect_evidence<'py>(
    py: Python<'py>,
    exchange_columns: &Bound<'py, PyAny>,
    unprotected: PyReadonlyArray1<'py, bool>,
    unreceived: PyReadonlyArray1<'py, bool>,
    asked_in_clear: PyReadonlyArray1<'py, bool>,
    undone: PyReadonlyArray1<'py, bool>,
) -> PyResult<Bound<'py, PyDict>> {
    read!(exchange_columns, handshake: i32, protocol: u8, exchange_type: u8, message_id: u32, attempt: i32);
    read!(exchange_columns, initiator_asked: bool, set_up: bool, request_messages: u32, response_messages: u32);
    read!(exchange_columns, start_ns: i64);
    let exchanges = evidence::Exchanges {
        handshake: handshake.as_slice()?,
        protocol: protocol.as_slice()?,
        exchange_type: exchange_type.as_slice()?,
        message_id: message_id.as_slice()?,
        start_ns: start_ns.as_slice()?,
        attempt: attempt.as_slice()?,
        initiator_asked: initiator_asked.as_slice()?,
        set_up: set_up.as_slice()?,
        request_messages: request_messages.as_slice()?,
        response_messages: response_messages.as_slice()?,
        unprotected: unprotected.as_slice()?,
        unreceived: unreceived.as_slice()?,
        asked_in_clear: asked_in_clear.as_slice()?,
    };
    let lengths = [
        protocol.len(),
        exchange_type.len(),
        message_id.len(),
        start_ns.len(),
        attempt.len(),
        initiator_asked.len(),
        set_up.len(),
        request_messages.len(),
        response_messages.len(),
        unprotected.len(),
        unreceived.len(),
        asked_in_clear.len(),
    ];
    check_lengths(handshake.len(), &lengths)?;
    let undone = undone.as_slice()?;
    let found = py.detach(|| evidence::collect_evidence(&exchanges, undone));
    let found = found.ok_or_else(of_no_handshake)?;
    let result = PyDict::new(py);
    result.set_item("begun", array(py, found.begun))?;
    result.set_item("hole", array(py, found.hole))?;
    result.set_item("last_unanswered", array(py, found.last_unanswered))?;
    result.set_item("last_repeated", array(py, found.last_repeated))?;
    result.set_item("finished", array(py, found.finished))?;
    result.set_item("asked_again", array(py, found.asked_again))?;
    Ok(result)
}

/// The time of the last message of the set-up of each handshake.
#[pyfunction]
fn find_last_times<'py>(
    py: Python<'py>,
    exchange_columns: &Bound<'py, PyAny>,
    exchange_of_message: PyReadonlyArray1<'py, i32>,
    last_ns: PyReadonlyArray1<'py, i64>,
    count: usize,
) -> PyResult<Array<'py, i64>> {
    read!(exchange_columns, handshake: i32, set_up: bool);
    check_lengths(handshake.len(), &[set_up.len()])?;
    check_lengths(exchange_of_message.len(), &[last_ns.len()])?;
    let (exchange, last_ns) = (exchange_of_message.as_slice()?, last_ns.as_slice()?);
    let (handshake, set_up) = (handshake.as_slice()?, set_up.as_slice()?);
    let latest = py.detach(|| evidence::find_last_times(exchange, last_ns, handshake, set_up, count));
    Ok(array(py, latest.ok_or_else(of_no_handshake)?))
}

/// Number, messages and bytes of the IKE_AUTH exchanges of each handshake, by name.
#[pyfunction]
fn sum_auth_exchanges<'py>(
    py: Python<'py>,
    exchange_columns: &Bound<'py, PyAny>,
    count: usize,
) -> PyResult<Bound<'py, PyDict>> {
    read!(exchange_columns, handshake: i32, protocol: u8, exchange_type: u8);
    read!(exchange_columns, request_messages: u32, request_bytes: i64, response_messages: u32, response_bytes: i64);
    let lengths = [
        protocol.len(),
        exchange_type.len(),
        request_messages.len(),
        request_bytes.len(),
        response_messages.len(),
        response_bytes.len(),
    ];
    check_lengths(handshake.len(), &lengths)?;
    let exchanges = (handshake.as_slice()?, protocol.as_slice()?, exchange_type.as_slice()?);
    let request = (request_messages.as_slice()?, request_bytes.as_slice()?);
    let response = (response_messages.as_slice()?, response_bytes.as_slice()?);
    let sums = py.detach(|| evidence::sum_auth_exchanges(exchanges, request, response, count));
    let sums = sums.ok_or_else(of_no_handshake)?;
    let result = PyDict::new(py);
    result.set_item("exchanges", array(py, sums.exchanges))?;
    result.set_item("request_messages", array(py, sums.request_messages))?;
    result.set_item("request_bytes", array(py, sums.request_bytes))?;
    result.set_item("response_messages", array(py, sums.response_messages))?;
    result.set_item("response_bytes", array(py, sums.response_bytes))?;
    Ok(result)
}
