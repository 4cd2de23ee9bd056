--[[ SA payloads: proposals and their transforms (RFC 7296, 3.3; RFC 9370, 2.2.1). ]]
local names = require("ikex.names")

local proposals = {}

local byte = string.byte

--- Transform types.
proposals.ENCR, proposals.PRF, proposals.INTEG, proposals.KE = 1, 2, 3, 4

local SEQUENCE_NUMBERS, FIRST_ADDITIONAL, LAST_ADDITIONAL = 5, 6, 12
local IKE = 1 -- protocol
local NONE = 0 -- transform ID

local KEY_LENGTH = 14 -- transform attribute
local TRUNCATED = "truncated"

-- The key length in the attributes of a transform, from position `at` to `last`; nil if there is none. The second
-- result is the problem of an inconsistent list.
local function read_key_bits(body, at, last)
    local key_bits
    while at <= last do
        if at + 3 > last then
            return key_bits, TRUNCATED
        end
        local a, b, c, d = byte(body, at, at + 3)
        local kind, value = a * 256 + b, c * 256 + d
        at = at + 4
        if kind < 0x8000 then
            at = at + value
        elseif kind - 0x8000 == KEY_LENGTH then
            key_bits = value
        end
    end
    return key_bits, at > last + 1 and TRUNCATED or nil
end

