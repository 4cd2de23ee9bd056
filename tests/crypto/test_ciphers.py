"""Ciphers against the vectors of the RFCs and of NIST. All are read and made again."""

import pytest

from ikeanalyze.crypto.algorithms import ENCRYPTION, CipherPrimitive
from ikeanalyze.crypto.ciphers import make_aead_cipher, make_cbc_cipher, make_cipher
from ikeanalyze.wire.registries.ikev2_transforms import Encryption

COUNTING = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
BLOCK = b"Single block msg".hex()

# algorithm, key with salt, IV, plaintext, ciphertext
PLAIN = {
    "RFC 3602, case 1": (
        Encryption.AES_CBC, "06a9214036b8a15b512e03d534120006", "3dafba429d9eb430b422da802c9fac41",
        BLOCK, "e353779c1079aeb82708942dbe77181a",
    ),
    "NIST SP 800-38A, F.2.3": (
        Encryption.AES_CBC, "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b", COUNTING[:32],
        "6bc1bee22e409f96e93d7e117393172a", "4f021db243bc633d7178183a9fa071e8",
    ),
    "NIST SP 800-38A, F.2.5": (
        Encryption.AES_CBC, "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", COUNTING[:32],
        "6bc1bee22e409f96e93d7e117393172a", "f58c4c04d6e5f1ba779eabfb5f7bfbd6",
    ),
    "RFC 3686, vector 1": (
        Encryption.AES_CTR, "ae6852f8121067cc4bf7a5765577f39e00000030", "0000000000000000",
        BLOCK, "e4095d4fb7a7b3792d6175a3261311b8",
    ),
    "RFC 3686, vector 3": (
        Encryption.AES_CTR, "7691be035e5020a8ac6e618529f9a0dc00e0017b", "27777f3f4a1786f0",
        COUNTING + "20212223", "c1cf48a89f2ffdd9cf4652e9efdb72d74540a42bde6d7836d59a5ceaaef3105325b2072f",
    ),
    "RFC 3686, vector 5": (
        Encryption.AES_CTR, "7c5cb2401b3dc33c19e7340819e0f69c678c3db8e6f6a91a0096b03b", "020c6eadc2cb500d",
        COUNTING, "453243fc609b23327edfaafa7131cd9f8490701c5ad4a79cfc1fe0ff42f4fb00",
    ),
    "RFC 3686, vector 9": (
        Encryption.AES_CTR, "ff7a617ce69148e4f1726e2f43581de2aa62d9f805532edff1eed687fb54153d001cc5b7",
        "51a51d70a1c11148", COUNTING + "20212223",
        "eb6c52821d0bbbf7ce7594462aca4faab407df866569fd07f48cc0b583d6071f1ec0e6b8",
    ),
    "FIPS 81, table C1": (
        Encryption.DES, "0123456789abcdef", "1234567890abcdef",
        b"Now is the time for all ".hex(), "e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6",
    ),
    "RFC 2144, B.1, 128 bits": (
        Encryption.CAST, "0123456712345678234567893456789a", "00" * 8, "0123456789abcdef", "238b4fe5847e44b2",
    ),
    "RFC 2144, B.1, 80 bits": (
        Encryption.CAST, "01234567123456782345", "00" * 8, "0123456789abcdef", "eb6a711a2c02271b",
    ),
    "RFC 2144, B.1, 40 bits": (
        Encryption.CAST, "0123456712", "00" * 8, "0123456789abcdef", "7ac816d16e9b302e",
    ),
    "Blowfish, CBC vector of E. Young": (
        Encryption.BLOWFISH, "0123456789abcdeff0e1d2c3b4a59687", "fedcba9876543210",
        (b"7654321 Now is the time for " + bytes(4)).hex(),
        "6b77b4d63006dee605b156e27403979358deb9e7154616d959f1652bd5ff92cc",
    ),
    "NIST 3DES MMT, CBC 2": (
        Encryption.TRIPLE_DES, "37ae5ebf46dff2dc0754b94f31cbb3855e7fd36dc870bfae", "3d1de3cc132e3b65",
        "84401f78fe6c10876d8ea23094ea5309", "7b1f7c7e3b1c948ebd04a75ffba7d2f5",
    ),
    "NESSIE, Camellia 128, set 8": (
        Encryption.CAMELLIA_CBC, COUNTING[:32], "00" * 16,
        "410e33f316df4a72aa2bcd4114e2314d", "00112233445566778899aabbccddeeff",
    ),
    "NESSIE, Camellia 192, set 8": (
        Encryption.CAMELLIA_CBC, COUNTING[:48], "00" * 16,
        "941ac6453c3f48a169c2f4fe2bbe5532", "00112233445566778899aabbccddeeff",
    ),
    "NESSIE, Camellia 256, set 8": (
        Encryption.CAMELLIA_CBC, COUNTING, "00" * 16,
        "06369b3608ae43ca79c88bcf497f6771", "00112233445566778899aabbccddeeff",
    ),
    "RFC 5528, CTR 1": (
        Encryption.CAMELLIA_CTR, "ae6852f8121067cc4bf7a5765577f39e00000030", "0000000000000000",
        BLOCK, "d09dc29a8214619a20877c76db1f0b3f",
    ),
    "RFC 5528, CTR 6": (
        Encryption.CAMELLIA_CTR, "02bf391ee8ecb159b959617b0965279bf59b60a786d3e0fe0007bdfd", "5cbd60278dcc0912",
        COUNTING + "20212223", "5710e556e1487a20b5ac0e73f19e4e7876f37fdc91b1ef4d4dade8e666a64d0ed557ab57",
    ),
    "RFC 5528, CTR 8": (
        Encryption.CAMELLIA_CTR, "f6d66d6bd52d59bb0796365879eff886c66dd51a5b6a99744b50590c87a2388400faac24",
        "c1585ef15a43d875", COUNTING, "d6c30392246f7808a83c2b22a8839e45e51cd48a1cdf406ebc9cc2d3ab834108",
    ),
    "RFC 2410": (Encryption.NULL, "", "", "6162636465", "6162636465"),
}  # fmt: skip

