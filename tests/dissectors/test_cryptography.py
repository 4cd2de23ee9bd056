"""The plugin's own cryptography in each version's Lua: published vectors, and the library `cryptography`.

FIPS 197 app. C (AES), NIST SP 800-38A F.2, F.5 (CBC, CTR), McGrew and Viega's GCM specification (cases 4, 16), RFC 3713
app. A (Camellia), NIST SP 800-67 app. B (3DES), RFC 8439 2.8.2 (ChaCha20-Poly1305), RFC 1321, FIPS 180-4 (hashes),
RFC 2202, RFC 4231 (HMAC), RFC 3566 (AES-XCBC), RFC 4493 (AES-CMAC).
"""

import hashlib
import hmac
from pathlib import Path
from random import Random

from cryptography.hazmat.decrepit.ciphers.algorithms import Camellia, TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from tests.dissectors.run_plugin import PLUGIN
from tests.paths import CAPTURES

SCRIPT = Path(__file__).with_name("crypto_vectors.lua")

KEY = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
BLOCK = "00112233445566778899aabbccddeeff"
NIST_KEY = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
NIST_TEXT = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
CAMELLIA_KEY = "0123456789abcdeffedcba987654321000112233445566778899aabbccddeeff"
GCM_TEXT = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
GCM_KEY = "feffe9928665731c6d6a8f9467308308"
GCM_HEAD = "cafebabefacedbaddecaf888 feedfacedeadbeeffeedfacedeadbeefabaddad2"
SUNSCREEN = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it."

#: Case of crypto_vectors.lua and its published result.
PUBLISHED = {
    f"encrypt AES {KEY[:32]} {BLOCK}": "69c4e0d86a7b0430d8cdb78070b4c55a",
    f"encrypt AES {KEY[:48]} {BLOCK}": "dda97ca4864cdfe06eaf70a0ec0d7191",
    f"encrypt AES {KEY} {BLOCK}": "8ea2b7ca516745bfeafc49904b496089",
    f"decrypt AES {KEY} 8ea2b7ca516745bfeafc49904b496089": BLOCK,
    f"cbc AES {NIST_KEY} {KEY[:32]} f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d": NIST_TEXT,
    f"encrypt CAMELLIA {CAMELLIA_KEY[:32]} {CAMELLIA_KEY[:32]}": "67673138549669730857065648eabe43",
    f"encrypt CAMELLIA {CAMELLIA_KEY[:48]} {CAMELLIA_KEY[:32]}": "b4993401b3e996f84ee5cee7d79b09b9",
    f"encrypt CAMELLIA {CAMELLIA_KEY} {CAMELLIA_KEY[:32]}": "9acc237dff16d76c20ef7c919e3a7509",
    "encrypt DES 0123456789abcdef23456789abcdef01456789abcdef0123 5468652071756663": "a826fd8ce53b855f",
    f"gcm AES {GCM_KEY} {GCM_HEAD} "
    "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091"
    " 5bc94fbc3221a5db94fae95ae7121a47": GCM_TEXT,
    f"gcm AES {GCM_KEY}{GCM_KEY} {GCM_HEAD} "
    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
    " 76fc6ece0f4e1768cddf8853bb2d551b": GCM_TEXT,
    "poly - 808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f 070000004041424344454647 "
    "50515253c0c1c2c3c4c5c6c7 "
    "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b6"
    "7ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d26586cec64b6116"
    " 1ae10b594f09e26a7e902ecbd0600691": SUNSCREEN.hex(),
    f"hash md5 {b'message digest'.hex()}": "f96b697d7cb7938d525a2f31aaf161d0",
    "hash sha1 616263": "a9993e364706816aba3e25717850c26c9cd0d89d",
    "hash sha256 616263": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "hash sha384 616263": "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed"
    "8086072ba1e7cc2358baeca134c825a7",
    "hash sha512 616263": "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
    "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    f"mac HMAC-MD5 {'0b' * 16} {b'Hi There'.hex()}": "9294727a3638bb1c13f48ef8158bfc9d",
    f"mac HMAC-SHA1 {'0b' * 20} {b'Hi There'.hex()}": "b617318655057264e28bc0b6fb378c8ef146be00",
    f"mac HMAC-SHA2-256 {'0b' * 20} {b'Hi There'.hex()}": "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
    f"mac HMAC-SHA2-384 {'0b' * 20} {b'Hi There'.hex()}": "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59c"
    "faea9ea9076ede7f4af152e8b2fa9cb6",
    f"mac HMAC-SHA2-512 {'0b' * 20} {b'Hi There'.hex()}": "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde"
    "daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
    f"mac AES-XCBC {KEY[:32]} ": "75f0251d528ac01c4573dfd584d79f29",
    f"mac AES-XCBC {KEY[:32]} 000102": "5b376580ae2f19afe7219ceef172756f",
    f"mac AES-XCBC {KEY[:32]} {KEY}": "f54f0ec8d2b9f3d36807734bd5283fd4",
    "mac AES-CMAC 2b7e151628aed2a6abf7158809cf4f3c ": "bb1d6929e95937287fa37d129b756746",
    f"mac AES-CMAC 2b7e151628aed2a6abf7158809cf4f3c {NIST_TEXT[:32]}": "070a16b46b4d4144f79bdd9dd04a287c",
    f"mac AES-CMAC 2b7e151628aed2a6abf7158809cf4f3c {NIST_TEXT}30c81c46a35ce411": "dfa66747de9ae63030ca32611497c827",
}


