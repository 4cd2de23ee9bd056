//! The functions that ikeanalyze/capture calls.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use numpy::{PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::file::{Limits, Part, Readings, State, Stored};
use super::frames::{Link, Packets, Scan};
use super::header_rules::{find_link, HeaderRules};
use super::pcap_file::{self, FileReader, PcapFile};
use super::records::PcapLayout;
use crate::analysis::init_messages::InitForms;

type Array<'py, T> = Bound<'py, PyArray1<T>>;

/// Copy the bytes from `begin` to `end` of `source`, for each pair, to consecutive places of `target` from `at` on.
#[pyfunction]
fn copy_ranges(
    mut target: PyReadwriteArray1<'_, u8>,
    at: usize,
    source: PyReadonlyArray1<'_, u8>,
    begin: PyReadonlyArray1<'_, i64>,
    end: PyReadonlyArray1<'_, i64>,
) -> PyResult<()> {
    if begin.as_slice()?.len() != end.as_slice()?.len() {
        return Err(PyValueError::new_err("columns of different lengths"));
    }
    let copied = super::copy::copy_ranges(
        target.as_slice_mut()?,
        at,
        source.as_slice()?,
        begin.as_slice()?,
        end.as_slice()?,
    );
    copied.ok_or_else(|| PyValueError::new_err("a range is outside of its buffer"))
}

/// Offset, captured length, length and time of the records of a part of a pcap file, and where they end.
type RecordColumns<'py> = (
    Array<'py, i64>,
    Array<'py, i64>,
    Array<'py, i64>,
    Array<'py, i64>,
    usize,
);

/// The complete records of `buffer[start:end]` of a pcap file; None if Python must check one.
#[pyfunction]
#[pyo3(signature = (buffer, start, end, *, big_endian, lengths_swapped, lengths_unordered, header_size, fraction_ns, usual))]
#[allow(clippy::too_many_arguments)]
fn walk_pcap<'py>(
    py: Python<'py>,
    buffer: PyReadonlyArray1<'py, u8>,
    start: usize,
    end: usize,
    big_endian: bool,
    lengths_swapped: bool,
    lengths_unordered: bool,
    header_size: usize,
    fraction_ns: i64,
    usual: i64,
) -> PyResult<Option<RecordColumns<'py>>> {
    let layout = PcapLayout {
        big_endian,
        lengths_swapped,
        lengths_unordered,
        header_size,
        fraction_ns,
        usual,
    };
    let records = super::records::walk_pcap(buffer.as_slice()?, start, end, &layout);
    Ok(records.map(|records| {
        (
            PyArray1::from_vec(py, records.offset),
            PyArray1::from_vec(py, records.captured),
            PyArray1::from_vec(py, records.length),
            PyArray1::from_vec(py, records.time_ns),
            records.stop,
        )
    }))
}

/// The positions of the packet blocks in `buffer[start:end]` of a pcapng file before the next block that Python must
/// decode, and that block's position. `numbered`: Python must decode blocks that are no packets but have frame numbers in
/// Wireshark.
#[pyfunction]
fn find_packet_blocks<'py>(
    py: Python<'py>,
    buffer: PyReadonlyArray1<'py, u8>,
    start: usize,
    end: usize,
    big_endian: bool,
    numbered: bool,
) -> PyResult<(Array<'py, i64>, usize)> {
    let (positions, at) = super::records::find_packet_blocks(buffer.as_slice()?, start, end, big_endian, numbered);
    Ok((PyArray1::from_vec(py, positions), at))
}

/// Rows of the frames table, and what else the packets were.
#[pyclass(frozen, get_all)]
struct PlainScan {
    /// The columns of the frames with a message, and their `row`, `begin`, `end` and `clear`.
    columns: Py<PyDict>,
    /// Packets and bytes by category.
    packets: Py<PyArray1<i64>>,
    wire_bytes: Py<PyArray1<i64>>,
    /// IPv6 addresses of the codes in the columns.
    ipv6: Vec<Py<PyBytes>>,
    /// Indexes of the packets that are handed back.
    rest: Py<PyArray1<i64>>,
}

/// Whether the core reads packets of a link layer at all.
#[pyfunction]
fn reads_link_type(link_type: u32) -> bool {
    find_link(link_type) != Link::HandBack
}

