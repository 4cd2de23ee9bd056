//! The ciphers of IKEv2 messages, by transform ID (RFC 7296, section 3.3.2). ICVs are compared in constant time.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::consts::{U11, U12, U16, U8};
use aes_gcm::aead::generic_array::GenericArray;
use aes_gcm::aead::{AeadInPlace, KeyInit};
use aes_gcm::AesGcm;
use ccm::Ccm;
use chacha20poly1305::ChaCha20Poly1305;
use cipher::block_padding::NoPadding;
use cipher::{BlockCipher, BlockDecryptMut, BlockEncryptMut, InnerIvInit, StreamCipher};
use hmac::digest::core_api::BlockSizeUser;
use hmac::digest::{Digest, FixedOutput};
use hmac::{Mac, SimpleHmac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};

const ENCR_AES_CBC: u16 = 12;
const ENCR_AES_CTR: u16 = 13;
const ENCR_AES_CCM_8: u16 = 14;
const ENCR_AES_CCM_12: u16 = 15;
const ENCR_AES_CCM_16: u16 = 16;
const ENCR_AES_GCM_12: u16 = 19;
const ENCR_AES_GCM_16: u16 = 20;
const ENCR_CHACHA20_POLY1305: u16 = 28;

/// Sizes in bytes that a message is cut by.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub iv: usize,
    pub block: usize,
    pub icv: usize,
}

/// The cipher of one sender.
pub trait Direction: Send {
    /// Append the padded plaintext to `out`; false: the ICV is wrong, and `out` is unchanged.
    ///
    /// `message` up to `start` is authenticated; IV, ciphertext and ICV begin at `start`, `iv_end` and `end`.
    fn decrypt(&self, message: &[u8], start: usize, iv_end: usize, end: usize, out: &mut Vec<u8>) -> bool;

    /// Whether a valid ICV shows that the encryption key is right.
    fn is_aead(&self) -> bool;
}

/// An AEAD cipher (RFC 5282, section 5); the nonce is the salt and the IV.
struct Aead<C> {
    cipher: C,
    salt: Vec<u8>,
}

impl<C: AeadInPlace + Send> Direction for Aead<C> {
    fn is_aead(&self) -> bool {
        true
    }

    fn decrypt(&self, message: &[u8], start: usize, iv_end: usize, end: usize, out: &mut Vec<u8>) -> bool {
        let nonce = [&self.salt, &message[start..iv_end]].concat();
        let before = out.len();
        out.extend_from_slice(&message[iv_end..end]);
        let valid = self
            .cipher
            .decrypt_in_place_detached(
                GenericArray::from_slice(&nonce),
                &message[..start],
                &mut out[before..],
                GenericArray::from_slice(&message[end..]),
            )
            .is_ok();
        if !valid {
            out.truncate(before);
        }
        valid
    }
}

fn make_aead<C: AeadInPlace + KeyInit + Send + 'static>(key: &[u8], salt: usize) -> Option<Box<dyn Direction>> {
    let size = key.len().checked_sub(salt)?;
    let cipher = C::new_from_slice(&key[..size]).ok()?;
    let salt = key[size..].to_vec();
    Some(Box::new(Aead { cipher, salt }))
}

/// Checks an ICV over the message before it (RFC 7296, section 3.14).
trait Integrity: Send {
    fn verify(&self, message: &[u8], icv: &[u8]) -> bool;
}

impl<H: Digest + BlockSizeUser + FixedOutput + Clone + Send> Integrity for SimpleHmac<H> {
    fn verify(&self, message: &[u8], icv: &[u8]) -> bool {
        self.clone().chain_update(message).verify_truncated_left(icv).is_ok()
    }
}

fn make_hmac<H: Digest + BlockSizeUser + FixedOutput + Clone + Send + 'static>(
    key: &[u8],
) -> Option<Box<dyn Integrity>> {
    Some(Box::new(<SimpleHmac<H> as Mac>::new_from_slice(key).ok()?))
}