MCGREW_KEY = "feffe9928665731c6d6a8f9467308308"
MCGREW_PLAIN = (
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255"
)
MCGREW_CIPHER = (
    "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
    "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985"
)
MCGREW_ICV = "4d5c2af327cd64a62cf35abd2ba6fab4"
CAVS_KEY = "d3df244b5e3d4b4e307ab9d8530a5e2b"

# algorithm, key with salt, IV, associated data, plaintext, ciphertext with ICV
AEAD = {
    # D. McGrew and J. Viega, The Galois/Counter Mode of Operation, test cases 3, 4, 9, 16
    "GCM 3, 8 bytes": (
        Encryption.AES_GCM_8, MCGREW_KEY + "cafebabe", "facedbaddecaf888", "",
        MCGREW_PLAIN, MCGREW_CIPHER + MCGREW_ICV[:16],
    ),
    "GCM 3, 12 bytes": (
        Encryption.AES_GCM_12, MCGREW_KEY + "cafebabe", "facedbaddecaf888", "",
        MCGREW_PLAIN, MCGREW_CIPHER + MCGREW_ICV[:24],
    ),
    "GCM 3": (
        Encryption.AES_GCM_16, MCGREW_KEY + "cafebabe", "facedbaddecaf888", "",
        MCGREW_PLAIN, MCGREW_CIPHER + MCGREW_ICV,
    ),
    "GCM 4, 12 bytes": (
        Encryption.AES_GCM_12, MCGREW_KEY + "cafebabe", "facedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        MCGREW_PLAIN[:120], MCGREW_CIPHER[:120] + "5bc94fbc3221a5db94fae95ae7121a47"[:24],
    ),
    "GCM 9": (
        Encryption.AES_GCM_16, MCGREW_KEY + MCGREW_KEY[:16] + "cafebabe", "facedbaddecaf888", "", MCGREW_PLAIN,
        "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c"
        "7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda2710acade256"
        "9924a7c8587336bfb118024db8674a14",
    ),
    "GCM 16": (
        Encryption.AES_GCM_16, MCGREW_KEY * 2 + "cafebabe", "facedbaddecaf888",
        "feedfacedeadbeeffeedfacedeadbeefabaddad2", MCGREW_PLAIN[:120],
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b",
    ),
    # NIST CAVS, those with nonces of 11 bytes
    "CCM 16, 128 bits": (
        Encryption.AES_CCM_16, "1e2c7e01419aefc00d58966e5ca24bd34fa319", "d3015ad830601556",
        "dae6289c452dfd635eda4cb6e6fcf9b70c56cbe4e0057ae10a630978bc2c55de",
        "87a336fd96b39378a92863ba12a31485571e06c97b21ef767f387e8e29a43e7e",
        "8a1e11f0026be219fc70c46d8eb799abc54ba2acd3f348ff3bb5ce53efdebb02a986156c13feda0a22b8293dd8399a23",
    ),
    "CCM 16, 192 bits": (
        Encryption.AES_CCM_16, "56df5c8f263f0e42ef7ad3cefc846062cab440af5fc9c901d63c8c", "8684b6cdef092e94",
        "0265783ce9213091b1b9da769a786d95f28832a3f250cb4ce300736984698779",
        "9fd2024b5249313c43693a2d8e70ad7ee0e54609808913b28c8bd93f86fbb56b",
        "39df7c3c5a29b9625d51c216d8bd069f9b6a0970c15183c266881d4f9adae01ec7791158e56b20407aea46428be46fe1",
    ),
    "CCM 8": (
        Encryption.AES_CCM_8, "e08d997160d7971abd0199d58adf713a" + CAVS_KEY + "1e2991", "ad8ec1530acf2dbe",
        "19b61f57c4f3f08b782b9402290f42276b75cb9834087e79e43e490d848b2287",
        "e1d9d813eb3a753f9dbd5f66bedcbb66bf1799624a39271f1ddc24ae192f984c",
        "19b86133452b43966f51d020307d9bc6263df8c96516a89ff0621734f21e8d754e13ccc0c32a542d",
    ),
    "CCM 12": (
        Encryption.AES_CCM_12, "7cc8183b8d99e07c4541b8bd5ca7c2328ab80259a4fea92c09759a9b3c9b2739f9d94e",
        "63b53d9d43f61e50", "57f56b8b575c3d3b1302010c834c96358ed639cf7d149b94b03936e68f57e013",
        "3b6c2936b6ef07a68372074fcffa66895fcab1bad58f2c2730db750993d465e4",
        "b0885a33aae5c71d8523c7c62ff41e3dcc63442507784f9e96b888ebbc481f0639af39acd84a80397b728af7",
    ),
    "RFC 7634, appendix A": (
        Encryption.CHACHA20_POLY1305, "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3",
        "1011121314151617", "0102030400000005",
        "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec100007362708090a0b0c0d0e0f"
        "101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363701020204",
        "24039428b97f417e3c13753a4f05087b67c352e6a7fab1b982d466ef407ae5c614ee8099d52844eb61aa95df"
        "ab4c02f72aa71e7c4c4f64c9befe2facc638e8f3cbec163fac469b502773f6fb94e664da9165b82829f641e0"
        "76aaa8266b7fb0f7b11b369907e1ad43",
    ),
    # nonces are two bytes longer there than in IKE
    "RFC 5528, CCM 1": (
        Encryption.CAMELLIA_CCM_8, "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf000000", "03020100a0a1a2a3a4a5", COUNTING[:16],
        COUNTING[16 : 16 + 2 * 23], "ba737185e719310492f38a5f1251da55fafbc949848a0dfcaece746b3db9ad",
    ),
    "RFC 5528, CCM 6": (
        Encryption.CAMELLIA_CCM_8, "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf000000", "08070605a0a1a2a3a4a5", COUNTING[:24],
        COUNTING[24:] + "20", "fea5480ba53fa8d3c34422aace4de67ffa3bb73babab36a1ee4fe0fe28",
    ),
    "RFC 5528, CCM 16": (
        Encryption.CAMELLIA_CCM_8, "d75c2778078ca93d971f96fde720f4cd00ec60", "0863319ab160b6a31c1c",
        "de97df3b8cbd6d8e5030da4c", "b005dcfa0b59181426a961685a993d8c43185b",
        "63b78b4967b19edbb733cd1114f64eb226089368c354828d950cc5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PLAIN)
def test_ciphers_without_tag_agree_with_the_vectors(case):
    number, *hexed = PLAIN[case]
    key, iv, plaintext, ciphertext = map(bytes.fromhex, hexed)
    cipher = make_cipher(ENCRYPTION[number], key)
    assert cipher.decrypt(iv, ciphertext) == plaintext
    assert cipher.encrypt(iv, plaintext) == ciphertext


@pytest.mark.parametrize("case", AEAD)
def test_aead_ciphers_agree_with_the_vectors_and_detect_changes(case):
    number, *hexed = AEAD[case]
    key, iv, associated, plaintext, ciphertext = map(bytes.fromhex, hexed)
    cipher = make_aead_cipher(ENCRYPTION[number], key)
    assert cipher.decrypt(iv, ciphertext, associated) == plaintext
    assert cipher.encrypt(iv, plaintext, associated) == ciphertext
    for at in (0, len(ciphertext) - 1):
        wrong = bytearray(ciphertext)
        wrong[at] ^= 0x01
        assert cipher.decrypt(iv, bytes(wrong), associated) is None
    assert cipher.decrypt(iv, ciphertext, associated + b"\0") is None


@pytest.mark.parametrize("number", [Encryption.CAMELLIA_CCM_12, Encryption.CAMELLIA_CCM_16])
def test_longer_icvs_of_camellia_begin_otherwise_but_encrypt_alike(number):
    key, iv = bytes(range(19)), bytes(8)
    short = make_aead_cipher(ENCRYPTION[Encryption.CAMELLIA_CCM_8], key).encrypt(iv, b"payload", b"header")
    long = make_aead_cipher(ENCRYPTION[number], key).encrypt(iv, b"payload", b"header")
    assert long[:7] == short[:7]
    assert len(long) == 7 + ENCRYPTION[number].icv
    assert make_aead_cipher(ENCRYPTION[number], key).decrypt(iv, long, b"header") == b"payload"


@pytest.mark.parametrize("icv", [8, 12, 16])
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 300])
def test_ccm_put_together_is_the_librarys(icv, size):
    # The same construction over AES, which the library has a CCM of its own for.
    from cryptography.hazmat.primitives.ciphers.aead import AESCCM
    from cryptography.hazmat.primitives.ciphers.algorithms import AES

    from ikeanalyze.crypto.ciphers import BlockCcm

    key, salt, iv = bytes(range(32)), b"abc", b"12345678"
    data, associated = (
        bytes(size),
        bytes([7]) * (size * 220),
    )  # over 65,280 bytes the length is written otherwise
    encrypted = AESCCM(key, tag_length=icv).encrypt(salt + iv, data, associated)
    ours = BlockCcm(AES(key), salt, icv)
    assert ours.encrypt(iv, data, associated) == encrypted
    assert ours.decrypt(iv, encrypted, associated) == data


def test_des_is_triple_des_with_one_key():
    # FIPS 81, appendix C, CBC: key, IV and the first two blocks
    cipher = make_cbc_cipher(CipherPrimitive.DES, bytes.fromhex("0123456789abcdef"))
    iv = bytes.fromhex("1234567890abcdef")
    ciphertext = bytes.fromhex("e5c7cdde872bf27c43e934008c389c0f")
    assert cipher.encrypt(iv, b"Now is the time ") == ciphertext
    assert cipher.decrypt(iv, ciphertext) == b"Now is the time "
