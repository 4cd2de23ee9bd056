--[[ Requests for rekeying and for further CHILD_SAs that were refused after the set-up (RFC 7296, 1.3).

An error notify in the response tells it if the response was decrypted. Otherwise its size does: a successful response
has payloads that need more bytes than an error notify. A refusal does not count if another request for the same made up
for it: a single INVALID_KE_PAYLOAD, TEMPORARY_FAILURE or CHILD_SA_NOT_FOUND is a normal part of the protocol (1.3 and
2.25). ]]
local contents = require("ikex.contents")
local decrypted = require("ikex.diagnosis.decrypted")
local exchanges = require("ikex.exchanges")
local message = require("ikex.message")
local messages = require("ikex.diagnosis.messages")
local names = require("ikex.names")
local proposals = require("ikex.proposals")

local refused_requests = {}

local NONE = {}
local IKE_AUTH, CREATE_CHILD_SA, IKE_FOLLOWUP_KE = 35, 36, 44
local INVALID_KE_PAYLOAD, REKEY_SA = 17, 16393
local TSI, TSR = 44, 45 -- payload types
local IKE = 1 -- protocol
local FIRST_ADDITIONAL, LAST_ADDITIONAL = 6, 12 -- types of transforms
-- Least bytes of the payloads of a successful response. CREATE_CHILD_SA: a CHILD_SA needs less than an IKE SA, an SA
-- payload with a single transform (4 + 12 + 8), a nonce of 16 bytes (4 + 16) and two traffic selectors of IPv4
-- (2 * 24). IKE_FOLLOWUP_KE: a KE payload (8) of the shortest method, Curve25519 (32).
local LEAST_BYTES = { [CREATE_CHILD_SA] = 92, [IKE_FOLLOWUP_KE] = 40 }
-- A side answers TEMPORARY_FAILURE while it rekeys or closes the SA itself (RFC 7296, 2.25): fewer are normal.
local MANY_TEMPORARY = 3
-- Notifies that refuse a CHILD_SA and say nothing about others.
local IS_OF_ONE_CHILD = { TS_UNACCEPTABLE = true, NO_PROPOSAL_CHOSEN = true }

--- What requests are for.
refused_requests.IKE_REKEYING = "the rekeying of the IKE SA"
refused_requests.CHILD_REKEYING = "the rekeying of a CHILD_SA"
refused_requests.CHILD = "the set-up of a CHILD_SA"

-- The decrypted messages of an IKE SA: by pair {request, response}; and the proposal for the CHILD_SA of IKE_AUTH, in
-- that IKE SA or in one that it replaced.
local collect_decrypted
function collect_decrypted(capture, sa)
    local by_pair, agreed = {}, nil
    local replaced = capture.replaced[sa.spi_i .. sa.spi_r]
    if replaced and replaced.number < sa.number then
        local _
        _, agreed = collect_decrypted(capture, replaced)
    end
    for _, content in ipairs(sa.contents or NONE) do
        local kind = content.encrypted and content.pair.exchange
        if LEAST_BYTES[kind] then
            by_pair[content.pair] = by_pair[content.pair] or {}
            by_pair[content.pair][content.response and "response" or "request"] = content
        elseif kind == IKE_AUTH and content.response then
            agreed = contents.proposals(content)[1] or agreed
        end
    end
    return by_pair, agreed
end

local function find_purpose(request)
    local proposal = request and contents.proposals(request)[1]
    if not proposal then
        return nil
    elseif proposal.protocol == IKE then
        return refused_requests.IKE_REKEYING
    end
    return contents.notify(request, REKEY_SA) and refused_requests.CHILD_REKEYING or refused_requests.CHILD
end

-- The bodies of the payloads TSi and TSr of a request; nil if it has none, or was not decrypted.
local function get_selector_bodies(request)
    local initiator, responder = request and contents.first(request, TSI), request and contents.first(request, TSR)
    if not initiator or not responder then
        return nil
    end
    return { message.body(request.data, initiator), message.body(request.data, responder) }
end

