//! The functions that ikeanalyze/analysis calls. Columns are arrays of one length. Other threads of Python run meanwhile.

use super::messages::Column;
use super::{
    association, duplicates, exchanges, grouping, handshakes, init_messages, messages, retransmission, sorting, volumes,
};
use numpy::{Element, PyArray1, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

mod set_ups;

/// Add the functions to the module `_core`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    set_ups::register(module)?;
    module.add_function(wrap_pyfunction!(find_distinct, module)?)?;
    module.add_function(wrap_pyfunction!(order_times, module)?)?;
    module.add_function(wrap_pyfunction!(find_candidates, module)?)?;
    module.add_function(wrap_pyfunction!(find_distinct_bodies, module)?)?;
    module.add_function(wrap_pyfunction!(group_by_spi, module)?)?;
    module.add_function(wrap_pyfunction!(classify_slot, module)?)?;
    module.add_function(wrap_pyfunction!(group_messages, module)?)?;
    module.add_function(wrap_pyfunction!(fit_form, module)?)?;
    module.add_function(wrap_pyfunction!(pair_exchanges, module)?)?;
    module.add_function(wrap_pyfunction!(end_in_order, module)?)?;
    module.add_function(wrap_pyfunction!(sum_volumes, module)?)?;
    module.add_function(wrap_pyfunction!(sum_phases, module)?)?;
    module.add_function(wrap_pyfunction!(compare_nat_hashes, module)?)?;
    module.add_function(wrap_pyfunction!(find_contradicted_flags, module)?)?;
    module.add_function(wrap_pyfunction!(find_first_rows, module)?)?;
    module.add_function(wrap_pyfunction!(infer_capture_sides, module)?)?;
    module.add_function(wrap_pyfunction!(find_responders_on_port, module)?)?;
    module.add_function(wrap_pyfunction!(summarise_datagrams, module)?)
}

type Array<'py, T> = Bound<'py, PyArray1<T>>;

fn array<T: Element>(py: Python<'_>, mut values: Vec<T>) -> Array<'_, T> {
    values.shrink_to_fit(); // the capacity would stay with the array
    PyArray1::from_vec(py, values)
}

/// Rows are numbered with 31 bits, and all columns must have them.
fn check_lengths(count: usize, others: &[usize]) -> PyResult<()> {
    if count >= 1 << 31 || others.iter().any(|&other| other != count) {
        return Err(PyValueError::new_err("columns differ in length, or have 2**31 rows"));
    }
    Ok(())
}

/// The different values, in the order in which they first appear, and which of them each value is.
#[pyfunction]
fn find_distinct<'py>(
    py: Python<'py>,
    values: PyReadonlyArray1<'py, u64>,
) -> PyResult<(Array<'py, u64>, Array<'py, u32>)> {
    let values = values.as_slice()?;
    check_lengths(values.len(), &[])?;
    let (distinct, places) = py.detach(|| grouping::find_distinct(values));
    Ok((array(py, distinct), array(py, places)))
}

/// The rows of the first of bodies with equal numbers and bytes, and which of those each body is.
#[pyfunction]
fn find_distinct_bodies<'py>(
    py: Python<'py>,
    heap: PyReadonlyArray1<'py, u8>,
    begin: PyReadonlyArray1<'py, i64>,
    end: PyReadonlyArray1<'py, i64>,
    number: PyReadonlyArray1<'py, u64>,
) -> PyResult<(Array<'py, i64>, Array<'py, u32>)> {
    let (heap, begin, end, number) = (heap.as_slice()?, begin.as_slice()?, end.as_slice()?, number.as_slice()?);
    check_lengths(number.len(), &[begin.len(), end.len()])?;
    let (first, equal) = py
        .detach(|| grouping::find_distinct_bodies(heap, begin, end, number))
        .ok_or_else(|| PyValueError::new_err("a body is outside of the heap"))?;
    Ok((array(py, first), array(py, equal)))
}

/// The rows in order of their times, earlier rows first where these are equal.
#[pyfunction]
fn order_times<'py>(py: Python<'py>, times: PyReadonlyArray1<'py, i64>) -> PyResult<Array<'py, i32>> {
    let times = times.as_slice()?;
    check_lengths(times.len(), &[])?;
    Ok(array(py, py.detach(|| sorting::order_times(times))))
}

