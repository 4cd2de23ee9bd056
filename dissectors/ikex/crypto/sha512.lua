--[[ SHA-384 and SHA-512 (FIPS 180-4). A value of 64 bits is two words. The constants of SHA-256 are the first words of
these. ]]
local compat = require("ikex.compat")
local words = require("ikex.crypto.words")

local band, bnot, bxor, lshift, rshift, tobit = bit.band, bit.bnot, bit.bxor, bit.lshift, bit.rshift, bit.tobit

local sha512 = {}

local function parse(text)
    local list = {}
    for digits in text:gmatch("%x%x%x%x%x%x%x%x") do
        list[#list + 1] = tonumber(digits, 16)
    end
    return list
end

--- Both words of each constant: the first 64 bits of the fractions of the cube roots of the first 80 primes (4.2.3).
sha512.CONSTANTS = parse(
    "428a2f98d728ae227137449123ef65cdb5c0fbcfec4d3b2fe9b5dba58189dbbc3956c25bf348b53859f111f1b605d019"
        .. "923f82a4af194f9bab1c5ed5da6d8118d807aa98a303024212835b0145706fbe243185be4ee4b28c550c7dc3d5ffb4e2"
        .. "72be5d74f27b896f80deb1fe3b1696b19bdc06a725c71235c19bf174cf692694e49b69c19ef14ad2efbe4786384f25e3"
        .. "0fc19dc68b8cd5b5240ca1cc77ac9c652de92c6f592b02754a7484aa6ea6e4835cb0a9dcbd41fbd476f988da831153b5"
        .. "983e5152ee66dfaba831c66d2db43210b00327c898fb213fbf597fc7beef0ee4c6e00bf33da88fc2d5a79147930aa725"
        .. "06ca6351e003826f142929670a0e6e7027b70a8546d22ffc2e1b21385c26c9264d2c6dfc5ac42aed53380d139d95b3df"
        .. "650a73548baf63de766a0abb3c77b2a881c2c92e47edaee692722c851482353ba2bfe8a14cf10364a81a664bbc423001"
        .. "c24b8b70d0f89791c76c51a30654be30d192e819d6ef5218d69906245565a910f40e35855771202a106aa07032bbd1b8"
        .. "19a4c116b8d2d0c81e376c085141ab532748774cdf8eeb9934b0bcb5e19b48a8391c0cb3c5c95a634ed8aa4ae3418acb"
        .. "5b9cca4f7763e373682e6ff3d6b2b8a3748f82ee5defb2fc78a5636f43172f6084c87814a1f0ab728cc702081a6439ec"
        .. "90befffa23631e28a4506cebde82bde9bef9a3f7b2c67915c67178f2e372532bca273eceea26619cd186b8c721c0c207"
        .. "eada7dd6cde0eb1ef57d4f7fee6ed17806f067aa72176fba0a637dc5a2c898a6113f9804bef90dae1b710b35131c471b"
        .. "28db77f523047d8432caab7b40c724933c9ebe0a15c9bebc431d67c49c100d4c4cc5d4becb3e42b6597f299cfc657e2a"
        .. "5fcb6fab3ad6faec6c44198c4a475817"
)

--- Both words of the initial values: of the square roots of the first 8 primes, and of the next 8 (5.3.5, 5.3.4).
sha512.INITIAL_512 = parse(
    "6a09e667f3bcc908bb67ae8584caa73b3c6ef372fe94f82ba54ff53a5f1d36f1510e527fade682d19b05688c2b3e6c1f"
        .. "1f83d9abfb41bd6b5be0cd19137e2179"
)
sha512.INITIAL_384 = parse(
    "cbbb9d5dc1059ed8629a292a367cd5079159015a3070dd17152fecd8f70e593967332667ffc00b318eb44a8768581511"
        .. "db0c2e0d64f98fa747b5481dbefa4fa4"
)

local WORD = 4294967296

local function compress(state, data, at, w)
    local K = sha512.CONSTANTS
    for index = 1, 32, 4 do
        w[index], w[index + 1], w[index + 2], w[index + 3] = words.read4(data, at + 4 * (index - 1))
    end
    for index = 33, 160, 2 do
        local h, l = w[index - 30], w[index - 29]
        local s0h = bxor(rshift(h, 1), lshift(l, 31), rshift(h, 8), lshift(l, 24), rshift(h, 7))
        local s0l = bxor(rshift(l, 1), lshift(h, 31), rshift(l, 8), lshift(h, 24), rshift(l, 7), lshift(h, 25))
        h, l = w[index - 4], w[index - 3]
        local s1h = bxor(rshift(h, 19), lshift(l, 13), rshift(l, 29), lshift(h, 3), rshift(h, 6))
        local s1l = bxor(rshift(l, 19), lshift(h, 13), rshift(h, 29), lshift(l, 3), rshift(l, 6), lshift(h, 26))
        local low = w[index - 31] + s0l % WORD + w[index - 13] + s1l % WORD
        w[index + 1] = low % WORD
        w[index] = tobit(w[index - 32] + s0h + w[index - 14] + s1h + (low - w[index + 1]) / WORD)
    end
    local ah, al, bh, bl, ch, cl, dh, dl, eh, el, fh, fl, gh, gl, hh, hl = compat.unpack(state)
    for index = 1, 160, 2 do
        local s1h = bxor(rshift(eh, 14), lshift(el, 18), rshift(eh, 18), lshift(el, 14), rshift(el, 9), lshift(eh, 23))
        local s1l = bxor(rshift(el, 14), lshift(eh, 18), rshift(el, 18), lshift(eh, 14), rshift(eh, 9), lshift(el, 23))
        local low = hl + s1l % WORD + bxor(band(el, fl), band(bnot(el), gl)) % WORD + K[index + 1] + w[index + 1]
        local t1l = low % WORD
        local t1h = hh + s1h + bxor(band(eh, fh), band(bnot(eh), gh)) + K[index] + w[index] + (low - t1l) / WORD
        local s0h = bxor(rshift(ah, 28), lshift(al, 4), rshift(al, 2), lshift(ah, 30), rshift(al, 7), lshift(ah, 25))
        local s0l = bxor(rshift(al, 28), lshift(ah, 4), rshift(ah, 2), lshift(al, 30), rshift(ah, 7), lshift(al, 25))
        local t2l = s0l % WORD + bxor(band(al, bl), band(al, cl), band(bl, cl)) % WORD
        local t2h = s0h + bxor(band(ah, bh), band(ah, ch), band(bh, ch))
        hh, hl, gh, gl, fh, fl = gh, gl, fh, fl, eh, el
        low = dl + t1l
        el = low % WORD
        eh = tobit(dh + t1h + (low - el) / WORD)
        dh, dl, ch, cl, bh, bl = ch, cl, bh, bl, ah, al
        low = t1l + t2l
        al = low % WORD
        ah = tobit(t1h + t2h + (low - al) / WORD)
    end
    local sums = { ah, al, bh, bl, ch, cl, dh, dl, eh, el, fh, fl, gh, gl, hh, hl }
    for index = 1, 16, 2 do
        local low = state[index + 1] + sums[index + 1]
        state[index + 1] = low % WORD
        state[index] = tobit(state[index] + sums[index] + (low - state[index + 1]) / WORD)
    end
end

local function digest(initial, data, size)
    local state, w = {}, {}
    for index = 1, 16 do
        state[index] = initial[index]
    end
    data = data .. "\128" .. ("\0"):rep((111 - #data) % 128 + 12) .. words.write1(8 * #data)
    for at = 1, #data, 128 do
        compress(state, data, at, w)
    end
    local pieces = {}
    for index = 1, size / 4 do
        pieces[index] = words.write1(state[index])
    end
    return table.concat(pieces)
end

--- The 64 bytes of a SHA-512.
function sha512.sha512(data)
    return digest(sha512.INITIAL_512, data, 64)
end

--- The 48 bytes of a SHA-384.
function sha512.sha384(data)
    return digest(sha512.INITIAL_384, data, 48)
end

return sha512
