--[[ What is in the messages of an IKE SA: those that are clear, and those that a key opens, whole or put together from their fragments.

Messages are looked into in the order of the capture, so that what the earlier ones agreed on is known of the later ones:
the suite, the additional key exchanges and their slots (RFC 9370, 2.2.2), and which IKE_FOLLOWUP_KE belongs to
which CREATE_CHILD_SA (N(ADDITIONAL_KEY_EXCHANGE), 2.2.4). ]]
local Association = require("ikex.association")
local message = require("ikex.message")
local proposals = require("ikex.proposals")

local contents = {}

local IKE_SA_INIT, CREATE_CHILD_SA, IKE_INTERMEDIATE, IKE_FOLLOWUP_KE = 34, 36, 43, 44
local ADDITIONAL_KEY_EXCHANGE = 16441
local IKE = 1 -- protocol of a proposal

local function big_endian(number, size)
    local out = {}
    for place = size, 1, -1 do
        local low = number % 256
        out[place] = string.char(low)
        number = (number - low) / 256
    end
    return table.concat(out)
end

-- The message in clear: header and payloads before the encrypted one, then what was in that.
local function in_clear(data, payloads, first, plaintext)
    local before = data:sub(message.HEADER + 1, payloads[#payloads].first - 5)
    local following = first
    if #payloads > 1 then
        -- the payload before the encrypted one names the first of those that were inside
        local at = payloads[#payloads - 1].first - 4 - message.HEADER
        before = before:sub(1, at - 1) .. string.char(first) .. before:sub(at + 1)
        following = data:byte(17)
    end
    local length = message.HEADER + #before + #plaintext
    return data:sub(1, 16) .. string.char(following) .. data:sub(18, 24) .. big_endian(length, 4) .. before .. plaintext
end

--- The bodies of a content's payloads of one type, as positions in its data.
function contents.each(content, kind)
    local at = 0
    return function()
        repeat
            at = at + 1
        until not content.payloads[at] or content.payloads[at].type == kind
        return content.payloads[at]
    end
end

--- The notifies of a content, in order: {protocol, type, spi, data}.
function contents.notifies(content)
    if not content.notify_list then
        content.notify_list = {}
        for payload in contents.each(content, message.NOTIFY) do
            local notify = message.notify(content.data, payload)
            if notify then
                content.notify_list[#content.notify_list + 1] = notify
            end
        end
    end
    return content.notify_list
end

--- Whether a content has a notify of a type; that notify.
function contents.notify(content, kind)
    for _, notify in ipairs(content and contents.notifies(content) or {}) do
        if notify.type == kind then
            return notify
        end
    end
    return nil
end

--- The first error notify of a content.
function contents.error_notify(content)
    for _, notify in ipairs(contents.notifies(content)) do
        if notify.type < message.FIRST_STATUS then
            return notify
        end
    end
    return nil
end

local function proposals_of(content)
    for payload in contents.each(content, message.SA) do
        return (proposals.read(message.body(content.data, payload)))
    end
    return {}
end

local function begin_negotiation(purpose, content)
    local chosen = content and proposals_of(content)[1]
    return { purpose = purpose, left = proposals.additional(chosen), taken = 0, pair = content and content.pair }
end

-- The slot of an additional key exchange, the same for both messages of its exchange.
local function take_slot(negotiation, pair)
    if pair.key_slot == nil then
        negotiation.taken = negotiation.taken + 1
        pair.key_slot = negotiation.left[negotiation.taken] or false
    end
    return pair.key_slot or nil
end

local function init(sa, content)
    if not content.response then
        sa.init_request = content
        return
    end
    if Association.ASKS_AGAIN[(contents.error_notify(content) or {}).type] then
        return
    end
    local chosen = proposals_of(content)[1]
    if chosen then
        sa.init_response = content
        sa.suite = proposals.suite(chosen)
        sa.negotiation = begin_negotiation("IKE SA", content)
        sa.additional = #sa.negotiation.left
    end
end

-- What a CREATE_CHILD_SA exchange agrees on.
local function create_child(state, sa, content)
    local pair = content.pair
    local chosen = proposals_of(content)[1]
    if not content.response then
        pair.purpose = chosen and chosen.protocol == IKE and "rekeying" or "CHILD_SA"
        if pair.purpose == "rekeying" then
            pair.offered_spi = chosen.spi
        end
        return
    end
    pair.purpose = chosen and (chosen.protocol == IKE and "rekeying" or "CHILD_SA") or pair.purpose
    pair.negotiation = begin_negotiation(pair.purpose, content)
    if pair.purpose == "rekeying" and pair.offered_spi and chosen then
        state.replaced[pair.offered_spi .. chosen.spi] = sa
    end
end

-- N(ADDITIONAL_KEY_EXCHANGE) ties exchanges together by data that the responder made up.
local function follow_link(sa, content)
    local link = contents.notify(content, ADDITIONAL_KEY_EXCHANGE)
    local pair = content.pair
    sa.links = sa.links or {}
    if pair.exchange == IKE_FOLLOWUP_KE and not content.response and link then
        local from = sa.links[tostring(pair.asked_by_initiator) .. link.data]
        if from then
            pair.linked_to, pair.negotiation = from.content, from.negotiation
        end
    elseif content.response and link then
        pair.negotiation = pair.negotiation or { left = {}, taken = 0 }
        sa.links[tostring(pair.asked_by_initiator) .. link.data] = { content = content, negotiation = pair.negotiation }
    end
end

-- The key exchange of a content: which slot, and which method was negotiated for it.
local function key_exchange(sa, content)
    local payload = contents.each(content, message.KE)()
    if not payload then
        return
    end
    local exchange = message.key_exchange(content.data, payload)
    if not exchange then
        return
    end
    local pair = content.pair
    exchange.payload = payload
    if pair.exchange == IKE_SA_INIT or pair.exchange == CREATE_CHILD_SA then
        exchange.slot = 0
    elseif pair.exchange == IKE_INTERMEDIATE and sa.negotiation then
        local agreed = take_slot(sa.negotiation, pair)
        exchange.slot, exchange.negotiated = agreed and agreed.slot, agreed and agreed.method
    elseif pair.exchange == IKE_FOLLOWUP_KE and pair.negotiation then
        local agreed = take_slot(pair.negotiation, pair)
        exchange.slot, exchange.negotiated = agreed and agreed.slot, agreed and agreed.method
    end
    content.key_exchange = exchange
end

local function enter(state, sa, unit, content)
    content.payloads, content.problem =
        message.payloads(content.data, content.data:byte(17), message.HEADER + 1, #content.data)
    content.pair, content.response = unit.slot.pair, unit.slot.response
    content.from_initiator = unit.slot.from_initiator
    content.frame = unit.number
    sa.contents[#sa.contents + 1] = content
    if sa.version ~= 2 then
        return
    end
    if content.pair.exchange == IKE_SA_INIT then
        init(sa, content)
    elseif content.pair.exchange == CREATE_CHILD_SA then
        create_child(state, sa, content)
    end
    follow_link(sa, content)
    key_exchange(sa, content)
end

-- By order: IKE_INTERMEDIATE exchanges that came before.
local function epoch_of(sa, pair)
    local additional = sa.additional or 0
    if pair.exchange ~= IKE_INTERMEDIATE then
        return additional
    end
    local before = 0
    for _, one in ipairs(sa.list) do
        if one.exchange == IKE_INTERMEDIATE and one.message_id < pair.message_id then
            before = before + 1
        end
    end
    return math.min(before, additional)
end

local function open_fragment(state, sa, unit, opened, payloads)
    local slot = unit.slot
    local parts = slot.parts
    if not parts or parts.total ~= unit.total or (parts.digest[unit.fragment] or unit.digest) ~= unit.digest then
        parts = { total = unit.total, digest = {}, clear = {}, have = 0, verified = true }
        slot.parts = parts
    end
    if not parts.digest[unit.fragment] then
        parts.digest[unit.fragment], parts.clear[unit.fragment] = unit.digest, opened.clear
        parts.have = parts.have + 1
        parts.verified = parts.verified and opened.verified
        if unit.fragment == 1 then
            parts.first, parts.data, parts.payloads = opened.first, unit.data, payloads
        end
    end
    unit.opened = parts
    if parts.have == parts.total and not parts.content then
        local whole = table.concat(parts.clear)
        parts.content = {
            data = in_clear(parts.data, parts.payloads, parts.first, whole),
            encrypted = true, verified = parts.verified,
        }
        parts.content.epoch, parts.content.position, parts.content.count = opened.epoch, opened.position, opened.count
        enter(state, sa, unit, parts.content)
    end
end

local function open(state, sa, unit)
    local data = unit.data
    local payloads = message.payloads(data, data:byte(17), message.HEADER + 1, #data)
    local last = payloads[#payloads]
    if not last or not last.inner or last.last ~= #data then
        return
    end
    local epoch = epoch_of(sa, unit.slot.pair)
    local sealed = {
        data = data,
        start = last.first + (last.type == message.SKF and 4 or 0),
        first = last.inner,
        fragment = unit.fragment,
        total = unit.total,
        from_initiator = unit.slot.from_initiator,
    }
    local opened = state.keyring:open(data:sub(1, 8), data:sub(9, 16), sealed, sa.suite, epoch)
    if not opened then
        unit.no_key = true
        return
    end
    opened.epoch = epoch
    unit.key = opened
    if unit.fragment > 0 then
        open_fragment(state, sa, unit, opened, payloads)
    else
        unit.content = {
            data = in_clear(data, payloads, opened.first, opened.clear),
            encrypted = true, verified = opened.verified,
            epoch = epoch, position = opened.position, count = opened.count,
        }
        enter(state, sa, unit, unit.content)
    end
    opened.clear = nil -- it is in the content
end

--- Look into the messages of an IKE SA that are new. `state`: {keyring, replaced}.
function contents.update(state, sa)
    local news = sa.news
    if #news == 0 then
        return
    end
    sa.news = {}
    sa.contents = sa.contents or {}
    for _, unit in ipairs(news) do
        local slot = unit.slot
        slot.known = slot.known or {}
        local before = slot.known[unit.digest]
        if before then -- the same again
            unit.content, unit.key, unit.opened = before.content, before.key, before.opened
            unit.no_key = before.no_key
        else
            slot.known[unit.digest] = unit
            if unit.clear then
                unit.content = { data = unit.data, encrypted = false }
                enter(state, sa, unit, unit.content)
            elseif sa.version == 2 then
                open(state, sa, unit)
            end
        end
        if not unit.clear then
            unit.data = nil -- the ciphertext is needed no more
        end
    end
end

--- What is in the message of a unit; nil if that cannot be read.
function contents.content(unit)
    return unit.content or (unit.opened and unit.opened.content)
end

return contents