/// How many frames repeat the content of another; and the rows of those that may be sightings of the same frame.
#[pyfunction]
fn find_candidates<'py>(
    py: Python<'py>,
    digest: PyReadonlyArray1<'py, u64>,
    time_ns: PyReadonlyArray1<'py, i64>,
    ttl: PyReadonlyArray1<'py, u8>,
    interface: PyReadonlyArray1<'py, u32>,
) -> PyResult<(usize, Array<'py, i64>)> {
    let frames = duplicates::Frames {
        digest: digest.as_slice()?,
        time_ns: time_ns.as_slice()?,
        ttl: ttl.as_slice()?,
        interface: interface.as_slice()?,
    };
    check_lengths(
        frames.digest.len(),
        &[frames.time_ns.len(), frames.ttl.len(), frames.interface.len()],
    )?;
    let (repeated, rows) = py.detach(|| duplicates::find_candidates(&frames));
    Ok((repeated, array(py, rows)))
}

/// The columns of a Python object, by name.
struct Columns<'a, 'py>(&'a Bound<'py, PyAny>);

impl<'py> Columns<'_, 'py> {
    fn get<T: Element>(&self, name: &str) -> PyResult<PyReadonlyArray1<'py, T>> {
        self.0.getattr(name)?.extract()
    }
}

/// The columns of the datagrams that the association uses.
struct AssociationColumns<'py> {
    spi_i: PyReadonlyArray1<'py, u64>,
    spi_r: PyReadonlyArray1<'py, u64>,
    protocol: PyReadonlyArray1<'py, u8>,
    exchange_type: PyReadonlyArray1<'py, u8>,
    flags: PyReadonlyArray1<'py, u8>,
    digest: PyReadonlyArray1<'py, u64>,
    first_ns: PyReadonlyArray1<'py, i64>,
    source: PyReadonlyArray1<'py, u64>,
    source_port: PyReadonlyArray1<'py, u16>,
    destination: PyReadonlyArray1<'py, u64>,
    destination_port: PyReadonlyArray1<'py, u16>,
}

impl<'py> AssociationColumns<'py> {
    fn read(datagrams: &Bound<'py, PyAny>) -> PyResult<Self> {
        let columns = Columns(datagrams);
        Ok(Self {
            spi_i: columns.get("spi_i")?,
            spi_r: columns.get("spi_r")?,
            protocol: columns.get("protocol")?,
            exchange_type: columns.get("exchange_type")?,
            flags: columns.get("flags")?,
            digest: columns.get("digest")?,
            first_ns: columns.get("first_ns")?,
            source: columns.get("source")?,
            source_port: columns.get("source_port")?,
            destination: columns.get("destination")?,
            destination_port: columns.get("destination_port")?,
        })
    }

    /// The columns, which have so many rows.
    fn check(&self, rows: usize) -> PyResult<association::Datagrams<'_>> {
        let datagrams = association::Datagrams {
            spi_i: self.spi_i.as_slice()?,
            spi_r: self.spi_r.as_slice()?,
            protocol: self.protocol.as_slice()?,
            exchange_type: self.exchange_type.as_slice()?,
            flags: self.flags.as_slice()?,
            digest: self.digest.as_slice()?,
            first_ns: self.first_ns.as_slice()?,
            source: self.source.as_slice()?,
            source_port: self.source_port.as_slice()?,
            destination: self.destination.as_slice()?,
            destination_port: self.destination_port.as_slice()?,
        };
        let lengths = [
            datagrams.spi_i.len(),
            datagrams.spi_r.len(),
            datagrams.protocol.len(),
            datagrams.exchange_type.len(),
            datagrams.flags.len(),
            datagrams.digest.len(),
            datagrams.first_ns.len(),
            datagrams.source.len(),
            datagrams.source_port.len(),
            datagrams.destination.len(),
            datagrams.destination_port.len(),
        ];
        check_lengths(rows, &lengths)?;
        Ok(datagrams)
    }
}

