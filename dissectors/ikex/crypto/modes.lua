--[[ Modes of operation of block ciphers: CBC, CTR with a counter of 32 bits, GCM (NIST SP 800-38D), CCM (RFC 3610). A
block cipher is {size, encrypt, decrypt}, as `aes.new` returns. ]]
local words = require("ikex.crypto.words")

local band, bxor, lshift, rshift = bit.band, bit.bxor, bit.lshift, bit.rshift
local read2, read4, write2, write4 = words.read2, words.read4, words.write2, words.write4
local concat = table.concat

local modes = {}

local function decrypt_cbc_64(cipher, iv, data)
    local pieces = {}
    local p, q = read2(iv, 1)
    for at = 1, #data - 7, 8 do
        local a, b = read2(data, at)
        local x, y = cipher.decrypt(a, b)
        pieces[#pieces + 1] = write2(bxor(x, p), bxor(y, q))
        p, q = a, b
    end
    return concat(pieces)
end

--- Decrypt whole blocks.
function modes.decrypt_cbc(cipher, iv, data)
    if cipher.size == 8 then
        return decrypt_cbc_64(cipher, iv, data)
    end
    local decrypt, pieces = cipher.decrypt, {}
    local p, q, r, s = read4(iv, 1)
    for at = 1, #data - 15, 16 do
        local a, b, c, d = read4(data, at)
        local w, x, y, z = decrypt(a, b, c, d)
        pieces[#pieces + 1] = write4(bxor(w, p), bxor(x, q), bxor(y, r), bxor(z, s))
        p, q, r, s = a, b, c, d
    end
    return concat(pieces)
end

--- Encrypt or decrypt; `prefix`: the first 12 bytes of each counter block; `counter`: the number of the first block.
function modes.xor_counter_stream(cipher, prefix, counter, data)
    local encrypt, pieces = cipher.encrypt, {}
    local p, q, r = read4(prefix .. "\0\0\0\0", 1)
    local size = #data
    data = data .. ("\0"):rep(-size % 16)
    for at = 1, #data, 16 do
        local w, x, y, z = encrypt(p, q, r, counter)
        local a, b, c, d = read4(data, at)
        pieces[#pieces + 1] = write4(bxor(a, w), bxor(b, x), bxor(c, y), bxor(d, z))
        counter = counter + 1
    end
    return concat(pieces):sub(1, size)
end

-- reduction[n]: what n, shifted out of a value at its end, adds to the first word (SP 800-38D, 6.3).
local reduction = {}

local function shift_right(a, b, c, d)
    local carry = band(d, 1) == 1 and 0xe1000000 or 0
    return bxor(rshift(a, 1), carry), bxor(rshift(b, 1), lshift(a, 31)),
        bxor(rshift(c, 1), lshift(b, 31)), bxor(rshift(d, 1), lshift(c, 31))
end

local function build_reduction()
    for value = 0, 255 do
        local a, b, c, d = 0, 0, 0, value
        for _ = 1, 8 do
            a, b, c, d = shift_right(a, b, c, d)
        end
        reduction[value] = a
    end
end

-- The products of H with all values of the first byte: four tables of words.
local function multiples(a, b, c, d)
    local m1, m2, m3, m4 = { [0] = 0 }, { [0] = 0 }, { [0] = 0 }, { [0] = 0 }
    local power = 128
    while power >= 1 do
        m1[power], m2[power], m3[power], m4[power] = a, b, c, d
        a, b, c, d = shift_right(a, b, c, d)
        power = math.floor(power / 2)
    end
    power = 2
    while power <= 128 do
        for low = 1, power - 1 do
            m1[power + low] = bxor(m1[power], m1[low])
            m2[power + low] = bxor(m2[power], m2[low])
            m3[power + low] = bxor(m3[power], m3[low])
            m4[power + low] = bxor(m4[power], m4[low])
        end
        power = power * 2
    end
    return m1, m2, m3, m4
end

-- GHASH, a table of 256 products per key: sixteen steps for each block.
local function new_ghash(h1, h2, h3, h4)
    if not reduction[0] then
        build_reduction()
    end
    local m1, m2, m3, m4 = multiples(h1, h2, h3, h4)
    local R = reduction

    local function step(a, b, c, d, value)
        return bxor(rshift(a, 8), R[band(d, 255)], m1[value]), bxor(rshift(b, 8), lshift(a, 24), m2[value]),
            bxor(rshift(c, 8), lshift(b, 24), m3[value]), bxor(rshift(d, 8), lshift(c, 24), m4[value])
    end

    return function(data)
        local a, b, c, d = 0, 0, 0, 0
        for at = 1, #data, 16 do
            local p, q, r, s = read4(data, at)
            p, q, r, s = bxor(a, p), bxor(b, q), bxor(c, r), bxor(d, s)
            local value = band(s, 255)
            a, b, c, d = m1[value], m2[value], m3[value], m4[value]
            for shift = 8, 24, 8 do
                a, b, c, d = step(a, b, c, d, band(rshift(s, shift), 255))
            end
            for shift = 0, 24, 8 do
                a, b, c, d = step(a, b, c, d, band(rshift(r, shift), 255))
            end
            for shift = 0, 24, 8 do
                a, b, c, d = step(a, b, c, d, band(rshift(q, shift), 255))
            end
            for shift = 0, 24, 8 do
                a, b, c, d = step(a, b, c, d, band(rshift(p, shift), 255))
            end
        end
        return a, b, c, d
    end
end

local function pad(data)
    return data .. ("\0"):rep(-#data % 16)
end

--- Decrypt with a nonce of 12 bytes; nil if the tag, of 8 to 16 bytes, is wrong.
function modes.decrypt_gcm(cipher, nonce, associated, data, tag)
    if not cipher.ghash then
        cipher.ghash = new_ghash(cipher.encrypt(0, 0, 0, 0))
    end
    local lengths = write4(0, 8 * #associated, 0, 8 * #data)
    local hash = write4(cipher.ghash(pad(associated) .. pad(data) .. lengths))
    if modes.xor_counter_stream(cipher, nonce, 1, hash):sub(1, #tag) ~= tag then
        return nil
    end
    return modes.xor_counter_stream(cipher, nonce, 2, data)
end

--- Decrypt with a nonce of 11 bytes; nil if the tag is wrong. `associated`: fewer than 65,280 bytes, as IKE messages.
function modes.decrypt_ccm(cipher, nonce, associated, data, tag)
    local prefix = "\3" .. nonce -- the counter has 4 bytes
    local plaintext = modes.xor_counter_stream(cipher, prefix, 1, data)
    local flags = (#associated > 0 and 64 or 0) + (#tag - 2) / 2 * 8 + 3
    local blocks = string.char(flags) .. nonce .. words.write1(#data)
    if #associated > 0 then
        blocks = blocks .. pad(words.write1(#associated):sub(3) .. associated)
    end
    blocks = blocks .. pad(plaintext)
    local a, b, c, d = 0, 0, 0, 0
    for at = 1, #blocks, 16 do
        local p, q, r, s = read4(blocks, at)
        a, b, c, d = cipher.encrypt(bxor(a, p), bxor(b, q), bxor(c, r), bxor(d, s))
    end
    if modes.xor_counter_stream(cipher, prefix, 0, write4(a, b, c, d)):sub(1, #tag) ~= tag then
        return nil
    end
    return plaintext
end

return modes
