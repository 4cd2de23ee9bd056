//! The compiled core of ikeanalyze: replacements of some Python functions, faster and with equal results.
//!
//! The Python code is the definition. Every function here returns what the Python code returns for the same input, or
//! hands input that is rare back to it. The folders `capture`, `analysis` and `render` replace functions of the
//! packages of these names, `logs` functions of `keys`, and `payloads` functions of `analysis/decryption`. Each has a
//! module `python` with the functions that Python calls; its other modules do not depend on Python, so that tests and
//! the fuzzer run without it.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod capture;
pub mod logs;
pub mod payloads;
pub mod render;

#[cfg(feature = "python")]
mod module {
    use pyo3::prelude::*;

    /// Number of the interface between Python and this module, equal to INTERFACE in ikeanalyze/core.py.
    const INTERFACE: u32 = 21;

    #[pymodule(name = "_core")]
    fn core(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("INTERFACE", INTERFACE)?;
        crate::analysis::python::register(module)?;
        crate::capture::python::register(module)?;
        crate::logs::python::register(module)?;
        crate::payloads::python::register(module)?;
        crate::render::python::register(module)
    }
}
