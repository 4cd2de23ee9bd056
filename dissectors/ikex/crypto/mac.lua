--[[ Message authentication codes by name: HMAC (RFC 2104), AES-XCBC (RFC 3566), AES-CMAC (RFC 4493). ]]
local aes = require("ikex.crypto.aes")
local hashes = require("ikex.crypto.hashes")
local sha512 = require("ikex.crypto.sha512")
local words = require("ikex.crypto.words")

local bxor = bit.bxor

local mac = {}

local function xor_bytes(data, value)
    return (data:gsub(".", function(character)
        return string.char(bxor(character:byte(), value))
    end))
end

local function new_hmac(hash, block)
    return function(key)
        if #key > block then
            key = hash(key)
        end
        key = key .. ("\0"):rep(block - #key)
        local inner, outer = xor_bytes(key, 0x36), xor_bytes(key, 0x5c)
        return function(data)
            return hash(outer .. hash(inner .. data))
        end
    end
end

-- CBC-MAC of whole blocks, of which the last one is mixed with `final`.
local function cbc_mac(cipher, blocks, final)
    local a, b, c, d = 0, 0, 0, 0
    for at = 1, #blocks, 16 do
        local p, q, r, s = words.read4(blocks, at)
        a, b, c, d = bxor(a, p), bxor(b, q), bxor(c, r), bxor(d, s)
        if at + 16 > #blocks then
            a, b, c, d = bxor(a, final[1]), bxor(b, final[2]), bxor(c, final[3]), bxor(d, final[4])
        end
        a, b, c, d = cipher.encrypt(a, b, c, d)
    end
    return words.write4(a, b, c, d)
end

-- Whole blocks: data that is empty or ends within a block is followed by a bit 1 and bits 0. Whether it was.
local function pad(data)
    if #data > 0 and #data % 16 == 0 then
        return data, false
    end
    return data .. "\128" .. ("\0"):rep(15 - #data % 16), true
end

local function new_xcbc(key)
    local outer = aes.new(key)
    local cipher = aes.new(words.write4(outer.encrypt(words.read4(("\1"):rep(16), 1))))
    local k2 = { outer.encrypt(words.read4(("\2"):rep(16), 1)) }
    local k3 = { outer.encrypt(words.read4(("\3"):rep(16), 1)) }
    return function(data)
        local blocks, padded = pad(data)
        return cbc_mac(cipher, blocks, padded and k3 or k2)
    end
end

-- Double a value in the field of CMAC (RFC 4493, 2.3).
local function double(block)
    local a, b, c, d = block[1], block[2], block[3], block[4]
    local carry = bit.rshift(a, 31) == 1 and 0x87 or 0
    return {
        bxor(bit.lshift(a, 1), bit.rshift(b, 31)), bxor(bit.lshift(b, 1), bit.rshift(c, 31)),
        bxor(bit.lshift(c, 1), bit.rshift(d, 31)), bxor(bit.lshift(d, 1), carry),
    }
end

local function new_cmac(key)
    local cipher = aes.new(key)
    local k1 = double({ cipher.encrypt(0, 0, 0, 0) })
    local k2 = double(k1)
    return function(data)
        local blocks, padded = pad(data)
        return cbc_mac(cipher, blocks, padded and k2 or k1)
    end
end

--- By name: a function of a key that returns a function of data that returns the complete code.
mac.new = {
    ["HMAC-MD5"] = new_hmac(hashes.md5, 64),
    ["HMAC-SHA1"] = new_hmac(hashes.sha1, 64),
    ["HMAC-SHA2-256"] = new_hmac(hashes.sha256, 64),
    ["HMAC-SHA2-384"] = new_hmac(sha512.sha384, 128),
    ["HMAC-SHA2-512"] = new_hmac(sha512.sha512, 128),
    ["AES-XCBC"] = new_xcbc,
    ["AES-CMAC"] = new_cmac,
}

return mac
