--[[ The block cipher Camellia (RFC 3713). Values of 64 bits are two words. ]]
local words = require("ikex.crypto.words")

local band, bnot, bor, bxor, lshift, rol, rshift =
    bit.band, bit.bnot, bit.bor, bit.bxor, bit.lshift, bit.rol, bit.rshift

local camellia = {}

-- SBOX1 (2.4.1)
local SBOX1 = "70822cecb327c0e5e4855735ea0cae4123ef6b934519a521ed0e4f4e1d6592bd86b8af8f7ceb1fce3e30dc5f5ec50b1a"
    .. "a6e139cad5475d3dd9015ad651566c4d8b0d9a66fbccb02d74122b20f0b18499df4ccbc2347e76056db7a931d11704d7"
    .. "14583a61de1b111c320f9c165318f222fe44cfb2c3b57a912408e8a860fc6950aad0a07da1896297545b1e95e0ff64d2"
    .. "10c40048a3f775db8a03e6da093fdd94875c8302cd4a90337367f6f39d7fbfe2529bd826c837c63b81966f4b13be632e"
    .. "e979a78c9f6ebc8e29f5f9b62ffdb4597898066ae74671bad425ab4288a28dfa7207b955f8eeac0a36492a683c38f1a4"
    .. "4028d37bbbc943c115e3adf477c7809e"
-- Sigma1 to Sigma6 (2.2), two words each
local SIGMA = {
    0xa09e667f, 0x3bcc908b, 0xb67ae858, 0x4caa73b2, 0xc6ef372f, 0xe94f82be,
    0x54ff53a5, 0xf1d36f1c, 0x10e527fa, 0xde682d1d, 0xb05688c2, 0xb3e6c1fd,
}

local s1, s2, s3, s4 = {}, {}, {}, {}

local function build_boxes()
    for value = 0, 255 do
        s1[value] = tonumber(SBOX1:sub(2 * value + 1, 2 * value + 2), 16)
    end
    for value = 0, 255 do
        local double = s1[value] * 257 -- twice the byte, so that shifting rotates it
        s2[value] = band(rshift(double, 7), 255)
        s3[value] = band(rshift(double, 1), 255)
        s4[value] = s1[band(rshift(value * 257, 7), 255)]
    end
end

-- The function F (2.4.1).
local function f(a, b, key_a, key_b)
    a, b = bxor(a, key_a), bxor(b, key_b)
    local t1, t2 = s1[rshift(a, 24)], s2[band(rshift(a, 16), 255)]
    local t3, t4 = s3[band(rshift(a, 8), 255)], s4[band(a, 255)]
    local t5, t6 = s2[rshift(b, 24)], s3[band(rshift(b, 16), 255)]
    local t7, t8 = s4[band(rshift(b, 8), 255)], s1[band(b, 255)]
    return bor(
        lshift(bxor(t1, t3, t4, t6, t7, t8), 24), lshift(bxor(t1, t2, t4, t5, t7, t8), 16),
        lshift(bxor(t1, t2, t3, t5, t6, t8), 8), bxor(t2, t3, t4, t5, t6, t7)
    ), bor(
        lshift(bxor(t1, t2, t6, t7, t8), 24), lshift(bxor(t2, t3, t5, t7, t8), 16),
        lshift(bxor(t3, t4, t5, t6, t8), 8), bxor(t1, t4, t5, t6, t7)
    )
end

-- FL and its inverse (2.4.2, 2.4.3).
local function fl(a, b, key_a, key_b)
    b = bxor(b, rol(band(a, key_a), 1))
    return bxor(a, bor(b, key_b)), b
end

local function fl_inverse(a, b, key_a, key_b)
    a = bxor(a, bor(b, key_b))
    return a, bxor(b, rol(band(a, key_a), 1))
end

