--[[ Checks of the data of a KE payload: sizes of public values by key exchange method, and for ML-KEM the input checks
of FIPS 203 (draft-ietf-ipsecme-ikev2-mlkem). ]]
local mlkem = {}

local byte = string.byte

local MODULUS = 3329 -- q, FIPS 203, 2.4
local SEED = 32 -- bytes of rho, at the end of an encapsulation key

--- Bytes of an encapsulation key and of a ciphertext, by method (FIPS 203, table 3).
local SETS = {
    [35] = { key = 800, ciphertext = 768 },
    [36] = { key = 1184, ciphertext = 1088 },
    [37] = { key = 1568, ciphertext = 1568 },
}

--- Bytes of a public value, by method (RFC 7296, 3.4; RFC 5903; RFC 5114; RFC 6954; RFC 8031).
local PUBLIC_VALUES = {
    [1] = 96, [2] = 128, [5] = 192, [14] = 256, [15] = 384, [16] = 512, [17] = 768, [18] = 1024, [19] = 64, [20] = 96,
    [21] = 132, [22] = 128, [23] = 256, [24] = 256, [25] = 48, [26] = 56, [27] = 56, [28] = 64, [29] = 96, [30] = 128,
    [31] = 32, [32] = 56,
}

--- Whether a method is ML-KEM.
function mlkem.is(method)
    return SETS[method] ~= nil
end

--- The type of the data: "encapsulation key" in an ML-KEM request, "ciphertext" in an ML-KEM response, "public value"
-- of other methods.
function mlkem.role(method, response)
    if not SETS[method] then
        return "public value"
    end
    return response and "ciphertext" or "encapsulation key"
end

--- The required number of bytes; nil: unknown for this method.
function mlkem.expected(method, response)
    local set = SETS[method]
    if not set then
        return PUBLIC_VALUES[method]
    end
    return response and set.ciphertext or set.key
end

--- The number of coefficients of an encapsulation key that are not below the modulus (FIPS 203, 7.2). 0: check passed.
function mlkem.above_modulus(key)
    local above = 0
    -- three bytes hold two coefficients, the lower bits first
    for at = 1, #key - SEED - 2, 3 do
        local low, middle, high = byte(key, at, at + 2)
        local nibble = middle % 16
        if low + nibble * 256 >= MODULUS then
            above = above + 1
        end
        if (middle - nibble) / 16 + high * 16 >= MODULUS then
            above = above + 1
        end
    end
    return above
end

return mlkem
