//! The lines of a daemon's log that matter, and the bytes of its hex dumps.
//!
//! Replaces the patterns of ikeanalyze/keys/text_reader.py, and the modules matched_lines.py and dumps.py in
//! ikeanalyze/keys/charon.
//! The dumps are secrets: nothing here prints or logs a byte of them.

pub mod dumps;
pub mod lines;
#[cfg(feature = "python")]
pub mod python;