-- Append the left (`half` 0) or right (1) half of four words, rotated left by `count` bits.
local function add_rotated(keys, quad, count, half)
    local shift, start = count % 32, math.floor(count / 32) + 2 * half
    for index = start, start + 1 do
        local word, following = quad[index % 4 + 1], quad[(index + 1) % 4 + 1]
        keys[#keys + 1] = shift == 0 and word or bor(lshift(word, shift), rshift(following, 32 - shift))
    end
end

local function feistel(d, first)
    for index = 0, 1 do
        local at = first + 2 * index
        local x, y = f(d[1 + 2 * index], d[2 + 2 * index], SIGMA[at], SIGMA[at + 1])
        local other = 2 - 2 * index
        d[other + 1], d[other + 2] = bxor(d[other + 1], x), bxor(d[other + 2], y)
    end
end

-- Rotations of the subkeys in order of use (2.2): name, bits, both halves or one.
local SHORT = {
    { "L", 0 }, { "A", 0 }, { "L", 15 }, { "A", 15 }, { "A", 30 }, { "L", 45 }, { "A", 45, 0 }, { "L", 60, 1 },
    { "A", 60 }, { "L", 77 }, { "L", 94 }, { "A", 94 }, { "L", 111 }, { "A", 111 },
}
local LONG = {
    { "L", 0 }, { "B", 0 }, { "R", 15 }, { "A", 15 }, { "R", 30 }, { "B", 30 }, { "L", 45 }, { "A", 45 }, { "L", 60 },
    { "R", 60 }, { "B", 60 }, { "L", 77 }, { "A", 77 }, { "R", 94 }, { "A", 94 }, { "L", 111 }, { "B", 111 },
}

-- The subkeys in order of use, two words each: kw1, kw2, six k, two ke, six k ... kw3, kw4.
local function expand(key)
    local l, r = { words.read4(key, 1) }, { 0, 0, 0, 0 }
    if #key == 24 then
        r[1], r[2] = words.read2(key, 17)
        r[3], r[4] = bnot(r[1]), bnot(r[2])
    elseif #key == 32 then
        r = { words.read4(key, 17) }
    end
    local a = { bxor(l[1], r[1]), bxor(l[2], r[2]), bxor(l[3], r[3]), bxor(l[4], r[4]) }
    feistel(a, 1)
    for index = 1, 4 do
        a[index] = bxor(a[index], l[index])
    end
    feistel(a, 5)
    local b = { bxor(a[1], r[1]), bxor(a[2], r[2]), bxor(a[3], r[3]), bxor(a[4], r[4]) }
    feistel(b, 9)
    local quads, keys = { L = l, R = r, A = a, B = b }, {}
    for _, rotation in ipairs(#key == 16 and SHORT or LONG) do
        for half = rotation[3] or 0, rotation[3] or 1 do
            add_rotated(keys, quads[rotation[1]], rotation[2], half)
        end
    end
    return keys
end

-- The subkeys for decryption (2.3.2): in reverse order of pairs, with kw1 and kw2 at the beginning again.
local function reverse(keys)
    local reversed = {}
    for at = #keys - 1, 1, -2 do
        reversed[#reversed + 1], reversed[#reversed + 2] = keys[at], keys[at + 1]
    end
    local last = #keys
    local function swap(x, y)
        reversed[x], reversed[x + 1], reversed[y], reversed[y + 1] =
            reversed[y], reversed[y + 1], reversed[x], reversed[x + 1]
    end
    swap(1, 3)
    swap(last - 3, last - 1)
    return reversed
end

local function run(keys, a, b, c, d)
    a, b, c, d = bxor(a, keys[1]), bxor(b, keys[2]), bxor(c, keys[3]), bxor(d, keys[4])
    local at, last = 5, #keys - 4
    while true do
        for _ = 1, 3 do
            local x, y = f(a, b, keys[at], keys[at + 1])
            c, d = bxor(c, x), bxor(d, y)
            x, y = f(c, d, keys[at + 2], keys[at + 3])
            a, b = bxor(a, x), bxor(b, y)
            at = at + 4
        end
        if at > last then
            break
        end
        a, b = fl(a, b, keys[at], keys[at + 1])
        c, d = fl_inverse(c, d, keys[at + 2], keys[at + 3])
        at = at + 4
    end
    return bxor(c, keys[at]), bxor(d, keys[at + 1]), bxor(a, keys[at + 2]), bxor(b, keys[at + 3])
end

--- A cipher with a key of 16, 24 or 32 bytes: {size, encrypt, decrypt}. Both functions take and return the four words
-- of a block.
function camellia.new(key)
    if not s1[0] then
        build_boxes()
    end
    local keys = expand(key)
    local reversed
    return {
        size = 16,
        encrypt = function(a, b, c, d)
            return run(keys, a, b, c, d)
        end,
        decrypt = function(a, b, c, d)
            reversed = reversed or reverse(keys)
            return run(reversed, a, b, c, d)
        end,
    }
end

return camellia