-- The requests of an IKE SA after the set-up that have a response, in order of time.
local function list_requests(facts, by_pair)
    local list, latest = {}, {}
    for _, exchange in ipairs(facts.exchanges) do
        local pair = exchange.pair
        local fits = not exchange.sets_up and pair.sa.version == 2 and LEAST_BYTES[pair.exchange] and exchange.ended_by
        if fits and not exchanges.is_unprotected(exchange) then
            local content = by_pair[pair] or NONE
            local notify = content.response and contents.error_notify(content.response)
            local request = {
                exchange = exchange, kind = pair.exchange, from_initiator = pair.requested_by_initiator or false,
                content = content.request, notify = notify, purpose = find_purpose(content.request),
                bytes = messages.summarize(exchange.responses).ike_bytes,
            }
            local room = request.bytes and facts.get_room(request.bytes)
            if content.response then
                request.is_refused = request.bytes ~= nil and notify ~= nil
            else
                request.is_refused = room ~= nil and room < LEAST_BYTES[pair.exchange]
            end
            local before = latest[request.from_initiator]
            if request.kind == CREATE_CHILD_SA then
                latest[request.from_initiator] = request
            elseif before then
                request.purpose = before.purpose
                before.is_superseded = before.is_superseded or request.is_refused
            end
            list[#list + 1] = request
        end
    end
    return list
end

local function get_name(request)
    return request.notify and names.of(names.notify, request.notify.type) or nil
end

-- Whether another request, which was not over before this one, was for the same and succeeded.
local function makes_up_for(refused, other)
    if other.is_refused or other.is_superseded or other.kind ~= CREATE_CHILD_SA then
        return false
    elseif other.exchange.end_time < refused.exchange.start then
        return false
    elseif not refused.purpose or not other.purpose then
        return true
    end
    local is_ike = refused.purpose == refused_requests.IKE_REKEYING
    if is_ike ~= (other.purpose == refused_requests.IKE_REKEYING) then
        return false
    elseif refused.purpose == refused_requests.CHILD and IS_OF_ONE_CHILD[get_name(refused) or ""] then
        -- other CHILD_SAs have other networks
        local here, there = get_selector_bodies(refused.content), get_selector_bodies(other.content)
        return not here or not there or here[1] == there[1] and here[2] == there[2]
            or here[1] == there[2] and here[2] == there[1]
    end
    return true
end

-- The refused requests for which no other one made up.
local function list_left(requests)
    local left = {}
    for _, request in ipairs(requests) do
        local is_left = request.is_refused
        for _, other in ipairs(is_left and requests or NONE) do
            is_left = is_left and not makes_up_for(request, other)
        end
        left[#left + 1] = is_left and request or nil
    end
    return left
end

local function count_same(refused, left)
    local count = 0
    for _, other in ipairs(left) do
        local is_same = other.from_initiator == refused.from_initiator and other.kind == refused.kind
            and other.purpose == refused.purpose and get_name(other) == get_name(refused)
        count = count + (is_same and 1 or 0)
    end
    return count
end

-- Whether a refusal is more than a step of the protocol whose next one may be missing.
local function is_noteworthy(facts, refused, count)
    local name = get_name(refused)
    if name == "TEMPORARY_FAILURE" then
        return count >= MANY_TEMPORARY
    elseif name ~= "INVALID_KE_PAYLOAD" or count > 1 then
        return true
    end
    for _, exchange in ipairs(facts.exchanges) do
        local by_same = (exchange.pair.requested_by_initiator or false) == refused.from_initiator
        if not exchange.sets_up and by_same and exchange.start > refused.exchange.end_time then
            return true
        end
    end
    return false
end

-- The transforms of a proposal other than key exchanges, as keys of a set, and the set of their types. Integrity NONE
-- means the same as none.
local function list_others(proposal)
    local transforms, kinds = {}, {}
    for _, transform in ipairs(proposal.transforms) do
        local kind = transform.type
        local is_other = kind ~= proposals.KE and (kind < FIRST_ADDITIONAL or kind > LAST_ADDITIONAL)
        if is_other and (kind ~= proposals.INTEG or transform.id ~= 0) then
            transforms[string.format("%.0f/%.0f/%.0f", kind, transform.id, transform.key_bits or -1)] = true
            kinds[kind] = true
        end
    end
    return transforms, kinds
end

local function is_subset(set, of)
    for key in pairs(set) do
        if not of[key] then
            return false
        end
    end
    return true
end

-- Whether a proposal of a request offers what IKE_AUTH agreed on, apart from key exchanges, of which IKE_AUTH has none.
local function differs_in_key_exchange(request, agreed)
    for _, proposal in ipairs(request and agreed and contents.proposals(request) or NONE) do
        local offered, offered_kinds = list_others(proposal)
        local wanted, wanted_kinds = list_others(agreed)
        if proposal.protocol == agreed.protocol and next(wanted) and is_subset(wanted, offered)
            and is_subset(offered_kinds, wanted_kinds) and is_subset(wanted_kinds, offered_kinds) then
            return true
        end
    end
    return false
end

local function describe_proposals(content)
    local texts = {}
    for index, proposal in ipairs(content and contents.proposals(content) or NONE) do
        texts[index] = proposals.describe(proposal)
    end
    return #texts > 0 and table.concat(texts, " or ") or nil
end

local function get_wanted_method(notify)
    if not notify or notify.type ~= INVALID_KE_PAYLOAD or #notify.data < 2 then
        return nil
    end
    local high, low = notify.data:byte(1, 2)
    return names.of(names.method, high * 256 + low)
end

--- The last request of an IKE SA that was refused, and for which no other one made up: {exchange, type, sender, by,
-- count, response_bytes, notify, purpose, wanted_method, offered, selectors, differs_in_key_exchange}; false if there
-- is none. `response_bytes`: length of the IKE message; the values of payloads are nil if they were not decrypted.
function refused_requests.find(facts)
    local by_pair, agreed = collect_decrypted(facts.capture, facts.sa)
    local left = list_left(list_requests(facts, by_pair))
    for index = #left, 1, -1 do
        local request = left[index]
        local count = count_same(request, left)
        if is_noteworthy(facts, request, count) then
            return {
                exchange = request.exchange,
                type = names.of_exchange(2, request.kind),
                sender = request.from_initiator and "initiator" or "responder",
                by = request.from_initiator and "responder" or "initiator",
                count = count,
                response_bytes = request.bytes,
                notify = get_name(request),
                purpose = request.purpose,
                wanted_method = get_wanted_method(request.notify),
                offered = describe_proposals(request.content),
                selectors = request.content and decrypted.describe_selectors({ request.content }),
                differs_in_key_exchange = differs_in_key_exchange(request.content, agreed),
            }
        end
    end
    return false
end

return refused_requests