/// Find the messages in packets without tunnels, IP fragments and the like.
///
/// `ports` are UDP and TCP ports on which IKE is expected in addition to 500 and 4500, `link_types` those of the
/// interfaces. `first` is the number of the first packet.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn scan_packets<'py>(
    py: Python<'py>,
    ports: Vec<u16>,
    link_types: Vec<u32>,
    first: u32,
    buffer: PyReadonlyArray1<'py, u8>,
    offset: PyReadonlyArray1<'py, i64>,
    captured: PyReadonlyArray1<'py, i64>,
    length: PyReadonlyArray1<'py, i64>,
    time_ns: PyReadonlyArray1<'py, i64>,
    interface: PyReadonlyArray1<'py, u32>,
) -> PyResult<PlainScan> {
    let packets = Packets {
        data: buffer.as_slice()?,
        offset: offset.as_slice()?,
        captured: captured.as_slice()?,
        length: length.as_slice()?,
        time_ns: time_ns.as_slice()?,
        interface: interface.as_slice()?,
    };
    let count = packets.offset.len();
    let lengths = [
        packets.captured.len(),
        packets.length.len(),
        packets.time_ns.len(),
        packets.interface.len(),
    ];
    if lengths.iter().any(|&length| length != count) {
        return Err(PyValueError::new_err("columns of different lengths"));
    }
    let links: Vec<Link> = link_types.into_iter().map(find_link).collect();
    let rules = HeaderRules::shared(&ports);
    let scan = super::frames::scan(&packets, &rules.tables(&links), first);
    PlainScan::new(py, scan)
}

impl PlainScan {
    fn new(py: Python<'_>, scan: Scan) -> PyResult<Self> {
        let columns = PyDict::new(py);
        macro_rules! set {
            ($($name:ident),*) => { $(columns.set_item(stringify!($name), PyArray1::from_vec(py, scan.$name))?;)* };
        }
        set!(row, begin, end, clear, number, time_ns, interface, bytes, captured);
        set!(
            encapsulation,
            source,
            source_port,
            destination,
            destination_port,
            ttl,
            ip_id
        );
        set!(digest, protocol, spi_i, spi_r, next_payload, exchange_type);
        set!(flags, message_id, ike_bytes, fragment, fragments);
        Ok(Self {
            columns: columns.unbind(),
            packets: PyArray1::from_slice(py, &scan.packets).unbind(),
            wire_bytes: PyArray1::from_slice(py, &scan.total).unbind(),
            ipv6: scan
                .ipv6
                .iter()
                .map(|address| PyBytes::new(py, address).unbind())
                .collect(),
            rest: PyArray1::from_vec(py, scan.rest).unbind(),
        })
    }
}

/// Messages by row: where each begins and ends in their bytes, and these bytes.
type StoredColumns = (
    Py<PyArray1<u32>>,
    Py<PyArray1<i64>>,
    Py<PyArray1<i64>>,
    Py<PyArray1<u8>>,
);

fn make_stored(py: Python<'_>, stored: Stored) -> StoredColumns {
    (
        PyArray1::from_vec(py, stored.row).unbind(),
        PyArray1::from_vec(py, stored.begin).unbind(),
        PyArray1::from_vec(py, stored.end).unbind(),
        PyArray1::from_vec(py, stored.heap).unbind(),
    )
}

/// Messages that were read by row: offset in the file, size, form, and whether sender and receiver differ.
type ReadingColumns = (
    Py<PyArray1<u32>>,
    Py<PyArray1<i64>>,
    Py<PyArray1<i64>>,
    Py<PyArray1<i64>>,
    Py<PyArray1<i8>>,
    Py<PyArray1<i8>>,
);

fn make_readings(py: Python<'_>, readings: Readings) -> ReadingColumns {
    (
        PyArray1::from_vec(py, readings.row).unbind(),
        PyArray1::from_vec(py, readings.place).unbind(),
        PyArray1::from_vec(py, readings.size).unbind(),
        PyArray1::from_vec(py, readings.form).unbind(),
        PyArray1::from_vec(py, readings.sender_differs).unbind(),
        PyArray1::from_vec(py, readings.receiver_differs).unbind(),
    )
}

/// The contents of a part of a pcap file.
#[pyclass(frozen, get_all)]
struct PcapPart {
    /// The plain packets, without `row`, `begin`, `end`, `clear` and `interface`.
    plain: Py<PlainScan>,
    clear: StoredColumns,
    encrypted: StoredColumns,
    readings: ReadingColumns,
    /// Buffer, offset, captured length, length, time and index of the packets that are handed back.
    rest: (
        Py<PyArray1<u8>>,
        Py<PyArray1<i64>>,
        Py<PyArray1<i64>>,
        Py<PyArray1<i64>>,
        Py<PyArray1<i64>>,
        Py<PyArray1<i64>>,
    ),
    packets: u64,
    bytes: i64,
    truncated: u64,
    first_ns: i64,
    last_ns: i64,
    stop: u64,
}