-- Add the transforms from position `at` to `last` to a list. Returns the problem of an inconsistent list.
local function read_transforms(body, at, last, list)
    while at <= last do
        if at + 7 > last then
            return TRUNCATED
        end
        local high, low, kind, _, id_high, id_low = byte(body, at + 2, at + 7)
        local finish = at + high * 256 + low - 1
        if finish < at + 7 or finish > last then
            return TRUNCATED
        end
        local transform = { type = kind, id = id_high * 256 + id_low, key_bits = nil, first = at, last = finish }
        list[#list + 1] = transform
        local problem
        transform.key_bits, problem = read_key_bits(body, at + 8, finish)
        if problem then
            return problem
        end
        at = finish + 1
    end
    return nil
end

--- The proposals in the body of an SA payload: a list of {number, protocol, spi, transforms}, where
-- transforms are {type, id, key_bits, first, last}; the last two are positions in the body.
-- Returns the proposals before the first problem, and a description of the problem.
function proposals.read(body)
    local list, at, size = {}, 1, #body
    while at <= size do
        if at + 7 > size then
            return list, TRUNCATED
        end
        -- the first byte tells whether it is the last one, which also follows from the length
        local high, low, number, protocol, spi_size = byte(body, at + 2, at + 6)
        local finish = at + high * 256 + low - 1
        if finish > size or at + 7 + spi_size > finish then
            return list, TRUNCATED
        end
        local proposal = {
            number = number, protocol = protocol, spi = body:sub(at + 8, at + 7 + spi_size), transforms = {},
        }
        list[#list + 1] = proposal
        local problem = read_transforms(body, at + 8 + spi_size, finish, proposal.transforms)
        if problem then
            return list, problem
        end
        at = finish + 1
    end
    return list
end

--- The additional key exchanges of a proposal: a list of {slot, method} in order of slots, 1 to 7.
function proposals.additional(proposal)
    local by_slot = {}
    for _, transform in ipairs(proposal and proposal.transforms or {}) do
        if transform.type >= 6 and transform.type <= 12 and transform.id ~= 0 then
            by_slot[transform.type - 5] = transform.id
        end
    end
    local list = {}
    for slot = 1, 7 do
        if by_slot[slot] then
            list[#list + 1] = { slot = slot, method = by_slot[slot] }
        end
    end
    return list
end

--- Whether any of the proposals has an additional key exchange other than NONE.
function proposals.offer_additional(list)
    for _, proposal in ipairs(list) do
        if #proposals.additional(proposal) > 0 then
            return true
        end
    end
    return false
end

--- The algorithms of a proposal that protect IKE messages: {encryption, key_bits, integrity}; nil if it has no cipher.
function proposals.suite(proposal)
    local suite = { integrity = 0 }
    for _, transform in ipairs(proposal and proposal.transforms or {}) do
        if transform.type == 1 and not suite.encryption then
            suite.encryption, suite.key_bits = transform.id, transform.key_bits
        elseif transform.type == 3 then
            suite.integrity = transform.id
        end
    end
    return suite.encryption and suite or nil
end

-- Whether NONE as the only ID of a transform type means the same as no transform (RFC 7296, 3.3.3).
local function is_optional(kind)
    return kind == proposals.INTEG or kind == proposals.KE or kind >= FIRST_ADDITIONAL and kind <= LAST_ADDITIONAL
end

-- The order of transform types in descriptions.
local function rank(kind)
    local first = { [proposals.ENCR] = 1, [proposals.INTEG] = 2, [proposals.PRF] = 3, [proposals.KE] = 4 }
    return first[kind] or (kind == SEQUENCE_NUMBERS and LAST_ADDITIONAL + 0.5) or kind
end

-- The name of a transform with its key length: AES-GCM-16-256.
local function get_name(transform)
    local registry = names.transform_ids(transform.type)
    local name = registry and names.of(registry, transform.id) or string.format("%.0f", transform.id)
    return transform.key_bits and string.format("%s-%.0f", name, transform.key_bits) or name
end

--- The name of the first transform of a type; nil if the proposal has none.
function proposals.name_of(proposal, kind)
    for _, transform in ipairs(proposal.transforms) do
        if transform.type == kind then
            return get_name(transform)
        end
    end
    return nil
end

-- The alternatives of each transform type: {kind, names, only_none}, in order of description.
local function list_alternatives(proposal)
    local list, by_kind = {}, {}
    for _, transform in ipairs(proposal.transforms) do
        local alternatives = by_kind[transform.type]
        if not alternatives then
            alternatives = { kind = transform.type, names = {}, only_none = true }
            by_kind[transform.type], list[#list + 1] = alternatives, alternatives
        end
        local name = get_name(transform)
        if not alternatives.names[name] then
            alternatives.names[name] = true
            alternatives.names[#alternatives.names + 1] = name
        end
        alternatives.only_none = alternatives.only_none and transform.id == NONE
    end
    table.sort(list, function(a, b)
        return rank(a.kind) < rank(b.kind)
    end)
    return list
end

--- A proposal in one line, as `ikeanalyze` describes it: AES-GCM-16-256/HMAC-SHA2-384/ECP-384/ADDKE1:ML-KEM-768.
function proposals.describe(proposal)
    local parts = {}
    for _, alternatives in ipairs(list_alternatives(proposal)) do
        local kind, text = alternatives.kind, table.concat(alternatives.names, "+")
        local omitted = is_optional(kind) and alternatives.only_none
            or kind == SEQUENCE_NUMBERS and proposal.protocol == IKE
        if not omitted then
            local without_prefix = kind <= SEQUENCE_NUMBERS
            parts[#parts + 1] = without_prefix and text or names.of(names.transform_type, kind) .. ":" .. text
        end
    end
    return table.concat(parts, "/")
end

--- A proposal that was chosen, in one line: of each type the first transform.
function proposals.describe_chosen(proposal)
    local parts = {}
    for _, kind in ipairs({ proposals.ENCR, proposals.INTEG, proposals.PRF, proposals.KE }) do
        parts[#parts + 1] = proposals.name_of(proposal, kind)
    end
    for _, transform in ipairs(proposal.transforms) do
        if transform.type >= FIRST_ADDITIONAL and transform.type <= LAST_ADDITIONAL and transform.id ~= NONE then
            local slot = transform.type - FIRST_ADDITIONAL + 1
            parts[#parts + 1] = string.format("ADDKE%.0f:%s", slot, get_name(transform))
        end
    end
    return table.concat(parts, "/")
end

return proposals
