//! Replacements of functions of ikeanalyze/analysis.

pub mod association;
pub mod duplicates;
pub mod evidence;
pub mod exchanges;
pub mod grouping;
pub mod handshakes;
pub mod host_pairs;
pub mod init_messages;
pub mod messages;
pub mod retransmission;
pub mod sorting;
pub mod timing;
pub mod volumes;

#[cfg(feature = "python")]
pub mod python;
