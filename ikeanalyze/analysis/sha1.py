"""SHA-1 (FIPS 180-4, 6.1) of many short messages at once.

NAT detection needs four hashes of 22 or 34 bytes for each handshake. hashlib takes most of its time for
being called; here
each step of the algorithm is done for thousands of messages in one operation of numpy, in a third of the
time.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

#: Bytes of a message that fits into one block with its padding.
LONGEST: Final = 55

_BLOCK: Final = 64
_START: Final = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
_CONSTANTS: Final = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)
#: Messages at once: all words of so many stay in the processor's cache.
_AT_ONCE: Final = 8192


def sha1(messages: npt.NDArray[np.uint8], size: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    """Digests of messages of up to LONGEST bytes. (n, 20)

    Args:
        messages: a row of bytes for each; those behind its size are zero. (n, up to LONGEST)
        size: of each message. (n,)
    """
    count = len(messages)
    digests = np.empty((count, 20), np.uint8)
    for low in range(0, count, _AT_ONCE):
        some = slice(low, low + _AT_ONCE)
        digests[some] = _few(messages[some], size[some])
    return digests


def _few(messages: npt.NDArray[np.uint8], size: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    count = len(messages)
    block = np.zeros((count, _BLOCK), np.uint8)
    block[:, : messages.shape[1]] = messages
    block[np.arange(count), size] = 0x80
    block.view(">u8")[:, -1] = size * 8
    schedule = _schedule(np.ascontiguousarray(block.view(">u4").T.astype(np.uint32)))
    start = [np.full(count, word, np.uint32) for word in _START]
    state = [word.copy() for word in start]
    spare, other = np.empty(count, np.uint32), np.empty(count, np.uint32)
    for step, word in enumerate(schedule):
        a, b, c, d, e = state
        phase = step // 20
        if phase == 0:  # choose
            np.bitwise_xor(c, d, out=spare)
            spare &= b
            spare ^= d
        elif phase == 2:  # majority
            np.bitwise_or(b, c, out=spare)
            spare &= d
            np.bitwise_and(b, c, out=other)
            spare |= other
        else:  # parity
            np.bitwise_xor(b, c, out=spare)
            spare ^= d
        e += spare
        e += word
        e += np.uint32(_CONSTANTS[phase])
        np.left_shift(a, 5, out=spare)
        np.right_shift(a, 27, out=other)
        spare |= other
        e += spare
        np.left_shift(b, 30, out=spare)
        b >>= np.uint32(2)
        b |= spare
        state = [e, a, b, c, d]
    digest = np.stack([word + first for word, first in zip(state, start, strict=True)], axis=1)
    return digest.astype(">u4").view(np.uint8).reshape(count, 20)


def _schedule(block: Words) -> list[Words]:
    words = list(block)
    for step in range(16, 80):
        word = words[step - 3] ^ words[step - 8]
        word ^= words[step - 14]
        word ^= words[step - 16]
        words.append(word << np.uint32(1) | word >> np.uint32(31))
    return words
