--[[ Words of 32 bits in big-endian order. Words that are read are not negative; those of `bit` are signed. `bit`
accepts both, so only sums have to care. ]]
local band, rshift = bit.band, bit.rshift
local byte, char = string.byte, string.char

local words = {}

--- Two words at position `at` of a string.
function words.read2(data, at)
    local a1, a2, a3, a4, b1, b2, b3, b4 = byte(data, at, at + 7)
    return ((a1 * 256 + a2) * 256 + a3) * 256 + a4, ((b1 * 256 + b2) * 256 + b3) * 256 + b4
end

--- Four words at position `at` of a string.
function words.read4(data, at)
    local a1, a2, a3, a4, b1, b2, b3, b4, c1, c2, c3, c4, d1, d2, d3, d4 = byte(data, at, at + 15)
    return ((a1 * 256 + a2) * 256 + a3) * 256 + a4, ((b1 * 256 + b2) * 256 + b3) * 256 + b4,
        ((c1 * 256 + c2) * 256 + c3) * 256 + c4, ((d1 * 256 + d2) * 256 + d3) * 256 + d4
end

--- The bytes of one word.
function words.write1(a)
    return char(rshift(a, 24), band(rshift(a, 16), 255), band(rshift(a, 8), 255), band(a, 255))
end

--- The bytes of four words.
function words.write4(a, b, c, d)
    return char(
        rshift(a, 24), band(rshift(a, 16), 255), band(rshift(a, 8), 255), band(a, 255),
        rshift(b, 24), band(rshift(b, 16), 255), band(rshift(b, 8), 255), band(b, 255),
        rshift(c, 24), band(rshift(c, 16), 255), band(rshift(c, 8), 255), band(c, 255),
        rshift(d, 24), band(rshift(d, 16), 255), band(rshift(d, 8), 255), band(d, 255)
    )
end

--- The bytes of two words.
function words.write2(a, b)
    return words.write1(a) .. words.write1(b)
end

return words
