//! The functions that ikeanalyze/capture calls.

use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Copy the bytes from `begin` to `end` of `source`, for each pair, to consecutive places of `target` from `at` on.
#[pyfunction]
fn copy_ranges(
    mut target: PyReadwriteArray1<'_, u8>,
    at: usize,
    source: PyReadonlyArray1<'_, u8>,
    begin: PyReadonlyArray1<'_, i64>,
    end: PyReadonlyArray1<'_, i64>,
) -> PyResult<()> {
    let copied = super::copy::copy_ranges(
        target.as_slice_mut()?,
        at,
        source.as_slice()?,
        begin.as_slice()?,
        end.as_slice()?,
    );
    copied.ok_or_else(|| PyValueError::new_err("a range is outside of its buffer"))
}

/// Add the functions to the module `_core`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(copy_ranges, module)?)
}