/// Group datagrams by `key`: the group of each, in order of the first datagrams, and whether each group is ambiguous.
#[pyfunction]
fn group_by_spi<'py>(
    py: Python<'py>,
    key: PyReadonlyArray1<'py, u64>,
    datagrams: &Bound<'py, PyAny>,
) -> PyResult<(Array<'py, i32>, Array<'py, bool>)> {
    let (key, columns) = (key.as_slice()?, AssociationColumns::read(datagrams)?);
    let datagrams = columns.check(key.len())?;
    let (labels, ambiguous) = py.detach(|| association::group_by_spi(key, &datagrams));
    Ok((array(py, labels), array(py, ambiguous)))
}

/// The rows of datagrams whose flag of the initiator contradicts the addresses.
#[pyfunction]
fn find_contradicted_flags<'py>(
    py: Python<'py>,
    datagrams: &Bound<'py, PyAny>,
    handshake: PyReadonlyArray1<'py, i32>,
    count: usize,
) -> PyResult<Array<'py, i64>> {
    let (handshake, columns) = (handshake.as_slice()?, AssociationColumns::read(datagrams)?);
    let datagrams = columns.check(handshake.len())?;
    let rows = py.detach(|| association::find_contradicted_flags(handshake, &datagrams, count));
    Ok(array(py, rows.ok_or_else(of_no_handshake)?))
}

/// Body, transmission and first copy of each datagram of one slot.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn classify_slot<'py>(
    py: Python<'py>,
    time_ns: PyReadonlyArray1<'py, i64>,
    fragment: PyReadonlyArray1<'py, u16>,
    total: PyReadonlyArray1<'py, u16>,
    digest: PyReadonlyArray1<'py, u64>,
    arrived: PyReadonlyArray1<'py, bool>,
    ikev1: bool,
) -> PyResult<(Array<'py, i64>, Array<'py, i64>, Array<'py, bool>)> {
    let (time_ns, fragment) = (time_ns.as_slice()?, fragment.as_slice()?);
    let (total, digest, arrived) = (total.as_slice()?, digest.as_slice()?, arrived.as_slice()?);
    let lengths = [fragment.len(), total.len(), digest.len(), arrived.len()];
    check_lengths(time_ns.len(), &lengths)?;
    let datagrams: Vec<retransmission::SlotDatagram> = (0..time_ns.len())
        .map(|row| retransmission::SlotDatagram {
            time_ns: time_ns[row],
            fragment: fragment[row],
            total: total[row],
            digest: digest[row],
            arrived: arrived[row],
        })
        .collect();
    let classified = retransmission::Classifier::default().classify_slot(&datagrams, ikev1);
    Ok((
        array(py, classified.iter().map(|part| part.body).collect()),
        array(py, classified.iter().map(|part| part.transmission).collect()),
        array(py, classified.iter().map(|part| part.first_copy).collect()),
    ))
}

/// A column that may be one value for all rows, repeated without memory.
fn read_column<'a>(array: &'a PyReadonlyArray1<'_, i64>) -> PyResult<Column<'a>> {
    if array.len() > 1 && array.strides() == [0] {
        return Ok(Column::Same(array.as_array()[0]));
    }
    Ok(Column::Rows(array.as_slice()?))
}

/// The bytes of datagrams: those of frames, or sums of them.
enum Bytes<'py> {
    OfFrames(PyReadonlyArray1<'py, u32>),
    Sums(PyReadonlyArray1<'py, i64>),
}

impl<'py> Bytes<'py> {
    fn read(columns: &Columns<'_, 'py>) -> PyResult<Self> {
        columns
            .get("bytes")
            .map(Bytes::OfFrames)
            .or_else(|_| columns.get("bytes").map(Bytes::Sums))
    }

    fn len(&self) -> usize {
        match self {
            Bytes::OfFrames(values) => values.len(),
            Bytes::Sums(values) => values.len(),
        }
    }

    fn column(&self) -> PyResult<Column<'_>> {
        Ok(match self {
            Bytes::OfFrames(values) => Column::Narrow(values.as_slice()?),
            Bytes::Sums(values) => Column::Rows(values.as_slice()?),
        })
    }
}

