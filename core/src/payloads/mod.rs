//! Decryption of encrypted IKEv2 messages with the key sets that name their IKE SA, and reassembly of their fragments.
//!
//! Replaces the loop of ikeanalyze/analysis/decryption/decrypt.py, with the rules of ikeanalyze/keys/key_ring.py.
//! Nothing here prints, logs or returns a key.

pub mod chains;
pub mod ciphers;
pub mod encrypted_payload;
pub mod handshakes;
pub mod prefixes;
#[cfg(feature = "python")]
pub mod python;
