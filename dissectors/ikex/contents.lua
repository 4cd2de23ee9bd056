--[[ The contents of the messages of an IKE SA: of clear messages, and of decrypted ones, reassembled from fragments.

Messages are decoded in the order of the capture, because earlier messages negotiate values that later ones need: the
suite, the additional key exchanges and their slots (RFC 9370, 2.2.2), and the CREATE_CHILD_SA exchange that an
IKE_FOLLOWUP_KE continues (N(ADDITIONAL_KEY_EXCHANGE), 2.2.4). ]]
local Association = require("ikex.association")
local Datagram = require("ikex.datagram")
local ikev1 = require("ikex.ikev1")
local ikev1_fragments = require("ikex.ikev1_fragments")
local key_changes = require("ikex.key_changes")
local message = require("ikex.message")
local message_table = require("ikex.message_table")
local PacketQueue = require("ikex.packet_queue")
local proposals = require("ikex.proposals")

local contents = {}
local decode_earlier -- see below

local PLAIN = Datagram.PLAIN
local IKE_SA_INIT, CREATE_CHILD_SA, IKE_INTERMEDIATE, IKE_FOLLOWUP_KE = 34, 36, 43, 44
local IKE_SESSION_RESUME = 38
local ADDITIONAL_KEY_EXCHANGE, INVALID_KE_PAYLOAD = 16441, 17
local TICKET_LT_OPAQUE, TICKET_OPAQUE = 16409, 16413
local PPK_IDENTITY = 16436
local LIFETIME_BYTES = 4 -- before the ticket in TICKET_LT_OPAQUE
local IKE = 1 -- protocol of a proposal
local MAX_PREDECESSORS = 64 -- IKE SAs of the same hosts

local function big_endian(number, size)
    local digits = {}
    for position = size, 1, -1 do
        local low = number % 256
        digits[position] = string.char(low)
        number = (number - low) / 256
    end
    return table.concat(digits)
end