/// The columns of the messages by name, with `of_datagram`: the row of the message of each datagram. `body` and
/// `ip_fragments` are empty where all are 0.
///
/// `arrived`: which datagrams have all their IP fragments, None: all. `several`: some datagrams have several frames.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn group_messages<'py>(
    py: Python<'py>,
    slot: PyReadonlyArray1<'py, i64>,
    datagrams: &Bound<'py, PyAny>,
    association: &Bound<'py, PyAny>,
    initiator_asked: PyReadonlyArray1<'py, bool>,
    response: PyReadonlyArray1<'py, bool>,
    ikev1: PyReadonlyArray1<'py, bool>,
    arrived: Option<PyReadonlyArray1<'py, bool>>,
    several: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = Columns(datagrams);
    let (handshake, from_initiator) = (
        Columns(association).get("handshake")?,
        Columns(association).get("from_initiator")?,
    );
    let (first_ns, last_ns, number) = (
        columns.get("first_ns")?,
        columns.get("last_ns")?,
        columns.get("number")?,
    );
    let (frames, bytes) = (columns.get("frames")?, Bytes::read(&columns)?);
    let (resent_bytes, ip_fragments) = (columns.get("resent_bytes")?, columns.get("ip_fragments")?);
    let (protocol, exchange_type) = (columns.get("protocol")?, columns.get("exchange_type")?);
    let (next_payload, message_id) = (columns.get("next_payload")?, columns.get("message_id")?);
    let (fragment, fragments) = (columns.get("fragment")?, columns.get("fragments")?);
    let digest = columns.get("digest")?;
    let slot = slot.as_slice()?;
    let input = messages::Datagrams {
        handshake: handshake.as_slice()?,
        from_initiator: from_initiator.as_slice()?,
        initiator_asked: initiator_asked.as_slice()?,
        response: response.as_slice()?,
        ikev1: ikev1.as_slice()?,
        arrived: arrived.as_ref().map(|column| column.as_slice()).transpose()?,
        first_ns: first_ns.as_slice()?,
        last_ns: last_ns.as_slice()?,
        number: number.as_slice()?,
        frames: if several {
            read_column(&frames)?
        } else {
            Column::Same(1)
        },
        bytes: bytes.column()?,
        resent_bytes: if several {
            read_column(&resent_bytes)?
        } else {
            Column::Same(0)
        },
        ip_fragments: read_column(&ip_fragments)?,
        protocol: protocol.as_slice()?,
        exchange_type: exchange_type.as_slice()?,
        next_payload: next_payload.as_slice()?,
        message_id: message_id.as_slice()?,
        fragment: fragment.as_slice()?,
        fragments: fragments.as_slice()?,
        digest: digest.as_slice()?,
    };
    let lengths = [
        input.handshake.len(),
        input.from_initiator.len(),
        input.initiator_asked.len(),
        input.response.len(),
        input.ikev1.len(),
        input.arrived.map_or(slot.len(), |column| column.len()),
        input.first_ns.len(),
        input.last_ns.len(),
        input.number.len(),
        frames.len(),
        bytes.len(),
        resent_bytes.len(),
        ip_fragments.len(),
        input.protocol.len(),
        input.exchange_type.len(),
        input.next_payload.len(),
        input.message_id.len(),
        input.fragment.len(),
        input.fragments.len(),
        input.digest.len(),
    ];
    check_lengths(slot.len(), &lengths)?;
    let grouped = py
        .detach(|| messages::group_messages(slot, &input))
        .ok_or_else(|| PyValueError::new_err("a handshake has a negative number"))?;
    let result = PyDict::new(py);
    result.set_item("slot", array(py, grouped.slot))?;
    result.set_item("handshake", array(py, grouped.handshake))?;
    result.set_item("from_initiator", array(py, grouped.from_initiator))?;
    result.set_item("initiator_asked", array(py, grouped.initiator_asked))?;
    result.set_item("response", array(py, grouped.response))?;
    result.set_item("protocol", array(py, grouped.protocol))?;
    result.set_item("exchange_type", array(py, grouped.exchange_type))?;
    result.set_item("next_payload", array(py, grouped.next_payload))?;
    result.set_item("message_id", array(py, grouped.message_id))?;
    result.set_item("body", array(py, grouped.body))?;
    result.set_item("transmission", array(py, grouped.transmission))?;
    result.set_item("first_ns", array(py, grouped.first_ns))?;
    result.set_item("last_ns", array(py, grouped.last_ns))?;
    result.set_item("first_frame", array(py, grouped.first_frame))?;
    result.set_item("frames", array(py, grouped.frames))?;
    result.set_item("bytes", array(py, grouped.bytes))?;
    result.set_item("needed_bytes", array(py, grouped.needed_bytes))?;
    result.set_item("fragments", array(py, grouped.fragments))?;
    result.set_item("fragments_seen", array(py, grouped.fragments_seen))?;
    result.set_item("new_fragments", array(py, grouped.new_fragments))?;
    result.set_item("ip_fragments", array(py, grouped.ip_fragments))?;
    result.set_item("digest", array(py, grouped.digest))?;
    result.set_item("of_datagram", array(py, grouped.of_datagram))?;
    Ok(result)
}

