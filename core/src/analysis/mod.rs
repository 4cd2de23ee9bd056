//! Replacements of functions of ikeanalyze/analysis.

#[cfg(feature = "python")]
pub mod python;
