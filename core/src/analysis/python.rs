//! The functions that ikeanalyze/analysis calls.

use pyo3::prelude::*;

/// Add the functions to the module `_core`.
pub fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
