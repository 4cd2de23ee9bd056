//! Numbers of fixed width in a slice; None beyond its end.

/// `N` bytes at a position.
#[inline(always)]
fn array<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The byte at a position.
#[inline(always)]
pub fn u8_at(data: &[u8], at: usize) -> Option<u8> {
    data.get(at).copied()
}

/// A 16-bit number in network byte order.
#[inline(always)]
pub fn be16(data: &[u8], at: usize) -> Option<u16> {
    array(data, at).map(u16::from_be_bytes)
}

/// A 32-bit number in network byte order.
#[inline(always)]
pub fn be32(data: &[u8], at: usize) -> Option<u32> {
    array(data, at).map(u32::from_be_bytes)
}

/// A 64-bit number in network byte order.
#[inline(always)]
pub fn be64(data: &[u8], at: usize) -> Option<u64> {
    array(data, at).map(u64::from_be_bytes)
}

/// The 16 bytes of an IPv6 address.
#[inline(always)]
pub fn address(data: &[u8], at: usize) -> Option<[u8; 16]> {
    array(data, at)
}

/// A 32-bit number in the byte order of a file.
#[inline(always)]
pub fn word(data: &[u8], at: usize, big_endian: bool) -> Option<u32> {
    array(data, at).map(if big_endian {
        u32::from_be_bytes
    } else {
        u32::from_le_bytes
    })
}
