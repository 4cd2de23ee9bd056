--[[ Decryption of IKEv1 messages with the encryption key of phase 1 (RFC 2409, appendix B).

All ciphers use CBC, and nothing but the plaintext shows whether the key is right. The IV of a message is the last block
before it in the same exchange; the first IV of an exchange is a hash. Messages may be lost or repeated, so all blocks
that can be the IV are tried, newest first: a wrong IV damages the first block, where the header of the first payload
is. ]]
local Cursor = require("ikex.cursor")
local cipher = require("ikex.cipher")
local hashes = require("ikex.crypto.hashes")
local message = require("ikex.message")
local names = require("ikex.names")
local sha512 = require("ikex.crypto.sha512")

local ikev1 = {}

local SA, KE, ID, HASH, FRAGMENT = 1, 4, 5, 8, message.FRAGMENT_V1

--- Payload type.
ikev1.SA = SA

local MAIN, AGGRESSIVE = 2, 4
-- Attributes of phase 1 (RFC 2409, appendix A).
local ENCRYPTION, HASH_ALGORITHM, AUTHENTICATION, GROUP, KEY_LENGTH = 1, 2, 3, 4, 14
local CIPHERS = {
    [1] = { name = "3DES", keys = { [8] = true }, block = 8 }, -- DES
    [5] = { name = "3DES", keys = { [24] = true }, block = 8 },
    [7] = { name = "AES", keys = { [16] = true, [24] = true, [32] = true }, block = 16 },
    [8] = { name = "CAMELLIA", keys = { [16] = true, [24] = true, [32] = true }, block = 16 },
}
local HASHES = {
    [1] = hashes.md5, [2] = hashes.sha1, [4] = hashes.sha256, [5] = sha512.sha384, [6] = sha512.sha512,
}
local MAX_BLOCKS = 16 -- of an exchange, that can be the IV of its next message

local function read_attributes(inner, attributes)
    while inner:remaining() > 0 do
        local kind, value = inner:u16(), inner:u16()
        if kind >= 0x8000 then
            attributes[kind - 0x8000] = value
        else
            inner:skip(value)
        end
    end
end