/// The columns of the exchanges by name, but `set_up`, with `of_message`: the row of the exchange of each message.
#[pyfunction]
fn pair_exchanges<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyAny>,
    attempt: PyReadonlyArray1<'py, i32>,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = Columns(messages);
    let (slot, handshake, protocol) = (
        columns.get("slot")?,
        columns.get("handshake")?,
        columns.get("protocol")?,
    );
    let (exchange_type, message_id) = (columns.get("exchange_type")?, columns.get("message_id")?);
    let (initiator_asked, response) = (columns.get("initiator_asked")?, columns.get("response")?);
    let (first_ns, frames, bytes) = (columns.get("first_ns")?, columns.get("frames")?, columns.get("bytes")?);
    let attempt = attempt.as_slice()?;
    let input = exchanges::Messages {
        slot: slot.as_slice()?,
        handshake: handshake.as_slice()?,
        protocol: protocol.as_slice()?,
        exchange_type: exchange_type.as_slice()?,
        message_id: message_id.as_slice()?,
        initiator_asked: initiator_asked.as_slice()?,
        response: response.as_slice()?,
        first_ns: first_ns.as_slice()?,
        frames: frames.as_slice()?,
        bytes: bytes.as_slice()?,
    };
    let lengths = [
        input.handshake.len(),
        input.protocol.len(),
        input.exchange_type.len(),
        input.message_id.len(),
        input.initiator_asked.len(),
        input.response.len(),
        input.first_ns.len(),
        input.frames.len(),
        input.bytes.len(),
        attempt.len(),
    ];
    check_lengths(input.slot.len(), &lengths)?;
    let paired = py.detach(|| exchanges::pair_exchanges(&input, attempt));
    let result = PyDict::new(py);
    result.set_item("handshake", array(py, paired.handshake))?;
    result.set_item("protocol", array(py, paired.protocol))?;
    result.set_item("exchange_type", array(py, paired.exchange_type))?;
    result.set_item("message_id", array(py, paired.message_id))?;
    result.set_item("attempt", array(py, paired.attempt))?;
    result.set_item("initiator_asked", array(py, paired.initiator_asked))?;
    result.set_item("start_ns", array(py, paired.start_ns))?;
    for (role, sent) in [("request", paired.request), ("response", paired.response)] {
        result.set_item(format!("{role}_messages"), array(py, sent.messages))?;
        result.set_item(format!("{role}_frames"), array(py, sent.frames))?;
        result.set_item(format!("{role}_bytes"), array(py, sent.bytes))?;
        result.set_item(format!("{role}_ns"), array(py, sent.first_ns))?;
    }
    result.set_item("of_message", array(py, paired.of_message))?;
    Ok(result)
}

