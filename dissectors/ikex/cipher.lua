--[[ Decryption of SK and SKF payloads with Wireshark's GcryptCipher, where it has that (RFC 7296, 3.14; RFC 5282; RFC 7634).

With an AEAD cipher the tag says whether the key fits. For the others, whose ICV is an HMAC, there is nothing in Wireshark's Lua to
compute it with: what comes out is looked at instead, and marked as not checked. ]]
local algorithms = require("ikex.algorithms")
local compat = require("ikex.compat")
local names = require("ikex.names")

local cipher = {}

local function bytes(data)
    return ByteArray.new(data, true)
end

local function little_endian64(number)
    local out = {}
    for _ = 1, 8 do
        local low = number % 256
        out[#out + 1] = string.char(low)
        number = (number - low) / 256
    end
    return table.concat(out)
end

local function open_cipher(algorithm, key)
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

--- Which algorithm a key set is for, given what the IKE SA negotiated; or nil and why it can open nothing.
function cipher.algorithm(keys, suite)
    local number = keys.encryption or (suite and suite.encryption)
    if not number then
        return nil, "neither the key file nor the capture says which cipher the keys are for"
    end
    local algorithm = algorithms.encryption[number]
    if not algorithm then
        return nil, names.of(names.encryption, number) .. " is not decrypted here"
    end
    local size = #keys.ei - algorithm.salt
    for _, known in ipairs(algorithm.keys) do
        if known == size and #keys.er == #keys.ei then
            return algorithm
        end
    end
    return nil, string.format("SK_e has %d bytes, which is no key of %s", #keys.ei, names.of(names.encryption, number))
end

--- Bytes of the ICV with a cipher that has none of its own; nil: not known.
function cipher.icv(algorithm, keys, suite)
    if algorithm.icv > 0 then
        return algorithm.icv
    elseif keys.icv then
        return keys.icv
    end
    return algorithms.icv[keys.integrity or (suite and suite.integrity) or -1]
end

local function decrypt(algorithm, sk, associated, iv, sealed, tag)
    if algorithm.mode == "NULL" then
        return sealed
    end
    local key, salt = sk:sub(1, #sk - algorithm.salt), sk:sub(#sk - algorithm.salt + 1)
    local handle = open_cipher(algorithm, key)
    if algorithm.mode == "CTR" then
        handle:setctr(bytes(salt .. iv .. "\0\0\0\1"), 16)
    else
        handle:setiv(bytes(salt .. iv))
    end
    if algorithm.mode == "CCM" then
        local lengths = little_endian64(#sealed) .. little_endian64(#associated) .. little_endian64(#tag)
        handle:ctl(GCRYCTL_SET_CCM_LENGTHS, bytes(lengths))
    end
    if tag then
        handle:authenticate(bytes(associated))
    end
    local clear = handle:decrypt(nil, bytes(sealed))
    if tag and handle:checktag(bytes(tag)) ~= 0 then
        return nil
    end
    return clear:raw()
end

--- Open the encrypted payload that ends `data` (a whole message), whose IV begins at position `start`.
-- The chain of payloads without padding, and whether the tag was checked; nil if the key does not fit.
function cipher.open(algorithm, keys, suite, data, start, from_initiator)
    local icv = cipher.icv(algorithm, keys, suite)
    if not compat.has_ciphers or not icv then
        return nil
    end
    local behind_iv, last = start + algorithm.iv, #data - icv
    local size = last - behind_iv + 1
    if size < 1 or size % algorithm.block ~= 0 then
        return nil
    end
    local aead = algorithm.icv > 0
    local ok, padded = pcall(
        decrypt,
        algorithm,
        from_initiator and keys.ei or keys.er,
        data:sub(1, start - 1),
        data:sub(start, behind_iv - 1),
        data:sub(behind_iv, last),
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
