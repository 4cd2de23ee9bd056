--[[ ChaCha20-Poly1305 (RFC 8439). Poly1305 computes with digits of 13 bits, whose products a double can sum exactly. ]]
local band, bxor, rol, rshift = bit.band, bit.bxor, bit.rol, bit.rshift
local byte, char = string.byte, string.char

local chacha20poly1305 = {}

local CONSTANTS = "expand 32-byte k"

local function little_endian_words(data)
    local list = {}
    for at = 1, #data, 4 do
        local a, b, c, d = byte(data, at, at + 3)
        list[#list + 1] = ((d * 256 + c) * 256 + b) * 256 + a
    end
    return list
end

local function little_endian(word)
    return char(band(word, 255), band(rshift(word, 8), 255), band(rshift(word, 16), 255), rshift(word, 24))
end

-- The quarter round (2.1). Sums are not reduced: 20 rounds keep them below 2^40, and `bit` takes them modulo 2^32.
local function quarter_round(a, b, c, d)
    a = a + b
    d = rol(bxor(d, a), 16)
    c = c + d
    b = rol(bxor(b, c), 12)
    a = a + b
    d = rol(bxor(d, a), 8)
    c = c + d
    return a, rol(bxor(b, c), 7), c, d
end

-- A block of the key stream (2.3), as a list of words.
local function make_block(state)
    local x = {}
    for index = 1, 16 do
        x[index] = state[index]
    end
    for _ = 1, 10 do
        x[1], x[5], x[9], x[13] = quarter_round(x[1], x[5], x[9], x[13])
        x[2], x[6], x[10], x[14] = quarter_round(x[2], x[6], x[10], x[14])
        x[3], x[7], x[11], x[15] = quarter_round(x[3], x[7], x[11], x[15])
        x[4], x[8], x[12], x[16] = quarter_round(x[4], x[8], x[12], x[16])
        x[1], x[6], x[11], x[16] = quarter_round(x[1], x[6], x[11], x[16])
        x[2], x[7], x[12], x[13] = quarter_round(x[2], x[7], x[12], x[13])
        x[3], x[8], x[9], x[14] = quarter_round(x[3], x[8], x[9], x[14])
        x[4], x[5], x[10], x[15] = quarter_round(x[4], x[5], x[10], x[15])
    end
    for index = 1, 16 do
        x[index] = bit.tobit(x[index] + state[index])
    end
    return x
end

local function new_state(key, nonce)
    return little_endian_words(CONSTANTS .. key .. "\0\0\0\0" .. nonce)
end

local function xor_stream(state, data)
    local pieces = {}
    local size = #data
    local list = little_endian_words(data .. ("\0"):rep(-size % 64))
    for block = 0, #list / 16 - 1 do
        state[13] = block + 1
        local stream = make_block(state)
        for index = 1, 16 do
            local position = 16 * block + index
            pieces[position] = little_endian(bxor(list[position], stream[index]))
        end
    end
    return table.concat(pieces):sub(1, size)
end

-- The ten digits of 13 bits of a little-endian number of at most 17 bytes.
local function digits_of(data)
    local digits, rest, bits = {}, 0, 0
    for index = 1, #data do
        rest = rest + byte(data, index) * 2 ^ bits
        bits = bits + 8
        if bits >= 13 then
            digits[#digits + 1] = rest % 8192
            rest = (rest - rest % 8192) / 8192
            bits = bits - 13
        end
    end
    digits[#digits + 1] = rest
    for index = #digits + 1, 10 do
        digits[index] = 0
    end
    return digits
end

local function carry(digits)
    local rest = 0
    for index = 1, 10 do
        local sum = digits[index] + rest
        digits[index] = sum % 8192
        rest = (sum - digits[index]) / 8192
    end
    digits[1] = digits[1] + 5 * rest -- 2^130 is 5 modulo the prime
end

-- The remainder of a sum modulo 2^130 - 5, fully reduced.
local function reduce(digits)
    carry(digits)
    carry(digits)
    local plus5, rest = {}, 5
    for index = 1, 10 do
        local sum = digits[index] + rest
        plus5[index] = sum % 8192
        rest = (sum - plus5[index]) / 8192
    end
    return rest > 0 and plus5 or digits
end

--- The tag of Poly1305 (2.5) with a one-time key of 32 bytes.
function chacha20poly1305.authenticate(key, data)
    local clamped = {}
    for index = 1, 16 do
        local mask = (index % 4 == 0 and 15) or (index > 4 and index % 4 == 1 and 252) or 255
        clamped[index] = char(band(byte(key, index), mask))
    end
    local r = digits_of(table.concat(clamped))
    local h = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
    for at = 1, #data, 16 do
        local block = digits_of(data:sub(at, at + 15) .. "\1")
        for index = 1, 10 do
            h[index] = h[index] + block[index]
        end
        local product = {}
        for index = 1, 10 do
            local sum = 0
            for other = 1, index do
                sum = sum + h[other] * r[index - other + 1]
            end
            local high = 0
            for other = index + 1, 10 do
                high = high + h[other] * r[index - other + 11]
            end
            product[index] = sum + 5 * high
        end
        h = product
        carry(h)
    end
    h = reduce(h)
    local tag, rest, bits, sum_carry, at = {}, 0, 0, 0, 1
    for index = 1, 16 do
        while bits < 8 do
            rest = rest + h[at] * 2 ^ bits
            bits, at = bits + 13, at + 1
        end
        local sum = rest % 256 + byte(key, 16 + index) + sum_carry
        rest, bits = (rest - rest % 256) / 256, bits - 8
        tag[index] = char(sum % 256)
        sum_carry = sum >= 256 and 1 or 0
    end
    return table.concat(tag)
end

local function pad(data)
    return data .. ("\0"):rep(-#data % 16)
end

--- Decrypt (2.8) with a key of 32 bytes and a nonce of 12; nil if the tag is wrong.
function chacha20poly1305.decrypt(key, nonce, associated, data, tag)
    local state = new_state(key, nonce)
    local first = make_block(state)
    local one_time_key = {}
    for index = 1, 8 do
        one_time_key[index] = little_endian(first[index])
    end
    local lengths = little_endian(#associated) .. "\0\0\0\0" .. little_endian(#data) .. "\0\0\0\0"
    if chacha20poly1305.authenticate(table.concat(one_time_key), pad(associated) .. pad(data) .. lengths) ~= tag then
        return nil
    end
    return xor_stream(state, data)
end

return chacha20poly1305