/// The columns of `ExchangeEndings` by name, but `uncertain`, by the order of the transmissions.
#[pyfunction]
fn end_in_order<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyAny>,
    exchange_of_message: PyReadonlyArray1<'py, i32>,
    exchange_columns: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = Columns(messages);
    let (response, first_ns, last_ns) = (
        columns.get("response")?,
        columns.get("first_ns")?,
        columns.get("last_ns")?,
    );
    let messages = exchanges::MessageTimes {
        exchange: exchange_of_message.as_slice()?,
        response: response.as_slice()?,
        first_ns: first_ns.as_slice()?,
        last_ns: last_ns.as_slice()?,
    };
    let lengths = [messages.response.len(), messages.first_ns.len(), messages.last_ns.len()];
    check_lengths(messages.exchange.len(), &lengths)?;
    let columns = Columns(exchange_columns);
    let (handshake, protocol) = (columns.get("handshake")?, columns.get("protocol")?);
    let (initiator_asked, start_ns) = (columns.get("initiator_asked")?, columns.get("start_ns")?);
    let (request_ns, response_ns) = (columns.get("request_ns")?, columns.get("response_ns")?);
    let input = exchanges::ExchangeTimes {
        handshake: handshake.as_slice()?,
        protocol: protocol.as_slice()?,
        initiator_asked: initiator_asked.as_slice()?,
        start_ns: start_ns.as_slice()?,
        request_ns: request_ns.as_slice()?,
        response_ns: response_ns.as_slice()?,
    };
    let lengths = [
        input.protocol.len(),
        input.initiator_asked.len(),
        input.start_ns.len(),
        input.request_ns.len(),
        input.response_ns.len(),
    ];
    check_lengths(input.handshake.len(), &lengths)?;
    let endings = py.detach(|| exchanges::end_in_order(&messages, &input));
    let endings = endings.ok_or_else(|| PyValueError::new_err("messages and exchanges do not fit together"))?;
    let result = PyDict::new(py);
    result.set_item("answer_ns", array(py, endings.answer_ns))?;
    result.set_item("end_ns", array(py, endings.end_ns))?;
    result.set_item("answered_ns", array(py, endings.answered_ns))?;
    result.set_item("last_request_ns", array(py, endings.last_request_ns))?;
    result.set_item("repeated_ns", array(py, endings.repeated_ns))?;
    result.set_item("response_wait_ns", array(py, endings.response_wait_ns))?;
    Ok(result)
}

fn outside() -> PyErr {
    PyValueError::new_err("a message is outside of its buffer")
}

/// Whether each message in the heap has the bytes of the sample in the ranges from `low` to `high`.
#[pyfunction]
fn fit_form<'py>(
    py: Python<'py>,
    heap: PyReadonlyArray1<'py, u8>,
    begin: PyReadonlyArray1<'py, i64>,
    sample: &[u8],
    low: PyReadonlyArray1<'py, i64>,
    high: PyReadonlyArray1<'py, i64>,
) -> PyResult<Array<'py, bool>> {
    let (heap, begin, low, high) = (heap.as_slice()?, begin.as_slice()?, low.as_slice()?, high.as_slice()?);
    let fits = py.detach(|| init_messages::fit_form(heap, begin, sample, low, high));
    Ok(array(py, fits.ok_or_else(outside)?))
}

/// Whether the end of each message in the heap differs from all its NAT detection hashes at `places`: 1 or 0.
#[pyfunction]
fn compare_nat_hashes<'py>(
    py: Python<'py>,
    heap: PyReadonlyArray1<'py, u8>,
    begin: PyReadonlyArray1<'py, i64>,
    places: PyReadonlyArray1<'py, i64>,
    address: PyReadonlyArray1<'py, u64>,
    port: PyReadonlyArray1<'py, u16>,
    ipv6: &[u8],
) -> PyResult<Array<'py, i8>> {
    let ends = init_messages::Endpoints {
        address: address.as_slice()?,
        port: port.as_slice()?,
        ipv6,
    };
    let (heap, begin, places) = (heap.as_slice()?, begin.as_slice()?, places.as_slice()?);
    let differs = py.detach(|| init_messages::compare_nat_hashes(heap, begin, places, &ends));
    Ok(array(py, differs.ok_or_else(outside)?))
}

fn of_no_handshake() -> PyErr {
    PyValueError::new_err("a datagram is of no handshake")
}

/// The row of the first datagram of each handshake.
#[pyfunction]
fn find_first_rows<'py>(
    py: Python<'py>,
    handshake: PyReadonlyArray1<'py, i32>,
    count: usize,
) -> PyResult<Array<'py, i64>> {
    let handshake = handshake.as_slice()?;
    let first = py.detach(|| handshakes::find_first_rows(handshake, count));
    Ok(array(py, first.ok_or_else(of_no_handshake)?))
}

