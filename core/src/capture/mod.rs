//! Replacements of functions of ikeanalyze/capture.

pub mod bytes;
pub mod copy;
pub mod file;
pub mod frames;
pub mod header_rules;
pub mod pcap_file;
pub mod records;

#[cfg(feature = "python")]
pub mod python;