/// The integrity algorithm of a transform ID, its bytes of a key, and of an ICV.
fn make_integrity(transform: u16, key: &[u8]) -> Option<(Box<dyn Integrity>, usize)> {
    let (size, icv) = match transform {
        1 => (16, 12),
        2 => (20, 12),
        6 => (16, 16),
        7 => (20, 20),
        12 => (32, 16),
        13 => (48, 24),
        14 => (64, 32),
        1027 => (32, 12), // HMAC_SHA2_256_96, of a draft before RFC 4868
        _ => return None,
    };
    if key.len() != size {
        return None;
    }
    let integrity = match transform {
        1 | 6 => make_hmac::<Md5>(key),
        2 | 7 => make_hmac::<Sha1>(key),
        12 | 1027 => make_hmac::<Sha256>(key),
        13 => make_hmac::<Sha384>(key),
        _ => make_hmac::<Sha512>(key),
    };
    Some((integrity?, icv))
}

/// A cipher without authentication.
trait Plain: Send {
    fn decrypt(&self, iv: &[u8], data: &mut [u8]) -> bool;
}

struct Cbc<C>(C);

impl<C: BlockCipher + BlockDecryptMut + Clone + Send> Plain for Cbc<C> {
    fn decrypt(&self, iv: &[u8], data: &mut [u8]) -> bool {
        cbc::Decryptor::inner_iv_slice_init(self.0.clone(), iv)
            .is_ok_and(|decryptor| decryptor.decrypt_padded_mut::<NoPadding>(data).is_ok())
    }
}

/// The counter block is nonce, IV, and a counter from one (RFC 5930).
struct Ctr<C> {
    cipher: C,
    nonce: Vec<u8>,
}

impl<C> Plain for Ctr<C>
where
    C: BlockCipher + BlockEncryptMut + cipher::BlockSizeUser<BlockSize = U16> + Clone + Send,
{
    fn decrypt(&self, iv: &[u8], data: &mut [u8]) -> bool {
        let counter = [&self.nonce, iv, &1u32.to_be_bytes()].concat();
        let Ok(core) = ctr::CtrCore::<C, ctr::flavors::Ctr32BE>::inner_iv_slice_init(self.cipher.clone(), &counter)
        else {
            return false;
        };
        cipher::StreamCipherCoreWrapper::from_core(core)
            .try_apply_keystream(data)
            .is_ok()
    }
}

struct EncryptThenMac {
    cipher: Box<dyn Plain>,
    integrity: Box<dyn Integrity>,
}

impl Direction for EncryptThenMac {
    fn is_aead(&self) -> bool {
        false
    }

    fn decrypt(&self, message: &[u8], start: usize, iv_end: usize, end: usize, out: &mut Vec<u8>) -> bool {
        if !self.integrity.verify(&message[..end], &message[end..]) {
            return false;
        }
        let before = out.len();
        out.extend_from_slice(&message[iv_end..end]);
        let valid = self.cipher.decrypt(&message[start..iv_end], &mut out[before..]);
        if !valid {
            out.truncate(before);
        }
        valid
    }
}

fn make_cbc(key: &[u8]) -> Option<Box<dyn Plain>> {
    Some(match key.len() {
        16 => Box::new(Cbc(Aes128::new_from_slice(key).ok()?)),
        24 => Box::new(Cbc(Aes192::new_from_slice(key).ok()?)),
        32 => Box::new(Cbc(Aes256::new_from_slice(key).ok()?)),
        _ => return None,
    })
}

fn make_ctr(key: &[u8]) -> Option<Box<dyn Plain>> {
    let (key, nonce) = key.split_at_checked(key.len().checked_sub(4)?)?;
    let nonce = nonce.to_vec();
    Some(match key.len() {
        16 => Box::new(Ctr {
            cipher: Aes128::new_from_slice(key).ok()?,
            nonce,
        }),
        24 => Box::new(Ctr {
            cipher: Aes192::new_from_slice(key).ok()?,
            nonce,
        }),
        32 => Box::new(Ctr {
            cipher: Aes256::new_from_slice(key).ok()?,
            nonce,
        }),
        _ => return None,
    })
}