/// The columns of `DatagramSummary` by name.
#[pyfunction]
fn summarise_datagrams<'py>(
    py: Python<'py>,
    datagrams: &Bound<'py, PyAny>,
    association: &Bound<'py, PyAny>,
    count: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = Columns(association);
    let (handshake, from_initiator) = (columns.get("handshake")?, columns.get("from_initiator")?);
    let columns = Columns(datagrams);
    let (protocol, exchange_type) = (columns.get("protocol")?, columns.get("exchange_type")?);
    let (flags, next_payload) = (columns.get("flags")?, columns.get("next_payload")?);
    let spi_r = columns.get("spi_r")?;
    let input = handshakes::Datagrams {
        handshake: handshake.as_slice()?,
        from_initiator: from_initiator.as_slice()?,
        protocol: protocol.as_slice()?,
        exchange_type: exchange_type.as_slice()?,
        flags: flags.as_slice()?,
        next_payload: next_payload.as_slice()?,
        spi_r: spi_r.as_slice()?,
    };
    let lengths = [
        input.from_initiator.len(),
        input.protocol.len(),
        input.exchange_type.len(),
        input.flags.len(),
        input.next_payload.len(),
        input.spi_r.len(),
    ];
    check_lengths(input.handshake.len(), &lengths)?;
    let summary = py.detach(|| handshakes::summarise(&input, count));
    let summary = summary.ok_or_else(of_no_handshake)?;
    let result = PyDict::new(py);
    result.set_item("request", array(py, summary.request))?;
    result.set_item("response", array(py, summary.response))?;
    result.set_item("spi_r", array(py, summary.spi_r))?;
    result.set_item("one_sided", array(py, summary.one_sided))?;
    Ok(result)
}

/// The side of the path on which each handshake was captured, by the times to live.
#[pyfunction]
fn infer_capture_sides<'py>(
    py: Python<'py>,
    handshake: PyReadonlyArray1<'py, i32>,
    from_initiator: PyReadonlyArray1<'py, bool>,
    ttl: PyReadonlyArray1<'py, u8>,
    count: usize,
) -> PyResult<Array<'py, u8>> {
    check_lengths(handshake.len(), &[from_initiator.len(), ttl.len()])?;
    let (handshake, from_initiator, ttl) = (handshake.as_slice()?, from_initiator.as_slice()?, ttl.as_slice()?);
    let sides = py.detach(|| handshakes::infer_capture_sides(handshake, from_initiator, ttl, count));
    Ok(array(py, sides.ok_or_else(of_no_handshake)?))
}

/// Whether the responder of each handshake sent something from a port.
#[pyfunction]
fn find_responders_on_port<'py>(
    py: Python<'py>,
    association: &Bound<'py, PyAny>,
    source_port: PyReadonlyArray1<'py, u16>,
    port: u16,
    count: usize,
) -> PyResult<Array<'py, bool>> {
    let columns = Columns(association);
    let (handshake, from_initiator) = (columns.get("handshake")?, columns.get("from_initiator")?);
    let (handshake, from_initiator): (PyReadonlyArray1<i32>, PyReadonlyArray1<bool>) = (handshake, from_initiator);
    check_lengths(handshake.len(), &[from_initiator.len(), source_port.len()])?;
    let (handshake, from_initiator) = (handshake.as_slice()?, from_initiator.as_slice()?);
    let source_port = source_port.as_slice()?;
    let found = py.detach(|| handshakes::find_responders_on_port(handshake, from_initiator, source_port, port, count));
    Ok(array(py, found.ok_or_else(of_no_handshake)?))
}

/// Columns of `MessageColumns`, and whether each message sets up its IKE SA.
struct MessageArrays<'py> {
    handshake: PyReadonlyArray1<'py, i32>,
    set_up: PyReadonlyArray1<'py, bool>,
    from_initiator: PyReadonlyArray1<'py, bool>,
    protocol: PyReadonlyArray1<'py, u8>,
    exchange_type: PyReadonlyArray1<'py, u8>,
    transmission: PyReadonlyArray1<'py, u32>,
    first_ns: PyReadonlyArray1<'py, i64>,
    frames: PyReadonlyArray1<'py, u32>,
    bytes: PyReadonlyArray1<'py, i64>,
    needed_bytes: PyReadonlyArray1<'py, i64>,
    fragments: PyReadonlyArray1<'py, u16>,
    fragments_seen: PyReadonlyArray1<'py, u32>,
    ip_fragments: PyReadonlyArray1<'py, i64>,
}

