--[[ The block cipher 3DES (FIPS 46-3, NIST SP 800-67), and DES as 3DES with three equal keys. ]]
local band, bor, bxor, lshift, rol, rshift = bit.band, bit.bor, bit.bxor, bit.lshift, bit.rol, bit.rshift

local des = {}

-- The S-boxes, a hexadecimal digit for each entry: four rows of 16 columns.
local SBOXES = {
    "e4d12fb83a6c59070f74e2d1a6cb953841e8d62bfc973a50fc8249175b3ea06d",
    "f18e6b34972dc05a3d47f28ec01a69b50e7ba4d158c6932fd8a13f42b67c05e9",
    "a09e63f51dc7b428d709346a285ecbf1d6498f30b12c5ae71ad069874fe3b52c",
    "7de3069a1285bc4fd8b56f03472c1ae9a690cb7df13e52843f06a1d8945bc72e",
    "2c417ab6853fd0e9eb2c47d150fa3986421bad78f9c5630eb8c71e2d6f09a453",
    "c1af92680d34e75baf427c9561de0b389ef528c3704a1db6432c95fabe17608d",
    "4b2ef08d3c975a61d0b7491ae35c2f8614bdc37eaf6805926bd814a7950fe23c",
    "d2846fb1a93e50c71fd8a374c56b0e927b419ce206adf35821e74a8dfc90356b",
}
-- Permutations: of each bit of the result, from the highest, the number of its source, from 1.
local P = {
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10,
    2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6, 22, 11, 4, 25,
}
local PC1 = {
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44, 36,
    63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12, 4,
}
local PC2 = {
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2,
    41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
}
local SHIFTS = { 1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1 }

-- Of each S-box: by its 6 input bits, the output after the permutation P.
local boxes = {}

local function build_boxes()
    local to = {} -- the place of each bit after P
    for place, source in ipairs(P) do
        to[source] = place
    end
    for number, digits in ipairs(SBOXES) do
        local box = {}
        for input = 0, 63 do
            local row = bor(band(rshift(input, 4), 2), band(input, 1))
            local column = band(rshift(input, 1), 15)
            local value = tonumber(digits:sub(row * 16 + column + 1, row * 16 + column + 1), 16)
            local word = 0
            for index = 1, 4 do
                if band(rshift(value, 4 - index), 1) == 1 then
                    word = bor(word, lshift(1, 32 - to[4 * (number - 1) + index]))
                end
            end
            box[input] = word
        end
        boxes[number] = box
    end
end

local function bits_of(data)
    local bits = {}
    for index = 1, #data do
        local value = data:byte(index)
        for shift = 7, 0, -1 do
            bits[#bits + 1] = band(rshift(value, shift), 1)
        end
    end
    return bits
end

-- The keys of the 16 rounds, each eight groups of 6 bits.
local function schedule(key)
    local bits = bits_of(key)
    local halves = {}
    for place, source in ipairs(PC1) do
        halves[place] = bits[source]
    end
    local rounds, shift = {}, 0
    for round = 1, 16 do
        shift = shift + SHIFTS[round]
        local groups = {}
        for place, source in ipairs(PC2) do
            local half = source > 28 and 28 or 0
            local value = halves[half + (source - half - 1 + shift) % 28 + 1]
            local group = math.floor((place - 1) / 6) + 1
            groups[group] = (groups[group] or 0) * 2 + value
        end
        rounds[round] = groups
    end
    return rounds
end

local function round_function(right, key)
    return bxor(
        boxes[1][bxor(band(rol(right, 5), 63), key[1])], boxes[2][bxor(band(rol(right, 9), 63), key[2])],
        boxes[3][bxor(band(rol(right, 13), 63), key[3])], boxes[4][bxor(band(rol(right, 17), 63), key[4])],
        boxes[5][bxor(band(rol(right, 21), 63), key[5])], boxes[6][bxor(band(rol(right, 25), 63), key[6])],
        boxes[7][bxor(band(rol(right, 29), 63), key[7])], boxes[8][bxor(band(rol(right, 1), 63), key[8])]
    )
end

-- Exchange the bits of `mask` in b with those `shift` places higher in a.
local function exchange(a, b, shift, mask)
    local difference = band(bxor(rshift(a, shift), b), mask)
    return bxor(a, lshift(difference, shift)), bxor(b, difference)
end

local function initial_permutation(a, b)
    a, b = exchange(a, b, 4, 0x0f0f0f0f)
    a, b = exchange(a, b, 16, 0x0000ffff)
    b, a = exchange(b, a, 2, 0x33333333)
    b, a = exchange(b, a, 8, 0x00ff00ff)
    return exchange(a, b, 1, 0x55555555)
end

local function final_permutation(a, b)
    a, b = exchange(a, b, 1, 0x55555555)
    b, a = exchange(b, a, 8, 0x00ff00ff)
    b, a = exchange(b, a, 2, 0x33333333)
    a, b = exchange(a, b, 16, 0x0000ffff)
    return exchange(a, b, 4, 0x0f0f0f0f)
end

-- The 16 rounds of DES without its first and last permutation.
local function run_rounds(left, right, keys, first, last, step)
    for round = first, last, step do
        left, right = right, bxor(left, round_function(right, keys[round]))
    end
    return right, left
end

--- 3DES with a key of 24 bytes, or DES with one of 8: {size, encrypt, decrypt}. Both functions take and return the two
-- words of a block.
function des.new(key)
    if not boxes[1] then
        build_boxes()
    end
    local k1 = schedule(key:sub(1, 8))
    local k2 = #key > 8 and schedule(key:sub(9, 16)) or k1
    local k3 = #key > 16 and schedule(key:sub(17, 24)) or k1
    local cipher = { size = 8 }

    function cipher.encrypt(a, b)
        a, b = initial_permutation(a, b)
        a, b = run_rounds(a, b, k1, 1, 16, 1)
        a, b = run_rounds(a, b, k2, 16, 1, -1)
        a, b = run_rounds(a, b, k3, 1, 16, 1)
        return final_permutation(a, b)
    end

    function cipher.decrypt(a, b)
        a, b = initial_permutation(a, b)
        a, b = run_rounds(a, b, k3, 16, 1, -1)
        a, b = run_rounds(a, b, k2, 1, 16, 1)
        a, b = run_rounds(a, b, k1, 16, 1, -1)
        return final_permutation(a, b)
    end

    return cipher
end

return des
