--[[ Decryption of SK and SKF payloads (RFC 7296, 3.14; RFC 5282; RFC 5529; RFC 5930; RFC 7634).

The ICV is checked before a message is used: the tag of an AEAD cipher, or a MAC of the message. Only a key file that
names the length of an ICV and not its algorithm makes this impossible. Ciphers are those of Wireshark's Lua where it
has them (GcryptCipher), and otherwise the plugin's own. ]]
local aes = require("ikex.crypto.aes")
local algorithms = require("ikex.algorithms")
local camellia = require("ikex.crypto.camellia")
local chacha20poly1305 = require("ikex.crypto.chacha20poly1305")
local compat = require("ikex.compat")
local des = require("ikex.crypto.des")
local mac = require("ikex.crypto.mac")
local modes = require("ikex.crypto.modes")
local names = require("ikex.names")

local cipher = {}

local MAX_CACHED = 256 -- expanded keys, of up to 20 kB each
local BLOCK_CIPHERS = { AES = aes.new, CAMELLIA = camellia.new, ["3DES"] = des.new }

local cached, cached_count = {}, 0

-- The object that `make` makes of a key; the latest ones are kept.
local function get_cached(kind, key, make)
    local id = kind .. "\0" .. key
    local object = cached[id]
    if not object then
        if cached_count >= MAX_CACHED then
            cached, cached_count = {}, 0
        end
        object = make(key)
        cached[id], cached_count = object, cached_count + 1
    end
    return object
end

local function bytes(data)
    return ByteArray.new(data, true)
end

local function little_endian64(number)
    local digits = {}
    for _ = 1, 8 do
        local low = number % 256
        digits[#digits + 1] = string.char(low)
        number = (number - low) / 256
    end
    return table.concat(digits)
end

-- The numbers of a cipher and of its mode in libgcrypt; nil if this version of Wireshark lacks it.
local function find_native(algorithm, key)
    if not compat.has_ciphers then
        return nil
    end
    local ciphers = {
        AES = { [16] = GCRY_CIPHER_AES, [24] = GCRY_CIPHER_AES192, [32] = GCRY_CIPHER_AES256 },
        ["3DES"] = { [24] = GCRY_CIPHER_3DES },
        CHACHA20 = { [32] = GCRY_CIPHER_CHACHA20 },
    }
    local numbers = {
        CBC = GCRY_CIPHER_MODE_CBC, CTR = GCRY_CIPHER_MODE_CTR, GCM = GCRY_CIPHER_MODE_GCM,
        CCM = GCRY_CIPHER_MODE_CCM, POLY1305 = GCRY_CIPHER_MODE_POLY1305,
    }
    local number = ciphers[algorithm.cipher] and ciphers[algorithm.cipher][#key]
    return number, numbers[algorithm.mode]
end

local function decrypt_natively(number, mode_number, mode, key, nonce, associated, ciphertext, tag)
    local handle = GcryptCipher.open(number, mode_number, 0)
    handle:setkey(bytes(key))
    if mode == "CTR" then
        handle:setctr(bytes(nonce .. "\0\0\0\1"), 16)
    else
        handle:setiv(bytes(nonce))
    end
    if mode == "CCM" then
        local lengths = little_endian64(#ciphertext) .. little_endian64(#associated) .. little_endian64(#tag)
        handle:ctl(GCRYCTL_SET_CCM_LENGTHS, bytes(lengths))
    end
    if tag then
        handle:authenticate(bytes(associated))
    end
    local plaintext = handle:decrypt(nil, bytes(ciphertext))
    if tag and handle:checktag(bytes(tag)) ~= 0 then
        return nil
    end
    return plaintext:raw()
end

-- The plaintext with its padding; nil if the tag is wrong. `tag`: of an AEAD cipher.
local function decrypt(algorithm, sk, associated, iv, ciphertext, tag)
    local mode = algorithm.mode
    if mode == "NULL" then
        return ciphertext
    end
    local key, nonce = sk:sub(1, #sk - algorithm.salt), sk:sub(#sk - algorithm.salt + 1) .. iv
    local number, mode_number = find_native(algorithm, key)
    if number and mode_number then
        return decrypt_natively(number, mode_number, mode, key, nonce, associated, ciphertext, tag)
    elseif mode == "POLY1305" then
        return chacha20poly1305.decrypt(key, nonce, associated, ciphertext, tag)
    end
    local block_cipher = get_cached(algorithm.cipher, key, BLOCK_CIPHERS[algorithm.cipher])
    if mode == "CBC" then
        return modes.decrypt_cbc(block_cipher, nonce, ciphertext)
    elseif mode == "CTR" then
        return modes.xor_counter_stream(block_cipher, nonce, 1, ciphertext)
    elseif mode == "GCM" then
        return modes.decrypt_gcm(block_cipher, nonce, associated, ciphertext, tag)
    end
    return modes.decrypt_ccm(block_cipher, nonce, associated, ciphertext, tag)
end

--- Decrypt whole blocks in CBC mode. `name`: "AES", "CAMELLIA" or "3DES", which is DES with a key of 8 bytes.
function cipher.decrypt_cbc(name, key, iv, data)
    return modes.decrypt_cbc(get_cached(name, key, BLOCK_CIPHERS[name]), iv, data)
end

--- The cipher of a key set, with the negotiated suite of the IKE SA; nil and the reason, if there is none for its keys.
function cipher.algorithm(keys, suite)
    local number = keys.encryption or (suite and suite.encryption)
    if not number then
        return nil, "neither the key file nor the capture contains the cipher of the keys"
    end
    local algorithm = algorithms.encryption[number]
    if not algorithm then
        return nil, names.of(names.encryption, number) .. " is not supported"
    end
    local sk = #keys.ei > 0 and keys.ei or keys.er -- some key files have the keys of one side
    for _, known in ipairs(algorithm.keys) do
        if known == #sk - algorithm.salt and (#keys.er == #keys.ei or #keys.ei == 0 or #keys.er == 0) then
            return algorithm
        end
    end
    return nil, string.format("SK_e has %d bytes, which is wrong for %s", #sk, names.of(names.encryption, number))
end

-- Bytes of the ICV, and the integrity algorithm that checks it if the cipher does not; nil: not known, or not usable.
local function find_integrity(algorithm, keys, suite, sk_a)
    if algorithm.icv > 0 then
        return algorithm.icv
    elseif keys.icv then
        return keys.icv
    end
    local integrity = algorithms.integrity[keys.integrity or (suite and suite.integrity) or -1]
    if not integrity or integrity.key ~= #sk_a then
        return nil
    end
    return integrity.icv, integrity
end

--- Decrypt the payload at the end of `data`, a complete message; `start`: position of its IV.
-- Returns the chain of payloads without padding, whether the ICV was checked, and the length of the padding; nil if a
-- key is wrong, and true if that is SK_e, because SK_a fits.
function cipher.decrypt(algorithm, keys, suite, data, start, from_initiator)
    local sk_e = from_initiator and keys.ei or keys.er
    local sk_a = (from_initiator and keys.ai or keys.ar) or ""
    local icv, integrity = find_integrity(algorithm, keys, suite, sk_a)
    if not icv or (#sk_e == 0 and algorithm.mode ~= "NULL") then
        return nil
    end
    local first, last = start + algorithm.iv, #data - icv
    local size = last - first + 1
    if size < 1 or size % algorithm.block ~= 0 then
        return nil
    end
    if integrity then
        local compute = get_cached(integrity.mac, sk_a, mac.new[integrity.mac])
        if compute(data:sub(1, last)):sub(1, icv) ~= data:sub(last + 1) then
            return nil
        end
    end
    local aead = algorithm.icv > 0
    local ok, padded = pcall(
        decrypt,
        algorithm,
        sk_e,
        data:sub(1, start - 1),
        data:sub(start, first - 1),
        data:sub(first, last),
        aead and data:sub(last + 1) or nil
    )
    if not ok or not padded then
        return nil
    end
    local padding = padded:byte(#padded)
    if padding >= #padded then
        return nil, integrity ~= nil and algorithm.mode ~= "NULL"
    end
    return padded:sub(1, #padded - 1 - padding), aead or integrity ~= nil, padding
end

return cipher