-- The decrypted message: header, payloads before the encrypted one, and the payloads in the encrypted one.
local function build_clear_message(data, payloads, first, plaintext)
    local before = data:sub(message.HEADER + 1, payloads[#payloads].first - 5)
    local following = first
    if #payloads > 1 then
        -- the payload before the encrypted one must have the type of the first decrypted payload
        local at = payloads[#payloads - 1].first - 4 - message.HEADER
        before = before:sub(1, at - 1) .. string.char(first) .. before:sub(at + 1)
        following = data:byte(17)
    end
    local length = message.HEADER + #before + #plaintext
    return data:sub(1, 16) .. string.char(following) .. data:sub(18, 24) .. big_endian(length, 4) .. before .. plaintext
end

-- Contents have `payloads` and `problem`, from `message.payloads`. These take more memory than the message: only those
-- of the latest contents are kept, and parsed again when they are needed again.
local RECENT = 256
local parsed, parsed_before, parsed_count = setmetatable({}, { __mode = "k" }), {}, 0

local function parse(content)
    local result = parsed[content] or parsed_before[content]
    if not result then
        local data, payloads, problem = content.data, nil, nil
        payloads, problem = message.payloads(data, data:byte(17), message.HEADER + 1, #data)
        result = { payloads = payloads, problem = problem }
    end
    if not parsed[content] then
        if parsed_count >= RECENT then
            parsed, parsed_before, parsed_count = setmetatable({}, { __mode = "k" }), parsed, 0
        end
        parsed[content], parsed_count = result, parsed_count + 1
    end
    return result
end

local PARSED = { payloads = true, problem = true }
local Content = {
    __index = function(content, name)
        return PARSED[name] and parse(content)[name] or nil
    end,
}

-- A message in clear, `data`; `encrypted`: it was encrypted.
local function new_content(data, encrypted, values)
    local content = values or {}
    content.data, content.encrypted = data, encrypted
    return setmetatable(content, Content)
end

--- An iterator over the payloads of a content that have one type.
function contents.each(content, kind)
    local at, payloads = 0, content.payloads
    return function()
        repeat
            at = at + 1
        until not payloads[at] or payloads[at].type == kind
        return payloads[at]
    end
end

--- The first payload of a content that has one type; nil if there is none.
function contents.first(content, kind)
    for _, payload in ipairs(content.payloads) do
        if payload.type == kind then
            return payload
        end
    end
    return nil
end

--- The first notify of a content that has this type; nil if there is none.
function contents.notify(content, kind)
    local data = content.data
    for _, payload in ipairs(content.payloads) do
        if payload.type == message.NOTIFY and message.notify_type(data, payload) == kind then
            return message.notify(data, payload)
        end
    end
    return nil
end

--- Whether an IKE_SA_INIT message announces a PPK in IKE_INTERMEDIATE (RFC 9867).
function contents.announces_intermediate_ppk(content)
    for _, kind in ipairs(message.INTERMEDIATE_PPKS) do
        if contents.notify(content, kind) then
            return true
        end
    end
    return false
end

--- Whether an IKE_SA_INIT message announces a PPK in IKE_AUTH (RFC 8784) or IKE_INTERMEDIATE.
function contents.announces_ppk(content)
    return contents.notify(content, message.USE_PPK) ~= nil or contents.announces_intermediate_ppk(content)
end

--- The first error notify of a content.
function contents.error_notify(content)
    local data = content.data
    for _, payload in ipairs(content.payloads) do
        local kind = payload.type == message.NOTIFY and message.notify_type(data, payload)
        if kind and kind < message.FIRST_STATUS then
            return message.notify(data, payload)
        end
    end
    return nil
end

--- Whether the capture has only the beginning of a content, so that payloads may follow.
function contents.is_truncated(content)
    return message.is_truncated(content.data)
end

--- The proposals of the first SA payload of a content, see `proposals.read`.
function contents.proposals(content)
    local result = parse(content)
    if not result.proposals then
        local payload = contents.first(content, message.SA)
        result.proposals = payload and proposals.read(message.body(content.data, payload)) or {}
    end
    return result.proposals
end

local function begin_negotiation(purpose, content)
    local chosen = content and contents.proposals(content)[1]
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

local function nonce_of(content)
    local payload = contents.first(content, message.NONCE)
    return payload and message.body(content.data, payload) or ""
end

local function decode_init(sa, content)
    if not content.response then
        sa.init_request = content
        return
    end
    if Association.ASKS_AGAIN[(contents.error_notify(content) or {}).type] then
        return
    end
    local chosen = contents.proposals(content)[1]
    if chosen then
        sa.init_response = content
        sa.suite = proposals.suite(chosen)
        sa.nonces = sa.init_request and nonce_of(sa.init_request) .. nonce_of(content)
        sa.negotiation = begin_negotiation("IKE SA", content)
        sa.additional = #sa.negotiation.left
        sa.accepts_ppk = contents.announces_intermediate_ppk(content) or nil
    end
end

-- Note what a decrypted response to IKE_INTERMEDIATE shows. The responder names the PPK that it uses in PPK_IDENTITY.
-- Without it, the IKE SA continues without a PPK (RFC 9867).
local function decode_intermediate_response(content)
    content.pair.intermediate = {
        key_exchange = contents.first(content, message.KE) ~= nil,
        ppk = contents.notify(content, PPK_IDENTITY) ~= nil,
    }
end

-- What an IKE SA negotiated: {suite, nonces}.
local function get_negotiated(capture, sa, spis)
    return sa.suite and sa or capture.negotiated[spis] or sa
end

-- Note the suite of an IKE SA that was given a ticket, which a resumed one then has (RFC 5723, sections 5 and 7).
local function note_ticket(capture, sa, content)
    local suite = get_negotiated(capture, sa, content.data:sub(1, 16)).suite
    local notify = suite and contents.notify(content, TICKET_LT_OPAQUE)
    if notify then
        capture.tickets[notify.data:sub(LIFETIME_BYTES + 1)] = suite
    end
end

-- The messages of IKE_SESSION_RESUME name no algorithms. Their keys may need those of the IKE SA with the ticket.
local function decode_resume(capture, sa, content)
    if not content.response then
        sa.resume_request = content
    elseif contents.first(content, message.NONCE) and sa.resume_request then
        local notify = contents.notify(sa.resume_request, TICKET_OPAQUE)
        if notify and capture.keyring.lacks_algorithms then
            decode_earlier(capture, sa)
            sa.suite = capture.tickets[notify.data]
        end
        sa.nonces = nonce_of(sa.resume_request) .. nonce_of(content)
    end
end

-- Purpose and negotiated values of a CREATE_CHILD_SA exchange.
local function decode_create_child(capture, sa, content)
    local pair = content.pair
    local chosen = contents.proposals(content)[1]
    if not content.response then
        pair.purpose = chosen and chosen.protocol == IKE and "rekeying" or "CHILD_SA"
        if pair.purpose == "rekeying" then
            pair.offered_spi, pair.nonce = chosen.spi, nonce_of(content)
        end
        return
    end
    pair.purpose = chosen and (chosen.protocol == IKE and "rekeying" or "CHILD_SA") or pair.purpose
    pair.negotiation = begin_negotiation(pair.purpose, content)
    if pair.purpose == "rekeying" and pair.offered_spi and chosen then
        local spis = pair.offered_spi .. chosen.spi
        capture.replaced[spis] = sa
        capture.negotiated[spis] = {
            suite = proposals.suite(chosen), nonces = pair.nonce .. nonce_of(content), proposal = chosen,
        }
    end
end

-- N(ADDITIONAL_KEY_EXCHANGE) links exchanges by data that the responder chose.
local function follow_link(sa, content)
    local link = contents.notify(content, ADDITIONAL_KEY_EXCHANGE)
    local pair = content.pair
    sa.links = sa.links or {}
    if pair.exchange == IKE_FOLLOWUP_KE and not content.response and link then
        local from = sa.links[tostring(pair.requested_by_initiator) .. link.data]
        if from then
            pair.linked_to, pair.negotiation = from.content, from.negotiation
        end
    elseif content.response and link then
        pair.negotiation = pair.negotiation or { left = {}, taken = 0 }
        sa.links[tostring(pair.requested_by_initiator) .. link.data] = {
            content = content, negotiation = pair.negotiation,
        }
    end
end

-- The key exchange of a content, with its slot and the method that was negotiated for it.
local function decode_key_exchange(sa, content)
    local payload = contents.first(content, message.KE)
    if not payload then
        return
    end
    local exchange = message.key_exchange(content.data, payload)
    if not exchange then
        return
    end
    local pair = content.pair
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

local function add_content(capture, sa, datagram, content)
    content.pair, content.response = datagram.slot.pair, datagram.slot.response or false
    content.from_initiator = datagram.slot.from_initiator
    content.frame = datagram.number
    sa.contents[#sa.contents + 1] = content
    if sa.version ~= 2 then
        if not content.encrypted then
            ikev1.learn(sa, content)
        end
        return
    end
    if content.pair.exchange == IKE_SA_INIT then
        decode_init(sa, content)
    elseif content.pair.exchange == IKE_SESSION_RESUME then
        decode_resume(capture, sa, content)
    elseif content.pair.exchange == CREATE_CHILD_SA then
        decode_create_child(capture, sa, content)
    elseif content.pair.exchange == IKE_INTERMEDIATE and sa.accepts_ppk and content.response and content.encrypted then
        decode_intermediate_response(content)
    end
    if content.encrypted then
        note_ticket(capture, sa, content)
    end
    follow_link(sa, content)
    decode_key_exchange(sa, content)
end

local function add_fragment(capture, sa, datagram, decrypted, payloads)
    local slot = datagram.slot
    local parts = slot.parts
    if parts and parts.total > datagram.total then
        return -- the sender has fragmented the message again: a receiver ignores this one (RFC 7383, section 2.6)
    end
    local same_total = parts and parts.total == datagram.total
    if not same_total or (parts.digest[datagram.fragment] or datagram.digest) ~= datagram.digest then
        parts = { total = datagram.total, digest = {}, plaintext = {}, count = 0, verified = true }
        slot.parts = parts
    end
    if not parts.digest[datagram.fragment] then
        parts.digest[datagram.fragment], parts.plaintext[datagram.fragment] = datagram.digest, decrypted.plaintext
        parts.count = parts.count + 1
        parts.verified = parts.verified and decrypted.verified
        if datagram.fragment == 1 then
            parts.first, parts.data, parts.payloads = decrypted.first, datagram.data, payloads
        end
    end
    datagram.parts = parts
    if parts.count == parts.total and not parts.content then
        local data = build_clear_message(parts.data, parts.payloads, parts.first, table.concat(parts.plaintext))
        parts.content = new_content(data, true, { verified = parts.verified, epoch = decrypted.epoch })
        add_content(capture, sa, datagram, parts.content)
    end
end

local function decrypt(capture, sa, datagram)
    local data = datagram.data
    local payloads = message.payloads(data, data:byte(17), message.HEADER + 1, #data)
    local last = payloads[#payloads]
    if not last or not last.inner or last.last ~= #data then
        return
    end
    local epoch = key_changes.epoch(sa, datagram.slot.pair)
    local encrypted = {
        data = data,
        start = last.first + (last.type == message.SKF and 4 or 0),
        first = last.inner,
        fragment = datagram.fragment,
        total = datagram.total,
        from_initiator = datagram.slot.from_initiator,
    }
    local spi_i, spi_r = data:sub(1, 8), data:sub(9, 16)
    local negotiated = get_negotiated(capture, sa, spi_i .. spi_r)
    local decrypted, has_wrong_key =
        capture.keyring:decrypt(spi_i, spi_r, encrypted, negotiated.suite, negotiated.nonces, epoch)
    if not decrypted then
        datagram.no_key, datagram.wrong_key = true, has_wrong_key or nil
        return
    end
    decrypted.epoch = epoch
    datagram.key = decrypted
    sa.decrypted_epochs = sa.decrypted_epochs or {}
    sa.decrypted_epochs[epoch] = true
    if datagram.fragment > 0 then
        add_fragment(capture, sa, datagram, decrypted, payloads)
    else
        local clear = build_clear_message(data, payloads, decrypted.first, decrypted.plaintext)
        datagram.content = new_content(clear, true, { verified = decrypted.verified, epoch = epoch })
        add_content(capture, sa, datagram, datagram.content)
    end
    decrypted.plaintext = nil -- the content has it
end

-- Decrypt a message of IKEv1 with a header. Returns its content, nil if no key fits.
local function decrypt_phase1(capture, sa, data, head)
    local plaintext = capture.keyring:decrypt_phase1(sa, function(keys)
        return ikev1.decrypt(sa, keys, data, head)
    end)
    if not plaintext then
        return nil
    end
    local length = message.HEADER + #plaintext
    local flags = string.char(head.flags - 1) -- without the flag of encryption
    local clear = data:sub(1, 19) .. flags .. data:sub(21, 24) .. big_endian(length, 4) .. plaintext
    return new_content(clear, true, { verified = false })
end

-- Decode a message of IKEv1, which may be encrypted. `holder`: the datagram, or what all fragments of it share.
local function decode_phase1(capture, sa, datagram, data, head, holder)
    if head and message.is_clear(head) then
        holder.content = new_content(data, false)
    elseif head then
        holder.content = decrypt_phase1(capture, sa, data, head)
        holder.key = holder.content and { verified = false }
    end
    if holder.content then
        add_content(capture, sa, datagram, holder.content)
    else
        holder.no_key = true
    end
end

-- Decode the message of IKEv1 that a fragment completed.
local function decode_fragment_v1(capture, sa, datagram)
    local parts, data = ikev1_fragments.add(datagram)
    datagram.parts = parts
    if not data then
        return
    end
    local head = message.header(data)
    data = head and data:sub(1, head.length) or data
    -- as if it had come without fragments, in which it may have been sent as well
    local digest = head and message.is_clear(head) and data or data:sub(-PacketQueue.TAIL)
    local decoded = datagram.slot.decoded
    local earlier = message_table.get(decoded, digest)
    if earlier then
        parts.content, parts.key, parts.no_key = earlier.content, earlier.key, earlier.no_key
        return
    end
    decode_phase1(capture, sa, datagram, data, head, parts)
    if parts.content then
        message_table.set(decoded, digest, parts)
    end
end

-- Decode the latest IKE SAs of the same hosts: one of them may have negotiated this one, which replaced it.
local function decode_predecessors(capture, sa)
    local list = capture.conversation:of_hosts(sa)
    for index = math.max(1, #list - MAX_PREDECESSORS), #list do
        local other = list[index]
        if other.number < sa.number then
            contents.update(capture, other)
        end
    end
end

-- Whether there may be keys for an encrypted payload after the clear ones of a message.
local function may_decrypt_after_clear(capture, sa, datagram)
    local data, keyring = datagram.data, capture.keyring
    return sa.version == 2 and keyring.size > 0 and message.lacks_encrypted_payload(data) == false
        and keyring:may_decrypt(data:sub(1, 8), data:sub(9, 16))
end

local function decode(capture, sa, datagram)
    if sa.version ~= 2 and not datagram.clear then
        decode_phase1(capture, sa, datagram, datagram.data, message.header(datagram.data), datagram)
    elseif not datagram.clear or may_decrypt_after_clear(capture, sa, datagram) then
        decrypt(capture, sa, datagram)
    end
    if datagram.clear and not datagram.key then
        datagram.content = new_content(datagram.data, false)
        add_content(capture, sa, datagram, datagram.content)
    end
end

-- Decode all IKE SAs that began before a resumed one: the client may have another address now.
function decode_earlier(capture, sa)
    local sas = capture.conversation.sas
    for number = 1, sa.number - 1 do
        contents.update(capture, sas[number])
    end
end

--- Decode the new messages of an IKE SA. `capture`: {keyring, conversation, replaced, negotiated, tickets}.
function contents.update(capture, sa)
    local undecoded = sa.undecoded
    if #undecoded == 0 then
        return
    end
    sa.undecoded = {}
    if sa.version == 2 and not sa.begun_init and not sa.suite then
        decode_predecessors(capture, sa)
    end
    sa.contents = sa.contents or {}
    for _, datagram in ipairs(undecoded) do
        local slot = datagram.slot
        slot.decoded = slot.decoded or {}
        local is_fragment_v1 = sa.version ~= 2 and datagram.fragment > 0
        local earlier = not is_fragment_v1 and message_table.get(slot.decoded, datagram.digest)
        if is_fragment_v1 then
            decode_fragment_v1(capture, sa, datagram)
        elseif earlier then -- a retransmission
            datagram.content, datagram.key, datagram.parts = earlier.content, earlier.key, earlier.parts
            datagram.no_key, datagram.wrong_key = earlier.no_key, earlier.wrong_key
        else
            message_table.set(slot.decoded, datagram.digest, datagram)
            decode(capture, sa, datagram)
        end
        if not datagram.clear then
            datagram.data = nil -- the ciphertext is no longer needed
        end
    end
end

--- Which keys are missing or wrong if no key decrypts a message and none decrypts another message of its epoch,
-- although messages of other epochs are decrypted; nil otherwise. The IKE SA must be complete.
function contents.missing_keys(sa, datagram)
    if not datagram.no_key or datagram.wrong_key or not sa.decrypted_epochs then
        return nil
    end
    local epoch, last = key_changes.epoch(sa, datagram.slot.pair), key_changes.last_epoch(sa)
    if last == 0 or sa.decrypted_epochs[epoch] then
        return nil
    end
    local when = epoch < last and "before" or "after"
    return string.format("the keys from %s its last IKE_INTERMEDIATE exchange are missing or wrong", when)
end

--- "INVALID_KE_PAYLOAD" if the decrypted message of a datagram refuses the key exchange method of a CREATE_CHILD_SA
-- request, which asks for another one (RFC 7296, 1.3); nil otherwise. The other request has another message ID.
function contents.retry_reason(datagram)
    local content = contents.content(datagram)
    local of_child = content and content.response and content.encrypted and content.pair.sa.version == 2
        and content.pair.exchange == CREATE_CHILD_SA
    return of_child and contents.notify(content, INVALID_KE_PAYLOAD) and "INVALID_KE_PAYLOAD" or nil
end

--- The content of the message of a datagram that its frame shows: of a fragmented message, the frame that completed it.
-- nil: there is none.
function contents.shown(datagram)
    if datagram[PLAIN] then
        return nil
    end
    local content = contents.content(datagram)
    return content and (datagram.fragment == 0 or content.frame == datagram.number) and content or nil
end

--- The content of the message of a datagram; nil if it could not be decoded.
function contents.content(datagram)
    if datagram[PLAIN] then
        return nil
    end
    return datagram.content or (datagram.parts and datagram.parts.content)
end

--- The key that decrypted a datagram; of IKEv1, the message of which it is a fragment. nil: there is none.
function contents.key(datagram)
    return datagram.key or (datagram.parts and datagram.parts.key)
end

--- Whether no key decrypts a datagram, or the message of IKEv1 of which it is a fragment.
function contents.has_no_key(datagram)
    return datagram.no_key or (datagram.parts and datagram.parts.no_key) or false
end

return contents
