--[[ The hash functions MD5 (RFC 1321), SHA-1 and SHA-256 (FIPS 180-4). ]]
local sha512 = require("ikex.crypto.sha512")
local words = require("ikex.crypto.words")

local band, bnot, bor, bxor, rol, ror, rshift, tobit =
    bit.band, bit.bnot, bit.bor, bit.bxor, bit.rol, bit.ror, bit.rshift, bit.tobit
local byte, char = string.byte, string.char

local hashes = {}

-- The data with padding, and its length in bits at the end, as 8 bytes.
local function pad(data, length)
    return data .. "\128" .. ("\0"):rep((55 - #data) % 64) .. length
end

local function compress_256(state, data, at, w)
    local K = sha512.CONSTANTS
    for index = 1, 16, 4 do
        w[index], w[index + 1], w[index + 2], w[index + 3] = words.read4(data, at + 4 * (index - 1))
    end
    for index = 17, 64 do
        local x, y = w[index - 15], w[index - 2]
        w[index] = tobit(
            w[index - 16] + bxor(ror(x, 7), ror(x, 18), rshift(x, 3))
                + w[index - 7] + bxor(ror(y, 17), ror(y, 19), rshift(y, 10))
        )
    end
    local a, b, c, d, e, f, g, h = state[1], state[2], state[3], state[4], state[5], state[6], state[7], state[8]
    for index = 1, 64 do
        local t1 = h + bxor(ror(e, 6), ror(e, 11), ror(e, 25)) + bxor(g, band(e, bxor(f, g)))
            + K[2 * index - 1] + w[index]
        local t2 = bxor(ror(a, 2), ror(a, 13), ror(a, 22)) + bor(band(a, b), band(c, bor(a, b)))
        h, g, f, e, d, c, b, a = g, f, e, tobit(d + t1), c, b, a, tobit(t1 + t2)
    end
    state[1], state[2], state[3], state[4] =
        tobit(state[1] + a), tobit(state[2] + b), tobit(state[3] + c), tobit(state[4] + d)
    state[5], state[6], state[7], state[8] =
        tobit(state[5] + e), tobit(state[6] + f), tobit(state[7] + g), tobit(state[8] + h)
end

--- The 32 bytes of a SHA-256.
function hashes.sha256(data)
    local state, w = {}, {}
    for index = 1, 8 do
        state[index] = sha512.INITIAL_512[2 * index - 1]
    end
    data = pad(data, "\0\0\0\0" .. words.write1(8 * #data))
    for at = 1, #data, 64 do
        compress_256(state, data, at, w)
    end
    return words.write4(state[1], state[2], state[3], state[4]) .. words.write4(state[5], state[6], state[7], state[8])
end

--- The 20 bytes of a SHA-1.
function hashes.sha1(data)
    local h1, h2, h3, h4, h5 = 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0
    local w = {}
    data = pad(data, "\0\0\0\0" .. words.write1(8 * #data))
    for at = 1, #data, 64 do
        for index = 1, 16, 4 do
            w[index], w[index + 1], w[index + 2], w[index + 3] = words.read4(data, at + 4 * (index - 1))
        end
        for index = 17, 80 do
            w[index] = rol(bxor(w[index - 3], w[index - 8], w[index - 14], w[index - 16]), 1)
        end
        local a, b, c, d, e = h1, h2, h3, h4, h5
        for index = 1, 80 do
            local f, k
            if index <= 20 then
                f, k = bxor(d, band(b, bxor(c, d))), 0x5a827999
            elseif index <= 40 then
                f, k = bxor(b, c, d), 0x6ed9eba1
            elseif index <= 60 then
                f, k = bor(band(b, c), band(d, bor(b, c))), 0x8f1bbcdc
            else
                f, k = bxor(b, c, d), 0xca62c1d6
            end
            a, b, c, d, e = tobit(rol(a, 5) + f + e + k + w[index]), a, rol(b, 30), c, d
        end
        h1, h2, h3, h4, h5 = tobit(h1 + a), tobit(h2 + b), tobit(h3 + c), tobit(h4 + d), tobit(h5 + e)
    end
    return words.write4(h1, h2, h3, h4) .. words.write1(h5)
end

local function little_endian(word)
    return char(band(word, 255), band(rshift(word, 8), 255), band(rshift(word, 16), 255), rshift(word, 24))
end

local MD5_SHIFTS = { { 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 }, { 6, 10, 15, 21 } }

--- The 16 bytes of an MD5.
function hashes.md5(data)
    local h1, h2, h3, h4 = 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476
    data = pad(data, little_endian(8 * #data) .. "\0\0\0\0")
    for at = 1, #data, 64 do
        local a, b, c, d = h1, h2, h3, h4
        for index = 0, 63 do
            local round = math.floor(index / 16)
            local f, position
            if round == 0 then
                f, position = bxor(d, band(b, bxor(c, d))), index
            elseif round == 1 then
                f, position = bxor(c, band(d, bxor(b, c))), (5 * index + 1) % 16
            elseif round == 2 then
                f, position = bxor(b, c, d), (3 * index + 5) % 16
            else
                f, position = bxor(c, bor(b, bnot(d))), 7 * index % 16
            end
            local p, q, r, s = byte(data, at + 4 * position, at + 4 * position + 3)
            local word = ((s * 256 + r) * 256 + q) * 256 + p
            local sum = tobit(a + f + math.floor(math.abs(math.sin(index + 1)) * 4294967296) + word)
            a, d, c, b = d, c, b, tobit(b + rol(sum, MD5_SHIFTS[round + 1][index % 4 + 1]))
        end
        h1, h2, h3, h4 = tobit(h1 + a), tobit(h2 + b), tobit(h3 + c), tobit(h4 + d)
    end
    return little_endian(h1) .. little_endian(h2) .. little_endian(h3) .. little_endian(h4)
end

return hashes
