--[[ Sizes of the algorithms that protect IKE messages, by transform ID, and their names in Wireshark's key table. ]]
local names = require("ikex.names")

local algorithms = {}

--- By transform ID of type 1: cipher and mode; allowed bytes of a key without its salt; bytes of the salt at the end of
-- SK_e, of the IV, of the block that padding fills, and of the ICV of an AEAD cipher (0: not an AEAD cipher).
algorithms.encryption = {
    [2] = { cipher = "3DES", mode = "CBC", keys = { 8 }, salt = 0, iv = 8, block = 8, icv = 0 }, -- DES
    [3] = { cipher = "3DES", mode = "CBC", keys = { 24 }, salt = 0, iv = 8, block = 8, icv = 0 },
    [11] = { cipher = "NULL", mode = "NULL", keys = { 0 }, salt = 0, iv = 0, block = 1, icv = 0 },
    [12] = { cipher = "AES", mode = "CBC", keys = { 16, 24, 32 }, salt = 0, iv = 16, block = 16, icv = 0 },
    [13] = { cipher = "AES", mode = "CTR", keys = { 16, 24, 32 }, salt = 4, iv = 8, block = 1, icv = 0 },
    [14] = { cipher = "AES", mode = "CCM", keys = { 16, 24, 32 }, salt = 3, iv = 8, block = 1, icv = 8 },
    [15] = { cipher = "AES", mode = "CCM", keys = { 16, 24, 32 }, salt = 3, iv = 8, block = 1, icv = 12 },
    [16] = { cipher = "AES", mode = "CCM", keys = { 16, 24, 32 }, salt = 3, iv = 8, block = 1, icv = 16 },
    [18] = { cipher = "AES", mode = "GCM", keys = { 16, 24, 32 }, salt = 4, iv = 8, block = 1, icv = 8 },
    [19] = { cipher = "AES", mode = "GCM", keys = { 16, 24, 32 }, salt = 4, iv = 8, block = 1, icv = 12 },
    [20] = { cipher = "AES", mode = "GCM", keys = { 16, 24, 32 }, salt = 4, iv = 8, block = 1, icv = 16 },
    [23] = { cipher = "CAMELLIA", mode = "CBC", keys = { 16, 24, 32 }, salt = 0, iv = 16, block = 16, icv = 0 },
    [24] = { cipher = "CAMELLIA", mode = "CTR", keys = { 16, 24, 32 }, salt = 4, iv = 8, block = 1, icv = 0 },
    [25] = { cipher = "CAMELLIA", mode = "CCM", keys = { 16, 24, 32 }, salt = 3, iv = 8, block = 1, icv = 8 },
    [26] = { cipher = "CAMELLIA", mode = "CCM", keys = { 16, 24, 32 }, salt = 3, iv = 8, block = 1, icv = 12 },
    [27] = { cipher = "CAMELLIA", mode = "CCM", keys = { 16, 24, 32 }, salt = 3, iv = 8, block = 1, icv = 16 },
    [28] = { cipher = "CHACHA20", mode = "POLY1305", keys = { 32 }, salt = 4, iv = 8, block = 1, icv = 16 },
}

--- By transform ID of type 3: the name in `crypto.mac`, bytes of the key, and of the ICV, which is the truncated code.
algorithms.integrity = {
    [1] = { mac = "HMAC-MD5", key = 16, icv = 12 },
    [2] = { mac = "HMAC-SHA1", key = 20, icv = 12 },
    [5] = { mac = "AES-XCBC", key = 16, icv = 12 },
    [6] = { mac = "HMAC-MD5", key = 16, icv = 16 },
    [7] = { mac = "HMAC-SHA1", key = 20, icv = 20 },
    [8] = { mac = "AES-CMAC", key = 16, icv = 12 },
    [12] = { mac = "HMAC-SHA2-256", key = 32, icv = 16 },
    [13] = { mac = "HMAC-SHA2-384", key = 48, icv = 24 },
    [14] = { mac = "HMAC-SHA2-512", key = 64, icv = 32 },
    [1027] = { mac = "HMAC-SHA2-256", key = 32, icv = 12 }, -- truncated as in a draft before RFC 4868
}

local TABLE_INTEGRITY = {
    ["NONE [RFC4306]"] = 0, ["HMAC_MD5_96 [RFC2403]"] = 1, ["HMAC_MD5_128 [RFC4595]"] = 6,
    ["HMAC_SHA1_96 [RFC2404]"] = 2, ["HMAC_SHA1_160 [RFC4595]"] = 7,
    ["HMAC_SHA2_256_96 [draft-ietf-ipsec-ciph-sha-256-00]"] = 1027, ["HMAC_SHA2_256_128 [RFC4868]"] = 12,
    ["HMAC_SHA2_384_192 [RFC4868]"] = 13, ["HMAC_SHA2_512_256 [RFC4868]"] = 14,
}

local GCM = { ["8"] = 18, ["12"] = 19, ["16"] = 20 }
local CCM = { ["8"] = 14, ["12"] = 15, ["16"] = 16 }

--- Transform ID of an encryption algorithm by its name in Wireshark's table; nil: unknown.
function algorithms.table_encryption(name)
    if name == "NULL [RFC2410]" then
        return 11
    elseif name == "3DES [RFC2451]" or name == "TripleDes-CBC" then -- the second: old strongSwan
        return 3
    elseif name:match("^AES%-CBC%-%d+ %[RFC3602%]$") then
        return 12
    elseif name:match("^AES%-CTR%-%d+ %[RFC5930%]$") then
        return 13
    end
    local mode, icv = name:match("^AES%-([GC]CM)%-%d+ with (%d+) octet ICV %[RFC5282%]$")
    if mode then
        return (mode == "GCM" and GCM or CCM)[icv]
    end
    return nil
end

--- Transform ID of an integrity algorithm by its name in Wireshark's table; or nil and the bytes of an ICV of which
-- only the length is known.
function algorithms.table_integrity(name)
    local bits = name:match("^ANY (%d+)%-bits of Authentication %[No Checking%]$")
    if bits then
        return nil, math.floor(tonumber(bits) / 8)
    end
    return TABLE_INTEGRITY[name]
end

local function by_name(registry, name)
    for number, known in pairs(registry) do
        if known == name then
            return number
        end
    end
    return nil
end

--- Transform ID by the name that `ikeanalyze keys --to json` writes, or by its number.
function algorithms.named_encryption(name)
    return type(name) == "number" and name or by_name(names.encryption, name) or tonumber(name)
end

function algorithms.named_integrity(name)
    return type(name) == "number" and name or by_name(names.integrity, name) or tonumber(name)
end

return algorithms
