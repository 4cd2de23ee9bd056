--[[ A glance at the clear messages of an IKE SA: whether they can have findings or affect those of later messages.
Most handshakes have none, and to decode their messages would take longer than everything else. ]]
local message = require("ikex.message")
local mlkem = require("ikex.mlkem")

local glance = {}

local byte, sub = string.byte, string.sub

local IKE_SA_INIT, IKE_INTERMEDIATE = 34, 43
local INVALID_KE_PAYLOAD, INTERMEDIATE_SUPPORTED = 17, 16438 -- notifies
local IS_PPK = { [message.USE_PPK] = true }
for _, kind in ipairs(message.INTERMEDIATE_PPKS) do
    IS_PPK[kind] = true
end
local FIRST_ADDITIONAL, LAST_ADDITIONAL = 6, 12 -- transform types

-- How many transforms from position `at` to `last` are additional key exchanges other than NONE; nil if they are
-- inconsistent or have unusual attributes.
local function read_transforms(data, at, last)
    local additional = 0
    while at <= last do
        if at + 7 > last then
            return nil
        end
        local high, low, kind, _, id_high, id_low, attribute = byte(data, at + 2, at + 8)
        local size = high * 256 + low
        if at + size - 1 > last or size ~= 8 and (size ~= 12 or attribute < 0x80) then
            return nil
        end
        if kind >= FIRST_ADDITIONAL and kind <= LAST_ADDITIONAL and id_high + id_low > 0 then
            additional = additional + 1
        end
        at = at + size
    end
    return additional
end

-- The same of the body of an SA payload, from position `at` to `last`; nil if it must be read exactly. A response has
-- one proposal.
local function read_proposals(data, at, last, response)
    local additional = 0
    while at <= last do
        if at + 7 > last then
            return nil
        end
        local high, low, _, _, spi_size = byte(data, at + 2, at + 6)
        local finish = at + high * 256 + low - 1
        if finish > last or at + 7 + spi_size > finish or (response and finish < last) then
            return nil
        end
        local more = read_transforms(data, at + 8 + spi_size, finish)
        if not more then
            return nil
        end
        additional, at = additional + more, finish + 1
    end
    return additional
end

-- The latest SA payload of requests and of responses, and what it has: most peers of a capture offer the same, and all
-- of them choose the same.
local latest_payloads, latest_results = {}, {}

-- As `read_proposals`.
local function look_at_proposals(data, first, last, response)
    local payload, kind = sub(data, first, last), response and "response" or "request"
    if latest_payloads[kind] ~= payload then
        latest_payloads[kind], latest_results[kind] = payload, read_proposals(data, first, last, response)
    end
    return latest_results[kind]
end

-- Whether a KE payload has a finding, or may have one. Positions of its body.
local function is_doubtful_key(data, first, last, response)
    if last < first + 3 then
        return true
    end
    local high, low = byte(data, first, first + 1)
    local method = high * 256 + low
    local expected = mlkem.expected(method, response)
    return mlkem.is(method) or (expected ~= nil and expected ~= last - first - 3)
end

-- Read an IKE_SA_INIT message of IKEv2. Returns false if it may have findings of its own, or offers a PPK, for which
-- both messages must be decoded; otherwise true, and whether
-- it has an SA payload, how many additional key exchanges that has, and whether it has INTERMEDIATE_EXCHANGE_SUPPORTED.
local function read(data, response)
    local has_sa, additional, supports = false, 0, false
    local at, last, kind = message.HEADER + 1, #data, byte(data, 17)
    while kind ~= 0 do
        if at + 3 > last or kind == message.SK or kind == message.SKF then
            return false
        end
        local following, _, high, low = byte(data, at, at + 3)
        local finish = at + high * 256 + low - 1
        if finish < at + 3 or finish > last then
            return false
        end
        if kind == message.NOTIFY and finish >= at + 7 then
            local type_high, type_low = byte(data, at + 6, at + 7)
            local notify = type_high * 256 + type_low
            supports = supports or notify == INTERMEDIATE_SUPPORTED
            if notify < message.FIRST_STATUS and notify ~= INVALID_KE_PAYLOAD or IS_PPK[notify] and not response then
                return false
            end
        elseif kind == message.SA then
            local count = look_at_proposals(data, at + 4, finish, response)
            if not count or has_sa then
                return false
            end
            has_sa, additional = true, count
        elseif kind == message.KE and is_doubtful_key(data, at + 4, finish, response) then
            return false
        end
        at, kind = finish + 1, following
    end
    return at > last, has_sa, additional, supports
end

local function look_at(sa, datagram)
    local pair, response = datagram.slot.pair, datagram.slot.response
    if sa.version ~= 2 or pair.exchange ~= IKE_SA_INIT or not datagram.clear then
        return false
    end
    local unsuspicious, has_sa, additional, supports = read(datagram.data, response)
    if has_sa or not response then
        sa.lacks_intermediate = sa.lacks_intermediate or not supports
    end
    if response and has_sa then
        local before = sa.chosen_additional or additional
        sa.chosen_additional = additional
        unsuspicious = unsuspicious and additional == before -- two choices must be read exactly
    elseif not response and additional then
        sa.offered = sa.offered or additional > 0
    end
    return unsuspicious and not (sa.offered and sa.chosen_additional == 0)
end

--- How many additional key exchanges the responder chose, as far as messages were looked at and not decoded.
function glance.count_chosen(sa)
    return sa.chosen_additional or 0
end

--- Whether the messages of an IKE SA must be decoded to know the findings about the messages of a pair of it.
function glance.needs_contents(sa, pair)
    local undecoded = sa.undecoded
    if sa.contents then -- the messages before have been decoded
        return #undecoded > 0
    end
    for index = (sa.glanced or 0) + 1, sa.suspicious and 0 or #undecoded do
        sa.suspicious = sa.suspicious or not look_at(sa, undecoded[index])
        sa.glanced = index
    end
    return sa.suspicious or (sa.lacks_intermediate and pair.exchange == IKE_INTERMEDIATE) or false
end

return glance
