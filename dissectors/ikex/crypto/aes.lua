--[[ The block cipher AES (FIPS 197), with tables that combine the S-box with the mixing of columns. They are built when
a message is decrypted for the first time. ]]
local words = require("ikex.crypto.words")

local band, bxor, lshift, rol, ror, rshift = bit.band, bit.bxor, bit.lshift, bit.rol, bit.ror, bit.rshift

local aes = {}

local sbox, inverse = {}, {}
-- T1 to T4 encrypt: the column that a byte of row 0 to 3 contributes; U1 to U4 decrypt.
local T1, T2, T3, T4 = {}, {}, {}, {}
local U1, U2, U3, U4 = {}, {}, {}, {}

local function double(value)
    return value < 128 and value * 2 or bxor(value * 2, 0x11b)
end

local function build_tables()
    -- p runs through all elements but 0 as powers of 3, q through their inverses (FIPS 197, 5.1.1)
    local p, q = 1, 1
    repeat
        p = bxor(p, double(p))
        q = bxor(q, lshift(q, 1))
        q = bxor(q, lshift(q, 2))
        q = band(bxor(q, lshift(q, 4)), 255)
        if q >= 128 then
            q = bxor(q, 9)
        end
        local rotated = q * 257 -- twice the byte, so that shifting rotates it
        sbox[p] = band(
            bxor(q, rshift(rotated, 7), rshift(rotated, 6), rshift(rotated, 5), rshift(rotated, 4), 0x63), 255
        )
    until p == 1
    sbox[0] = 0x63
    for value = 0, 255 do
        inverse[sbox[value]] = value
    end
    for value = 0, 255 do
        local s = sbox[value]
        local s2 = double(s)
        local column = bxor(lshift(s2, 24), lshift(s, 16), lshift(s, 8), bxor(s2, s))
        T1[value], T2[value], T3[value], T4[value] = column, ror(column, 8), ror(column, 16), ror(column, 24)
        local i = inverse[value]
        local i2 = double(i)
        local i4 = double(i2)
        local i8 = double(i4)
        column = bxor(
            lshift(bxor(i8, i4, i2), 24), lshift(bxor(i8, i), 16), lshift(bxor(i8, i4, i), 8), bxor(i8, i2, i)
        )
        U1[value], U2[value], U3[value], U4[value] = column, ror(column, 8), ror(column, 16), ror(column, 24)
    end
end

local function substitute(word)
    return bxor(
        lshift(sbox[rshift(word, 24)], 24), lshift(sbox[band(rshift(word, 16), 255)], 16),
        lshift(sbox[band(rshift(word, 8), 255)], 8), sbox[band(word, 255)]
    )
end

-- The round keys, from index 0, and the index of the last round's (FIPS 197, 5.2).
local function expand(key)
    local size = #key / 4
    local last = 4 * (size + 6)
    local keys = {}
    for index = 0, size - 2, 2 do
        keys[index], keys[index + 1] = words.read2(key, 4 * index + 1)
    end
    local constant = 1
    for index = size, last + 3 do
        local word = keys[index - 1]
        if index % size == 0 then
            word = bxor(substitute(rol(word, 8)), lshift(constant, 24))
            constant = double(constant)
        elseif size == 8 and index % 8 == 4 then
            word = substitute(word)
        end
        keys[index] = bxor(keys[index - size], word)
    end
    return keys, last
end

-- The round keys of the equivalent inverse cipher (FIPS 197, 5.3.5).
local function invert(keys, last)
    local inverted = {}
    for round = 0, last, 4 do
        for column = 0, 3 do
            local word = keys[last - round + column]
            if round > 0 and round < last then
                word = bxor(
                    U1[sbox[rshift(word, 24)]], U2[sbox[band(rshift(word, 16), 255)]],
                    U3[sbox[band(rshift(word, 8), 255)]], U4[sbox[band(word, 255)]]
                )
            end
            inverted[round + column] = word
        end
    end
    return inverted
end

--- A cipher with a key of 16, 24 or 32 bytes: {size, encrypt, decrypt}. Both functions take and return the four words
-- of a block.
function aes.new(key)
    if not sbox[0] then
        build_tables()
    end
    local keys, last = expand(key)
    local inverted
    local cipher = { size = 16 }

    function cipher.encrypt(a, b, c, d)
        local k = keys
        a, b, c, d = bxor(a, k[0]), bxor(b, k[1]), bxor(c, k[2]), bxor(d, k[3])
        for i = 4, last - 4, 4 do
            a, b, c, d =
                bxor(
                    T1[rshift(a, 24)], T2[band(rshift(b, 16), 255)],
                    T3[band(rshift(c, 8), 255)], T4[band(d, 255)], k[i]
                ),
                bxor(
                    T1[rshift(b, 24)], T2[band(rshift(c, 16), 255)],
                    T3[band(rshift(d, 8), 255)], T4[band(a, 255)], k[i + 1]
                ),
                bxor(
                    T1[rshift(c, 24)], T2[band(rshift(d, 16), 255)],
                    T3[band(rshift(a, 8), 255)], T4[band(b, 255)], k[i + 2]
                ),
                bxor(
                    T1[rshift(d, 24)], T2[band(rshift(a, 16), 255)],
                    T3[band(rshift(b, 8), 255)], T4[band(c, 255)], k[i + 3]
                )
        end
        local function final(w, x, y, z, i)
            return bxor(
                lshift(sbox[rshift(w, 24)], 24), lshift(sbox[band(rshift(x, 16), 255)], 16),
                lshift(sbox[band(rshift(y, 8), 255)], 8), sbox[band(z, 255)], k[last + i]
            )
        end
        return final(a, b, c, d, 0), final(b, c, d, a, 1), final(c, d, a, b, 2), final(d, a, b, c, 3)
    end

    function cipher.decrypt(a, b, c, d)
        inverted = inverted or invert(keys, last)
        local k = inverted
        a, b, c, d = bxor(a, k[0]), bxor(b, k[1]), bxor(c, k[2]), bxor(d, k[3])
        for i = 4, last - 4, 4 do
            a, b, c, d =
                bxor(
                    U1[rshift(a, 24)], U2[band(rshift(d, 16), 255)],
                    U3[band(rshift(c, 8), 255)], U4[band(b, 255)], k[i]
                ),
                bxor(
                    U1[rshift(b, 24)], U2[band(rshift(a, 16), 255)],
                    U3[band(rshift(d, 8), 255)], U4[band(c, 255)], k[i + 1]
                ),
                bxor(
                    U1[rshift(c, 24)], U2[band(rshift(b, 16), 255)],
                    U3[band(rshift(a, 8), 255)], U4[band(d, 255)], k[i + 2]
                ),
                bxor(
                    U1[rshift(d, 24)], U2[band(rshift(c, 16), 255)],
                    U3[band(rshift(b, 8), 255)], U4[band(a, 255)], k[i + 3]
                )
        end
        local function final(w, x, y, z, i)
            return bxor(
                lshift(inverse[rshift(w, 24)], 24), lshift(inverse[band(rshift(x, 16), 255)], 16),
                lshift(inverse[band(rshift(y, 8), 255)], 8), inverse[band(z, 255)], k[last + i]
            )
        end
        return final(a, d, c, b, 0), final(b, a, d, c, 1), final(c, b, a, d, 2), final(d, c, b, a, 3)
    end

    return cipher
end

return aes