impl PcapPart {
    fn new(py: Python<'_>, part: Part) -> PyResult<Self> {
        Ok(Self {
            plain: Py::new(py, PlainScan::new(py, part.scan)?)?,
            clear: make_stored(py, part.clear),
            encrypted: make_stored(py, part.encrypted),
            readings: make_readings(py, part.readings),
            rest: (
                PyArray1::from_vec(py, part.rest.data).unbind(),
                PyArray1::from_vec(py, part.rest.offset).unbind(),
                PyArray1::from_vec(py, part.rest.captured).unbind(),
                PyArray1::from_vec(py, part.rest.length).unbind(),
                PyArray1::from_vec(py, part.rest.time_ns).unbind(),
                PyArray1::from_vec(py, part.rest.index).unbind(),
            ),
            packets: part.packets,
            bytes: part.bytes,
            truncated: part.truncated,
            first_ns: part.first_ns,
            last_ns: part.last_ns,
            stop: part.stop,
        })
    }
}

/// Reads a pcap file.
#[pyclass(frozen)]
struct PcapReader(FileReader);

#[pymethods]
impl PcapReader {
    #[new]
    #[pyo3(signature = (path, identity, spis, ports, link_type, read_inits, *, big_endian, lengths_swapped, lengths_unordered, header_size, fraction_ns, usual))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        path: PathBuf,
        identity: (u64, u64),
        spis: Option<HashSet<u64>>,
        ports: Vec<u16>,
        link_type: u32,
        read_inits: bool,
        big_endian: bool,
        lengths_swapped: bool,
        lengths_unordered: bool,
        header_size: usize,
        fraction_ns: i64,
        usual: i64,
    ) -> Self {
        let layout = PcapLayout {
            big_endian,
            lengths_swapped,
            lengths_unordered,
            header_size,
            fraction_ns,
            usual,
        };
        Self(pcap_file::open(PcapFile {
            path,
            identity,
            layout,
            link: find_link(link_type),
            rules: HeaderRules::shared(&ports),
            spis,
            forms: read_inits.then(InitForms::default),
            state: State::default(),
        }))
    }

    /// Whether the file had begun to be read before.
    #[getter]
    fn has_begun(&self) -> bool {
        self.0.has_begun()
    }

    /// The file offset up to which all records have been read; can be asked while another thread reads.
    #[getter]
    fn position(&self) -> u64 {
        self.0.file.state.position.load(Ordering::Relaxed)
    }

    /// The rows of the part that is being read, so far.
    #[getter]
    fn rows(&self) -> usize {
        self.0.file.state.rows.load(Ordering::Relaxed)
    }

    /// Let a thread that reads return soon.
    fn stop(&self) {
        self.0.file.state.stop();
    }

    /// A message of each form, by number.
    fn list_samples<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let samples = self.0.file.forms.as_ref().map(InitForms::samples).unwrap_or_default();
        samples.iter().map(|sample| PyBytes::new(py, sample)).collect()
    }

    /// Read the records that begin between two offsets of the file; `first` is the number of the first packet.
    fn read(
        &self,
        py: Python<'_>,
        bounds: (u64, u64),
        first: u32,
        threads: usize,
        block: u64,
        rest: usize,
    ) -> PyResult<PcapPart> {
        let limits = Limits {
            threads,
            block,
            rest,
            unconfirmed: u64::MAX,
        };
        let part = py.detach(|| self.0.read(bounds, first, limits));
        self.0.file.state.rows.store(0, Ordering::Relaxed);
        PcapPart::new(py, part)
    }
}

/// Begin to read a pcap file; see `pcap_file`. Whether the core can read it.
#[pyfunction]
fn begin_reading(py: Python<'_>, path: PathBuf, threads: usize, block: u64, rest: usize, unconfirmed: u64) -> bool {
    let limits = Limits {
        threads,
        block,
        rest,
        unconfirmed,
    };
    py.detach(|| pcap_file::begin(&path, limits))
}

/// End the reading that has begun, unless a reader has taken it.
#[pyfunction]
fn discard_reading(py: Python<'_>) {
    py.detach(pcap_file::discard);
}

/// Add the functions and classes to the module `_core`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PlainScan>()?;
    module.add_class::<PcapPart>()?;
    module.add_class::<PcapReader>()?;
    module.add_function(wrap_pyfunction!(copy_ranges, module)?)?;
    module.add_function(wrap_pyfunction!(walk_pcap, module)?)?;
    module.add_function(wrap_pyfunction!(find_packet_blocks, module)?)?;
    module.add_function(wrap_pyfunction!(reads_link_type, module)?)?;
    module.add_function(wrap_pyfunction!(begin_reading, module)?)?;
    module.add_function(wrap_pyfunction!(discard_reading, module)?)?;
    module.add_function(wrap_pyfunction!(scan_packets, module)?)
}
