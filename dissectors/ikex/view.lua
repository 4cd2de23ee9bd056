--[[ The plugin's tree in the packet details. ]]
local Datagram = require("ikex.datagram")
local compat = require("ikex.compat")
local exchanges = require("ikex.exchanges")
local findings = require("ikex.findings")
local contents = require("ikex.contents")
local describe = require("ikex.diagnosis.describe")
local diagnose = require("ikex.diagnosis.diagnose")
local message = require("ikex.message")
local names = require("ikex.names")
local outcome = require("ikex.outcome")
local proposals = require("ikex.proposals")
local slots = require("ikex.slots")

local View = {}
View.__index = View

local SLOT, FRAGMENT = Datagram.SLOT, Datagram.FRAGMENT
local MAX_LISTED = 64 -- fragments, payloads, transforms
local LINE = 110 -- characters of a line of a long text

-- Groups of fields that are made together: the exchange of a message and its payloads are needed for these alone.
local GROUPS = {
    any_of_handshake = {
        "handshake", "exchange", "sender", "kind", "time", "bytes_initiator", "bytes_responder", "replaces", "outcome",
        "reason",
    },
    any_of_diagnosis = {
        "diagnosis_code", "diagnosis_effect", "diagnosis_confidence", "diagnosis_message", "diagnosis_concerns",
        "diagnosis_frame", "diagnosis_remedy", "diagnosis_rfc",
    },
    any_of_transmission = { "transmission", "retransmission", "retransmission_of" },
    any_of_fragments = { "ip_fragments", "fragment", "fragments", "fragment_frame", "fragment_missing" },
    any_of_decryption = { "decryption", "epoch", "verified" },
    any_of_exchange = {
        "request_in", "response_in", "response_time", "extra_round_trip", "attempt",
    },
    any_of_payloads = {
        "payload", "transform", "notify", "link", "method", "method_name", "role", "ke_length", "length_ok",
        "modulus_ok", "slot", "negotiated", "linked_to",
    },
}
-- Fields that messages lack which were sent and captured once.
local IP_FRAGMENT, TCP_SEGMENT = ": IP fragment of an IKE message", ": TCP segment of an IKE message"
local EXCEPTIONAL = { retransmission = true, retransmission_of = true, duplicate_of = true, part_of = true }
local INITS = { [34] = true, [38] = true }

--- `fields`, `experts`: from the module `fields`; `proto`: the plugin's protocol; `has_window`: the program is not
-- tshark.
function View.new(proto, fields, experts, has_window)
    local self = setmetatable({
        proto = proto, fields = fields, experts = experts, has_window = has_window, latest = 0,
    }, View)
    -- whether a field is used by a filter, a column or a colour rule of the packets that are dissected now
    self.is_referenced = {
        __index = function(known, name)
            local referenced = false
            for _, field in ipairs(GROUPS[name] or { name }) do
                referenced = referenced or self.referenced(self.root, fields[field])
            end
            known[name] = referenced
            return referenced
        end,
    }
    return self
end

local EVERYTHING = setmetatable({}, {
    __index = function()
        return true
    end,
})

local NO_COLUMN = "(info)" -- the text of the Info column where no columns are built

--- Whether the columns of a packet are built.
function View.has_columns(pinfo)
    return tostring(pinfo.cols.info) ~= NO_COLUMN
end

-- Prepare for a packet: `needed` has the fields that are used, `builds_columns` whether columns are built. tshark uses
-- the same ones in all packets of a pass; a window has a purpose of its own for each packet.
function View:begin(tree, pinfo, number, visible, visited)
    self.root = tree
    if visible ~= self.visible or visited ~= self.visited or number <= self.latest or self.has_window then
        self.referenced, self.add_item = tree.referenced, tree.add
        self.needed = visible and EVERYTHING or setmetatable({}, self.is_referenced)
        self.builds_columns = View.has_columns(pinfo)
        self.needs_exceptional_only = not visible and not self.has_window and self:needs_only(EXCEPTIONAL)
        self.visible, self.visited = visible, visited
    end
    self.latest = number
end

-- Whether no other field than these is used.
function View:needs_only(names)
    for name in pairs(self.fields) do
        if not names[name] and self.needed[name] then
            return false
        end
    end
    return true
end

-- Add a field, if it is needed. Returns its item, or `tree` if it was not added.
function View:add(tree, name, value)
    if not self.needed[name] then
        return tree
    end
    local item = tree:add(self.fields[name], value)
    if self.visible then
        item:set_generated()
    end
    return item
end

-- Add a field with its bytes, positions `first` to `last` of the message. Where they are not in the frame, the item has
-- none.
function View:add_bytes(tree, name, first, last, value)
    if not self.needed[name] then
        return tree
    elseif not self.source then
        return self:add(tree, name, value)
    end
    return tree:add(self.fields[name], self.source(self.offset + first - 1, last - first + 1), value)
end

-- Append text to the item of a field, which may not have been added.
function View:append(item, text)
    if self.visible then
        item:append_text(text)
    end
end

local to_time

-- Microseconds as Wireshark's time.
function to_time(us)
    if us < 0 then -- in a capture out of order
        local positive = to_time(-us)
        return NSTime(-positive.secs, -positive.nsecs)
    end
    local seconds = math.floor(us / 1000000)
    return NSTime(seconds, math.floor((us - seconds * 1000000) * 1000))
end

function View:handshake(tree, capture, datagram)
    local sa = datagram.slot.pair.sa
    local needed = self.needed
    self:add(tree, "handshake", sa.number)
    self:add(tree, "exchange", datagram.slot.pair.exchange)
    self:add(tree, "sender", datagram.slot.from_initiator and "initiator" or "responder")
    self:add(tree, "kind", datagram.slot.response and "response" or "request")
    if needed.time then
        self:add(tree, "time", to_time(datagram.time - sa.start))
    end
    if needed.bytes_initiator or needed.bytes_responder then
        self:add(tree, "bytes_initiator", UInt64(datagram.sent_by_initiator))
        self:add(tree, "bytes_responder", UInt64(datagram.sent_by_responder))
    end
    local replaced = needed.replaces and capture.replaced[sa.spi_i .. sa.spi_r]
    if replaced then
        self:add(tree, "replaces", replaced.number)
    end
    if capture.finished and (needed.outcome or needed.reason) then
        local summary = capture:summary(sa)
        if outcome.is_decided(capture, sa) then
            if summary.outcome then
                self:add(tree, "outcome", summary.outcome)
            end
            if summary.reason then
                self:add(tree, "reason", summary.reason)
            end
        end
    end
end

-- Add a field with a long text: Wireshark cuts the text of an item after 240 bytes, so that it is shown in lines.
function View:add_lines(tree, name, label, text)
    local item = self:add(tree, name, text)
    for number, line in ipairs(self.visible and describe.wrap(text, LINE) or {}) do
        if number == 1 then
            item:set_text(label .. ": " .. line)
        else
            tree:add("    " .. line):set_generated()
        end
    end
end

-- What stopped the handshake or made it slow.
function View:diagnosis(tree, capture, sa)
    for _, diagnosis in ipairs(diagnose.of_sa(capture, sa)) do
        local item = self:add(tree, "diagnosis_code", diagnosis.code)
        local start = describe.wrap(diagnosis.message, LINE)
        self:append(item, ": " .. start[1] .. (#start > 1 and " ..." or ""))
        self:add(item, "diagnosis_effect", diagnosis.effect)
        self:add_lines(item, "diagnosis_message", "Diagnosis in words", diagnosis.message)
        self:add(item, "diagnosis_concerns", diagnosis.concerns)
        for _, number in ipairs(diagnosis.frames) do
            self:add(item, "diagnosis_frame", number)
        end
        self:add(item, "diagnosis_confidence", diagnosis.confidence)
        self:add_lines(item, "diagnosis_remedy", "Try", diagnosis.remedy)
        self:add(item, "diagnosis_rfc", diagnosis.rfc)
    end
end

function View:exchange(tree, datagram, exchange, transmission, all)
    if datagram.slot.response then
        local request = exchange.answered or exchange.requests[1]
        if request then
            self:add(tree, "request_in", request.datagrams[1].number)
        end
        if exchange.rtt and transmission == exchange.ended_by then
            self:add(tree, "response_time", to_time(exchange.rtt))
        end
        local reason = self.needed.extra_round_trip
            and (exchanges.retry_reason(exchange) or contents.retry_reason(datagram))
        if reason then
            self:add(tree, "extra_round_trip", reason)
        end
    elseif exchange.ended_by then
        self:add(tree, "response_in", exchange.ended_by.datagrams[1].number)
    end
    if #all > 1 and datagram.slot.pair.sa.version == 2 then
        self:add(tree, "attempt", exchange.attempt)
    end
end

function View:transmission(tree, transmission)
    self:add(tree, "transmission", transmission.number)
    if transmission.number > 1 then
        self:add(tree, "retransmission", transmission.number - 1)
        self:add(tree, "retransmission_of", transmission.first.datagrams[1].number)
    end
end

function View:fragments(tree, capture, datagram, transmission)
    if datagram.ip_fragments then
        self:add(tree, "ip_fragments", datagram.frames)
    end
    if datagram[FRAGMENT] == 0 then
        return
    end
    local item = self:add(tree, "fragment", datagram.fragment)
    if datagram.total > 0 then
        self:append(item, string.format(" of %d", datagram.total))
        self:add(item, "fragments", datagram.total)
    end
    if not transmission or not transmission.fragments then
        return
    end
    if self.needed.fragment_frame then
        for listed = 1, math.min(#transmission.datagrams, MAX_LISTED) do
            local part = transmission.datagrams[listed]
            self:append(self:add(item, "fragment_frame", part.number), string.format(" (%d)", part.fragment))
        end
    end
    if self.needed.fragment_missing and capture:is_final(transmission.last_time) then
        for _, number in ipairs(findings.missing_fragments(transmission, MAX_LISTED)) do
            self:add(item, "fragment_missing", number)
        end
    end
end

-- How an encrypted message was decrypted, or why it could not be.
function View:decryption(tree, capture, datagram)
    local sa = datagram.slot.pair.sa
    local key, has_no_key = contents.key(datagram), contents.has_no_key(datagram)
    local content = contents.content(datagram)
    if not key and not has_no_key and (datagram.clear or content and not content.encrypted) then
        return
    end
    if not key and not self.needed.decryption then
        return
    elseif key then
        local checked = key.verified and "integrity checked" or "integrity not checked"
        local item = self:add(tree, "decryption", "decrypted, " .. checked)
        if key.count then
            self:append(item, string.format(" (key set %d of %d)", key.position, key.count))
        end
        if key.epoch then
            self:add(item, "epoch", key.epoch)
        end
        self:add(item, "verified", key.verified)
        return
    end
    local text = "no keys for this IKE SA"
    if sa.version == 1 and datagram.parts and not has_no_key then -- decrypted when it is complete
        if not capture:is_final(sa.last_time) then
            return
        end
        text = "fragments of the message are missing"
    elseif has_no_key and capture.keyring:count(sa) > 0 then
        local missing = capture:is_final(sa.last_time) and contents.missing_keys(sa, datagram)
        text = "no matching key" .. (missing and ": " .. missing or "")
    elseif capture.keyring.size == 0 then
        text = "no keys; set the preference ikex.keys, or copy a key file to ikex_keys in the personal folder"
    end
    self:add(tree, "decryption", text)
end

function View:key_exchange(tree, content)
    local exchange = content.key_exchange
    local checks = findings.key_exchange(content)
    local first = exchange.first
    local item = self:add_bytes(tree, "method", first, first + 1, exchange.method)
    local name = names.of(names.method, exchange.method)
    if self.visible then
        item:set_text(string.format("Key exchange: %s, %s, %d bytes", name, checks.role, exchange.size))
    end
    self:add(item, "method_name", name)
    self:add(item, "role", checks.role)
    local length = self:add_bytes(item, "ke_length", first + 4, first + 3 + exchange.size, exchange.size)
    if checks.length_ok ~= nil then
        self:append(length, checks.length_ok and "" or string.format(" instead of %d", checks.expected))
        self:add(item, "length_ok", checks.length_ok)
    end
    if checks.above then
        self:add(item, "modulus_ok", checks.above == 0)
    end
    if exchange.slot then
        self:add(item, "slot", exchange.slot)
    end
    if checks.negotiated ~= nil then
        self:add(item, "negotiated", checks.negotiated)
    end
    if content.pair.linked_to then
        self:add(item, "linked_to", content.pair.linked_to.frame)
    end
end

function View:transforms(tree, content, payload)
    if not self.needed.transform then
        return
    end
    local listed = 0
    for _, proposal in ipairs((proposals.read(message.body(content.data, payload)))) do
        for _, transform in ipairs(proposal.transforms) do
            listed = listed + 1
            if listed > MAX_LISTED then
                return
            end
            local registry = names.transform_ids(transform.type)
            local text = names.of(names.transform_type, transform.type)
                .. ": "
                .. (registry and names.both(registry, transform.id) or compat.format_integer(transform.id))
            if transform.key_bits then
                text = text .. string.format(", %d bits", transform.key_bits)
            end
            local before = payload.first - 1
            self:add_bytes(tree, "transform", before + transform.first, before + transform.last, text)
        end
    end
end

-- The data of N(ADDITIONAL_KEY_EXCHANGE): a field of bytes needs bytes of a tab.
function View:link(tree, notify, payload)
    if not self.needed.link then
        return
    elseif self.source then
        local first = payload.last - #notify.data + 1
        tree:add(self.fields.link, self.source(self.offset + first - 1, #notify.data))
    else
        self:add(tree, "link", ByteArray.new(notify.data, true):tvb("Link"):range())
    end
end

function View:content(tree, content)
    local ikev2 = content.pair.sa.version == 2
    for number, payload in ipairs(content.payloads) do
        if number > MAX_LISTED then
            break
        end
        local name = names.of(ikev2 and names.payload or names.payload1, payload.type)
        local item = self:add_bytes(tree, "payload", payload.first - 4, payload.last, name)
        if ikev2 and payload.type == message.SA then
            self:transforms(item, content, payload)
        elseif ikev2 and payload.type == message.NOTIFY then
            local notify = message.notify(content.data, payload)
            if notify then
                self:add_bytes(item, "notify", payload.first + 2, payload.first + 3, notify.type)
                if notify.type == 16441 and #notify.data > 0 then
                    self:link(item, notify, payload)
                end
            end
        elseif content.key_exchange and payload.first == content.key_exchange.first then
            self:key_exchange(item, content)
        end
    end
end

-- The exchange of a datagram, its transmission, and all exchanges of the pair. They are determined only for fields and
-- findings that need them: most datagrams are the first transmission of a message whose exchange is plain.
function View:find_exchange(capture, datagram)
    local needed, finished = self.needed, capture.finished
    local slot = datagram[SLOT]
    if needed.any_of_exchange then
        return exchanges.of_datagram(datagram, finished)
    elseif finished or (slot.response and INITS[slot.pair.exchange]) then
        if not exchanges.is_plain(slot.pair, finished) then
            return exchanges.of_datagram(datagram, finished)
        end
    end
    if not slot.several and not needed.fragment_frame and not needed.fragment_missing then
        return nil, slots.FIRST
    end
    return nil, slots.transmission_of(datagram, finished)
end

-- Show a frame that has a copy or a part of a message in another frame.
function View:no_message(root, datagram)
    if datagram.duplicate_of then
        self:append(root, string.format(": captured twice, first in frame %d", datagram.duplicate_of.number))
        self:add(root, "duplicate_of", datagram.duplicate_of.number)
    elseif datagram.part_of then
        self:append(root, datagram.part_of.ip_fragments and IP_FRAGMENT or TCP_SEGMENT)
        self:add(root, "part_of", datagram.part_of.number)
    end
end

--- Show a datagram under `tree`, after `begin`, that has neither findings nor a field that is needed.
function View:plain_datagram(tree)
    self.add_item(tree, self.proto)
end

--- Show a datagram under `tree`, after `begin`. `source`, `offset`: the Tvb that has the shown content, and the offset
-- of its first byte there; nil if the frame does not have it. Returns the item of the plugin, and the transmission of
-- the datagram, if it is known.
function View:datagram(tree, capture, datagram, source, offset)
    local root = tree:add(self.proto)
    self.root = root
    self.source, self.offset = offset and source, offset
    if self.visible then
        root:set_generated()
    end
    local slot = datagram[SLOT]
    if not slot then
        self:no_message(root, datagram)
        return root
    end
    local pair = slot.pair
    if self.visible then
        root:append_text(string.format(
            ": handshake %d, %s %s", pair.sa.number, names.of_exchange(pair.sa.version, pair.exchange),
            slot.response and "response" or "request"
        ))
    end
    local needed = self.needed
    if needed.any_of_handshake then
        self:handshake(root, capture, datagram)
    end
    if needed.any_of_diagnosis then
        self:diagnosis(root, capture, pair.sa)
    end
    if needed.any_of_exchange then
        capture:settle(pair.sa)
    end
    local exchange, transmission, all = self:find_exchange(capture, datagram)
    if exchange and needed.any_of_exchange then
        self:exchange(root, datagram, exchange, transmission, all)
    end
    if transmission and needed.any_of_transmission then
        self:transmission(root, transmission)
    end
    if needed.any_of_fragments then
        self:fragments(root, capture, datagram, transmission)
    end
    if needed.any_of_decryption then
        self:decryption(root, capture, datagram)
    end
    local content = needed.any_of_payloads and contents.shown(datagram)
    if content then
        self:content(root, content)
    end
    local list = findings.of_datagram(capture, datagram, exchange, transmission)
    for index = 1, #list do
        root:add_proto_expert_info(self.experts[list[index][1]], list[index][2])
    end
    return root, transmission
end

return View
