--[[ Decryption of SK and SKF payloads with GcryptCipher, in versions of Wireshark that have it (RFC 7296, 3.14; RFC
5282; RFC 7634).

The tag of an AEAD cipher shows whether the key is correct. The ICV of other ciphers is an HMAC, for which Wireshark's
Lua has no function: their plaintext is marked as not verified. ]]
local algorithms = require("ikex.algorithms")
local compat = require("ikex.compat")
local names = require("ikex.names")

local cipher = {}

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

local function create_cipher(algorithm, key)
    local numbers = {
        AES = { [16] = GCRY_CIPHER_AES, [24] = GCRY_CIPHER_AES192, [32] = GCRY_CIPHER_AES256 },
        ["3DES"] = { [24] = GCRY_CIPHER_3DES },
        CHACHA20 = { [32] = GCRY_CIPHER_CHACHA20 },
    }
    local modes = {
        CBC = GCRY_CIPHER_MODE_CBC, CTR = GCRY_CIPHER_MODE_CTR, GCM = GCRY_CIPHER_MODE_GCM,
        CCM = GCRY_CIPHER_MODE_CCM, POLY1305 = GCRY_CIPHER_MODE_POLY1305,
    }
    local handle = GcryptCipher.open(numbers[algorithm.cipher][#key], modes[algorithm.mode], 0)
    handle:setkey(bytes(key))
    return handle
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
    local size = #keys.ei - algorithm.salt
    for _, known in ipairs(algorithm.keys) do
        if known == size and #keys.er == #keys.ei then
            return algorithm
        end
    end
    return nil, string.format("SK_e has %d bytes, which is wrong for %s", #keys.ei, names.of(names.encryption, number))
end

--- Bytes of the ICV, also of one that is an HMAC; nil: unknown.
function cipher.icv(algorithm, keys, suite)
    if algorithm.icv > 0 then
        return algorithm.icv
    elseif keys.icv then
        return keys.icv
    end
    return algorithms.icv[keys.integrity or (suite and suite.integrity) or -1]
end

local function decrypt(algorithm, sk, associated, iv, ciphertext, tag)
    if algorithm.mode == "NULL" then
        return ciphertext
    end
    local key, salt = sk:sub(1, #sk - algorithm.salt), sk:sub(#sk - algorithm.salt + 1)
    local handle = create_cipher(algorithm, key)
    if algorithm.mode == "CTR" then
        handle:setctr(bytes(salt .. iv .. "\0\0\0\1"), 16)
    else
        handle:setiv(bytes(salt .. iv))
    end
    if algorithm.mode == "CCM" then
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

--- Decrypt the payload at the end of `data`, a complete message; `start`: position of its IV.
-- Returns the chain of payloads without padding, whether the tag was checked, and the padding; nil if the key is wrong.
function cipher.decrypt(algorithm, keys, suite, data, start, from_initiator)
    local icv = cipher.icv(algorithm, keys, suite)
    if not compat.has_ciphers or not icv then
        return nil
    end
    local first, last = start + algorithm.iv, #data - icv
    local size = last - first + 1
    if size < 1 or size % algorithm.block ~= 0 then
        return nil
    end
    local aead = algorithm.icv > 0
    local ok, padded = pcall(
        decrypt,
        algorithm,
        from_initiator and keys.ei or keys.er,
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
        return nil
    end
    return padded:sub(1, #padded - 1 - padding), aead, padding
end

return cipher