/// The cipher of one sender and its sizes; None: the algorithms are not implemented here, or a key has another size.
pub fn make_direction(
    encryption: u16,
    integrity: u16,
    sk_e: &[u8],
    sk_a: &[u8],
) -> Option<(Box<dyn Direction>, Sizes)> {
    let aead = |direction: Option<Box<dyn Direction>>, icv| Some((direction?, Sizes { iv: 8, block: 1, icv }));
    let aes = |salt: usize| sk_e.len().checked_sub(salt);
    match (encryption, aes(4), aes(3)) {
        (ENCR_AES_GCM_16, Some(16), _) => aead(make_aead::<AesGcm<Aes128, U12, U16>>(sk_e, 4), 16),
        (ENCR_AES_GCM_16, Some(24), _) => aead(make_aead::<AesGcm<Aes192, U12, U16>>(sk_e, 4), 16),
        (ENCR_AES_GCM_16, Some(32), _) => aead(make_aead::<AesGcm<Aes256, U12, U16>>(sk_e, 4), 16),
        (ENCR_AES_GCM_12, Some(16), _) => aead(make_aead::<AesGcm<Aes128, U12, U12>>(sk_e, 4), 12),
        (ENCR_AES_GCM_12, Some(24), _) => aead(make_aead::<AesGcm<Aes192, U12, U12>>(sk_e, 4), 12),
        (ENCR_AES_GCM_12, Some(32), _) => aead(make_aead::<AesGcm<Aes256, U12, U12>>(sk_e, 4), 12),
        (ENCR_CHACHA20_POLY1305, Some(32), _) => aead(make_aead::<ChaCha20Poly1305>(sk_e, 4), 16),
        (ENCR_AES_CCM_8, _, Some(16)) => aead(make_aead::<Ccm<Aes128, U8, U11>>(sk_e, 3), 8),
        (ENCR_AES_CCM_8, _, Some(24)) => aead(make_aead::<Ccm<Aes192, U8, U11>>(sk_e, 3), 8),
        (ENCR_AES_CCM_8, _, Some(32)) => aead(make_aead::<Ccm<Aes256, U8, U11>>(sk_e, 3), 8),
        (ENCR_AES_CCM_12, _, Some(16)) => aead(make_aead::<Ccm<Aes128, U12, U11>>(sk_e, 3), 12),
        (ENCR_AES_CCM_12, _, Some(24)) => aead(make_aead::<Ccm<Aes192, U12, U11>>(sk_e, 3), 12),
        (ENCR_AES_CCM_12, _, Some(32)) => aead(make_aead::<Ccm<Aes256, U12, U11>>(sk_e, 3), 12),
        (ENCR_AES_CCM_16, _, Some(16)) => aead(make_aead::<Ccm<Aes128, U16, U11>>(sk_e, 3), 16),
        (ENCR_AES_CCM_16, _, Some(24)) => aead(make_aead::<Ccm<Aes192, U16, U11>>(sk_e, 3), 16),
        (ENCR_AES_CCM_16, _, Some(32)) => aead(make_aead::<Ccm<Aes256, U16, U11>>(sk_e, 3), 16),
        (ENCR_AES_CBC | ENCR_AES_CTR, _, _) => {
            let (integrity, icv) = make_integrity(integrity, sk_a)?;
            let (cipher, iv, block) = if encryption == ENCR_AES_CBC {
                (make_cbc(sk_e)?, 16, 16)
            } else {
                (make_ctr(sk_e)?, 8, 1)
            };
            Some((Box::new(EncryptThenMac { cipher, integrity }), Sizes { iv, block, icv }))
        }
        _ => None,
    }
}
