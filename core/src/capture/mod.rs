//! Replacements of functions of ikeanalyze/capture.

pub mod copy;

#[cfg(feature = "python")]
pub mod python;