impl<'py> MessageArrays<'py> {
    fn read(messages: &Bound<'py, PyAny>, set_up: PyReadonlyArray1<'py, bool>) -> PyResult<Self> {
        let columns = Columns(messages);
        Ok(Self {
            handshake: columns.get("handshake")?,
            set_up,
            from_initiator: columns.get("from_initiator")?,
            protocol: columns.get("protocol")?,
            exchange_type: columns.get("exchange_type")?,
            transmission: columns.get("transmission")?,
            first_ns: columns.get("first_ns")?,
            frames: columns.get("frames")?,
            bytes: columns.get("bytes")?,
            needed_bytes: columns.get("needed_bytes")?,
            fragments: columns.get("fragments")?,
            fragments_seen: columns.get("fragments_seen")?,
            ip_fragments: columns.get("ip_fragments")?,
        })
    }

    fn columns(&self) -> PyResult<volumes::Messages<'_>> {
        let lengths = [
            self.set_up.len(),
            self.from_initiator.len(),
            self.protocol.len(),
            self.exchange_type.len(),
            self.transmission.len(),
            self.first_ns.len(),
            self.frames.len(),
            self.bytes.len(),
            self.needed_bytes.len(),
            self.fragments.len(),
            self.fragments_seen.len(),
            self.ip_fragments.len(),
        ];
        check_lengths(self.handshake.len(), &lengths)?;
        Ok(volumes::Messages {
            handshake: self.handshake.as_slice()?,
            set_up: self.set_up.as_slice()?,
            from_initiator: self.from_initiator.as_slice()?,
            protocol: self.protocol.as_slice()?,
            exchange_type: self.exchange_type.as_slice()?,
            transmission: self.transmission.as_slice()?,
            first_ns: self.first_ns.as_slice()?,
            frames: self.frames.as_slice()?,
            bytes: self.bytes.as_slice()?,
            needed_bytes: self.needed_bytes.as_slice()?,
            fragments: self.fragments.as_slice()?,
            fragments_seen: self.fragments_seen.as_slice()?,
            ip_fragments: read_column(&self.ip_fragments)?,
        })
    }
}

/// What the messages of each handshake add up to, by name.
#[pyfunction]
fn sum_volumes<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyAny>,
    set_up: PyReadonlyArray1<'py, bool>,
    count: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let arrays = MessageArrays::read(messages, set_up)?;
    let columns = arrays.columns()?;
    let sums = py.detach(|| volumes::sum_volumes(&columns, count));
    let sums = sums.ok_or_else(|| PyValueError::new_err("a message is of no handshake"))?;
    let result = PyDict::new(py);
    let add = |prefix: &str, volume: volumes::Volume| -> PyResult<()> {
        result.set_item(format!("{prefix}_messages"), array(py, volume.messages))?;
        result.set_item(format!("{prefix}_frames"), array(py, volume.frames))?;
        result.set_item(format!("{prefix}_bytes"), array(py, volume.bytes))
    };
    let [[by_responder, by_initiator], [after_responder, after_initiator]] = sums.by_side;
    add("initiator", by_initiator)?;
    add("after_setup_initiator", after_initiator)?;
    add("responder", by_responder)?;
    add("after_setup_responder", after_responder)?;
    add("retransmitted", sums.retransmitted)?;
    result.set_item("needed_bytes", array(py, sums.needed_bytes))?;
    result.set_item("ike_messages_fragmented", array(py, sums.fragmented))?;
    result.set_item("ike_fragments", array(py, sums.fragments))?;
    result.set_item("ip_fragments", array(py, sums.ip_fragments))?;
    Ok(result)
}

/// The exchange types of the set-up of each handshake, in order of handshake and time: type, messages, frames and bytes
/// of each; and how many each handshake has.
#[pyfunction]
#[allow(clippy::type_complexity)]
fn sum_phases<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyAny>,
    set_up: PyReadonlyArray1<'py, bool>,
    count: usize,
) -> PyResult<(
    Array<'py, i64>,
    Array<'py, u32>,
    Array<'py, u32>,
    Array<'py, u64>,
    Array<'py, i64>,
)> {
    let arrays = MessageArrays::read(messages, set_up)?;
    let columns = arrays.columns()?;
    let sums = py.detach(|| volumes::sum_phases(&columns, count));
    let sums = sums.ok_or_else(|| PyValueError::new_err("messages are not in order of handshake"))?;
    Ok((
        array(py, sums.exchange_type),
        array(py, sums.messages),
        array(py, sums.frames),
        array(py, sums.bytes),
        array(py, sums.of_handshake),
    ))
}