-- The attributes of each transform of an SA payload's body, by number (RFC 2408, 3.4 to 3.6).
local function list_transforms(body)
    local transforms = {}
    Cursor.attempt(function()
        local cursor = Cursor.new(body)
        cursor:skip(8) -- DOI, situation
        while cursor:remaining() > 0 do
            cursor:skip(2 + 2 + 2) -- header, proposal number, protocol
            local spi_size, count = cursor:u8(), cursor:u8()
            cursor:skip(spi_size)
            for _ = 1, count do
                cursor:skip(2)
                local inner = cursor:within(cursor:u16() - 4)
                inner:skip(4)
                transforms[#transforms + 1] = {}
                read_attributes(inner, transforms[#transforms])
            end
        end
    end)
    return transforms
end

-- The attributes of the first transform.
local function find_attributes(body)
    return list_transforms(body)[1] or {}
end

--- The proposals of an SA payload's body of phase 1, each in one line, as `ikeanalyze` describes them:
-- AES-CBC-256/SHA2-256/MODP-2048/PSK.
function ikev1.describe_proposals(body)
    local texts = {}
    for index, attributes in ipairs(list_transforms(body)) do
        local parts = {}
        for _, attribute in ipairs({ ENCRYPTION, HASH_ALGORITHM, GROUP, AUTHENTICATION }) do
            local value = attributes[attribute]
            local name = value and names.of_phase1(attribute, value)
            if name and attribute == ENCRYPTION and attributes[KEY_LENGTH] then
                name = string.format("%s-%.0f", name, attributes[KEY_LENGTH])
            end
            parts[#parts + 1] = name
        end
        texts[index] = table.concat(parts, "/")
    end
    return texts
end

--- Note what phase 1 negotiates, from its messages in the clear. `content`: of a message.
function ikev1.learn(sa, content)
    local state = sa.phase1 or {}
    sa.phase1 = state
    for _, payload in ipairs(content.payloads) do
        if payload.type == KE then
            state[content.from_initiator and "public_i" or "public_r"] = message.body(content.data, payload)
        elseif payload.type == SA and not content.from_initiator then
            state.attributes = find_attributes(message.body(content.data, payload))
        end
    end
end

-- The cipher, hash and first IV of an IKE SA; nil while a message of phase 1 is missing, or if they are not supported.
local function prepare(sa, keys)
    local state = sa.phase1
    if not state or not state.attributes or not state.public_i or not state.public_r then
        return nil
    end
    local algorithm = CIPHERS[state.attributes[ENCRYPTION]]
    local hash = HASHES[state.attributes[HASH_ALGORITHM]]
    if not algorithm or not hash or not algorithm.keys[#keys.key] then
        return nil
    end
    if not state.blocks then
        state.algorithm, state.hash, state.exchanges = algorithm, hash, {}
        state.hash_size = #hash("")
        state.blocks = { hash(state.public_i .. state.public_r):sub(1, algorithm.block) }
    end
    return state
end

-- RFC 2409 fills the last block with zeros. Some implementations add blocks of random bytes, of which the last one is
-- the length of the padding with or without itself.
local function is_padding(padding, block)
    return #padding <= block or (#padding - padding:byte(#padding)) % 256 <= 1
end

-- The length of the chain of payloads before the padding; nil if it is invalid.
local function find_chain_end(state, plaintext, exchange, first)
    if exchange == MAIN and first ~= ID or exchange ~= MAIN and exchange ~= AGGRESSIVE and first ~= HASH then
        return nil
    end
    local at, kind = 1, first
    while kind ~= 0 do
        local following, reserved, high, low = plaintext:byte(at, at + 3)
        local size = low and high * 256 + low
        if not size or reserved ~= 0 or size < 4 or at + size - 1 > #plaintext
            or kind == HASH and size ~= 4 + state.hash_size
            or (kind > 21 and kind < 128) or kind == 2 or kind == 3
        then
            return nil
        end
        at, kind = at + size, following
    end
    if at == 1 or not is_padding(plaintext:sub(at), state.algorithm.block) then
        return nil
    end
    return at - 1
end

local function xor(a, b)
    local list = { a:byte(1, -1) }
    for index = 1, #list do
        list[index] = string.char(bit.bxor(list[index], b:byte(index)))
    end
    return table.concat(list)
end

local function big_endian(number)
    return string.char(
        math.floor(number / 16777216), math.floor(number / 65536) % 256, math.floor(number / 256) % 256, number % 256
    )
end

--- Decrypt a message. Messages of an IKE SA must come in the order of the capture.
-- Returns the chain of payloads; nil if the key does not fit.
function ikev1.decrypt(sa, keys, data, head)
    local state = prepare(sa, keys)
    local ciphertext = data:sub(message.HEADER + 1)
    if not state or head.next == FRAGMENT or #ciphertext == 0 or #ciphertext % state.algorithm.block ~= 0 then
        return nil
    end
    local block = state.algorithm.block
    local blocks, candidates = state.blocks, {}
    if head.message_id ~= 0 or (head.exchange ~= MAIN and head.exchange ~= AGGRESSIVE) then
        blocks = state.exchanges[head.message_id] or {}
        state.exchanges[head.message_id] = blocks
    end
    for index = #blocks, 1, -1 do
        candidates[#candidates + 1] = blocks[index]
    end
    if blocks ~= state.blocks then
        for index = #state.blocks, 1, -1 do
            candidates[#candidates + 1] =
                state.hash(state.blocks[index] .. big_endian(head.message_id)):sub(1, block)
        end
    end
    local raw = cipher.decrypt_cbc(state.algorithm.name, keys.key, ("\0"):rep(block), ciphertext)
    local plaintext
    for _, iv in ipairs(candidates) do
        local text = xor(raw:sub(1, block), iv) .. raw:sub(block + 1)
        local last = find_chain_end(state, text, head.exchange, head.next)
        if last then
            plaintext = text:sub(1, last)
            break
        end
    end
    local latest = ciphertext:sub(-block)
    for _, known in ipairs(blocks) do
        if known == latest then
            return plaintext
        end
    end
    blocks[#blocks + 1] = latest
    if #blocks > MAX_BLOCKS then
        table.remove(blocks, 2) -- in phase 1, the first one is the initial IV
    end
    return plaintext
end

return ikev1