def compute(tshark, cases):
    """The results of the plugin, in order."""
    files = {"ikex": PLUGIN / "ikex", "cases": "\n".join(cases) + "\n"}
    done = tshark.run("-q", capture=CAPTURES / "psk-classic.pcap", lua=[SCRIPT], files=files)
    assert done.stderr == ""
    return done.lines


def test_published_vectors(tshark):
    assert dict(zip(PUBLISHED, compute(tshark, PUBLISHED), strict=True)) == PUBLISHED


def hexes(*values):
    return " ".join(value.hex() for value in values)


def encrypt(algorithm, mode, data):
    encryptor = Cipher(algorithm, mode).encryptor()
    return encryptor.update(data) + encryptor.finalize()


def random_cases(rng):
    """Pairs of a case and its result, of sizes around the borders of blocks."""
    lengths = [1, 15, 16, 17, 55, 56, 63, 64, 111, 112, 119, 120, 127, 128, 129, 255, 1248]
    for length in lengths:
        data, associated = rng.randbytes(length), rng.randbytes(rng.choice([0, 1, 16, 32, 40]))
        for size in (16, 24, 32):
            key, nonce = rng.randbytes(size), rng.randbytes(12)
            encrypted = AESGCM(key).encrypt(nonce, data, associated)
            tag = encrypted[length:][: rng.choice([8, 12, 16])]
            yield f"gcm AES {hexes(key, nonce, associated, encrypted[:length], tag)}", data.hex()
            yield f"gcm AES {hexes(key, nonce, associated, encrypted[:length], bytes(len(tag)))}", "nil"
            tag_size = rng.choice([8, 12, 16])
            encrypted = AESCCM(key, tag_size).encrypt(nonce[:11], data, associated)
            yield f"ccm AES {hexes(key, nonce[:11], associated, encrypted[:length], encrypted[length:])}", data.hex()
            yield f"ccm AES {hexes(key, nonce[:11], associated + b'x', encrypted[:length], encrypted[length:])}", "nil"
            stream = encrypt(AES(key), modes.CTR(nonce + bytes([0, 0, 0, 1])), data)
            yield f"ctr AES {hexes(key, nonce, stream)}", data.hex()
            for name, algorithm in (("AES", AES(key)), ("CAMELLIA", Camellia(key))):
                blocks, iv = data + bytes(-length % 16), rng.randbytes(16)
                yield f"cbc {name} {hexes(key, iv, encrypt(algorithm, modes.CBC(iv), blocks))}", blocks.hex()
        key, iv = rng.randbytes(24), rng.randbytes(8)
        blocks = data + bytes(-length % 8)
        yield f"cbc DES {hexes(key, iv, encrypt(TripleDES(key), modes.CBC(iv), blocks))}", blocks.hex()
        key, nonce = rng.randbytes(32), rng.randbytes(12)
        encrypted = ChaCha20Poly1305(key).encrypt(nonce, data, associated)
        yield f"poly - {hexes(key, nonce, associated, encrypted[:length], encrypted[length:])}", data.hex()
        yield f"poly - {hexes(key, nonce, associated, encrypted[:length], encrypted[length + 1 :] + b'x')}", "nil"
        for name in ("md5", "sha1", "sha256", "sha384", "sha512"):
            yield f"hash {name} {hexes(data)}", hashlib.new(name, data).hexdigest()
            key = rng.randbytes(rng.choice([16, 64, 65, 128, 129]))
            label = {"md5": "HMAC-MD5", "sha1": "HMAC-SHA1"}.get(name, f"HMAC-SHA2-{name[3:]}")
            yield f"mac {label} {hexes(key, data)}", hmac.digest(key, data, name).hex()


def test_the_results_are_those_of_the_library(tshark):
    """Cases of all sizes, of valid and of invalid tags."""
    cases = dict(random_cases(Random(18)))
    assert dict(zip(cases, compute(tshark, cases), strict=True)) == cases


def test_sums_at_the_borders_of_the_prime_are_reduced(tshark):
    """RFC 8439, A.3, test vectors 7 to 9: key and data of Poly1305, and its tag."""
    cases = {
        f"poly1305 - {'02' + '00' * 31} {'ff' * 16}": "03" + "00" * 15,
        f"poly1305 - {'02' + '00' * 15 + 'ff' * 16} {'02' + '00' * 15}": "03" + "00" * 15,
        f"poly1305 - {'02' + '00' * 31} {'fd' + 'ff' * 15}": "fa" + "ff" * 15,
    }
    assert dict(zip(cases, compute(tshark, cases), strict=True)) == cases
