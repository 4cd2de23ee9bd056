//! Replacements of functions of ikeanalyze/render.

pub mod encodings;
pub mod levels;
pub mod parquet;
mod template;
mod thrift;

#[cfg(feature = "python")]
pub mod python;
