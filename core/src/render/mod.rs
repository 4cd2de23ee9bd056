//! Replacements of functions of ikeanalyze/render.

pub mod encodings;
pub mod parquet;

#[cfg(feature = "python")]
pub mod python;
