--[[ The plugin's tree in the packet details. ]]
local compat = require("ikex.compat")
local exchanges = require("ikex.exchanges")
local findings = require("ikex.findings")
local contents = require("ikex.contents")
local message = require("ikex.message")
local names = require("ikex.names")
local outcome = require("ikex.outcome")
local paths = require("ikex.paths")
local proposals = require("ikex.proposals")

local View = {}
View.__index = View

local MAX_LISTED = 64 -- fragments, payloads, transforms

--- `fields`, `experts`: from the module `fields`; `proto`: the plugin's protocol.
function View.new(proto, fields, experts)
    return setmetatable({ proto = proto, fields = fields, experts = experts }, View)
end

-- Whether a field is shown, or used by a filter, a column or a colour rule. Building an item costs more than asking.
function View:is_needed(tree, name)
    return self.visible or self.referenced(tree, self.fields[name])
end

-- Add a field, if it is needed. Returns its item, or `tree` if it was not added.
function View:add(tree, name, value)
    local field = self.fields[name]
    if self.visible or self.referenced(tree, field) then
        local item = tree:add(field, value)
        item:set_generated()
        return item
    end
    return tree
end

-- Append text to the item of a field, which may not have been added.
function View:append(item, text)
    if self.visible then
        item:append_text(text)
    end
end

local function ms(us)
    return us / 1000
end

function View:handshake(tree, capture, datagram)
    local sa = datagram.slot.pair.sa
    self:add(tree, "handshake", sa.number)
    if self:is_needed(tree, "exchange") then
        self:add(tree, "exchange", names.of_exchange(sa.version, datagram.slot.pair.exchange))
    end
    self:add(tree, "sender", datagram.slot.from_initiator and "initiator" or "responder")
    self:add(tree, "kind", datagram.slot.response and "response" or "request")
    self:add(tree, "time", ms(datagram.time - sa.start))
    if self:is_needed(tree, "bytes_initiator") or self:is_needed(tree, "bytes_responder") then
        self:add(tree, "bytes_initiator", UInt64(datagram.sent_by_initiator))
        self:add(tree, "bytes_responder", UInt64(datagram.sent_by_responder))
    end
    local replaced = capture.replaced[sa.spi_i .. sa.spi_r]
    if replaced then
        self:add(tree, "replaces", replaced.number)
    end
    if capture.finished and (self:is_needed(tree, "outcome") or self:is_needed(tree, "reason")) then
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

function View:exchange(tree, datagram, exchange, transmission, all)
    if not exchange then
        return
    end
    if datagram.slot.response then
        local request = exchange.answered or exchange.requests[1]
        if request then
            self:add(tree, "request_in", request.datagrams[1].number)
        end
        if exchange.rtt and transmission == exchange.ended_by then
            self:add(tree, "response_time", ms(exchange.rtt))
        end
        local reason = self:is_needed(tree, "extra_round_trip") and exchanges.retry_reason(exchange)
        if reason then
            self:add(tree, "extra_round_trip", reason)
        end
    elseif exchange.ended_by then
        self:add(tree, "response_in", exchange.ended_by.datagrams[1].number)
    end
    if #all > 1 and datagram.slot.pair.sa.version == 2 then
        self:add(tree, "attempt", exchange.attempt)
    end
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
    if datagram.fragment == 0 then
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
    if self:is_needed(tree, "fragment_frame") then
        for listed = 1, math.min(#transmission.datagrams, MAX_LISTED) do
            local part = transmission.datagrams[listed]
            self:append(self:add(item, "fragment_frame", part.number), string.format(" (%d)", part.fragment))
        end
    end
    if self:is_needed(tree, "fragment_missing") and capture:is_final(transmission.last_time) then
        for _, number in ipairs(findings.missing_fragments(transmission, MAX_LISTED)) do
            self:add(item, "fragment_missing", number)
        end
    end
end

-- How an encrypted message was decrypted, or why it could not be.
function View:decryption(tree, capture, datagram)
    local sa = datagram.slot.pair.sa
    if datagram.clear then
        return
    end
    local key = datagram.key
    if not key and not self:is_needed(tree, "decryption") then
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
    if datagram.no_key and capture.keyring:count(sa.spi_i, sa.spi_r) > 0 then
        text = "no matching key"
    elseif capture.keyring.size == 0 then
        text = "no keys; set the preference ikex.keys to a key file"
    end
    self:add(tree, "decryption", text)
end

function View:key_exchange(tree, content)
    local exchange = content.key_exchange
    local checks = findings.key_exchange(content)
    local item = self:add(tree, "method", exchange.method)
    local name = names.of(names.method, exchange.method)
    if self.visible then
        item:set_text(string.format("Key exchange: %s, %s, %d bytes", name, checks.role, #exchange.data))
    end
    self:add(item, "method_name", name)
    self:add(item, "role", checks.role)
    local length = self:add(item, "ke_length", #exchange.data)
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
    if not self:is_needed(tree, "transform") then
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
            self:add(tree, "transform", text)
        end
    end
end

function View:content(tree, content)
    local ikev2 = content.pair.sa.version == 2
    for number, payload in ipairs(content.payloads) do
        if number > MAX_LISTED then
            break
        end
        local name = names.of(ikev2 and names.payload or names.payload1, payload.type)
        local item = self:add(tree, "payload", name)
        if ikev2 and payload.type == message.SA then
            self:transforms(item, content, payload)
        elseif ikev2 and payload.type == message.NOTIFY then
            local notify = message.notify(content.data, payload)
            if notify then
                self:add(item, "notify", names.both(names.notify, notify.type))
                if notify.type == 16441 and #notify.data > 0 then
                    self:add(item, "link", ByteArray.new(notify.data, true):tvb("Link"):range())
                end
            end
        elseif content.key_exchange and payload == content.key_exchange.payload then
            self:key_exchange(item, content)
        end
    end
end

--- Show a datagram under `tree`. Returns the item of the plugin.
function View:datagram(tree, capture, datagram)
    local root = tree:add(self.proto)
    root:set_generated()
    self.visible, self.referenced = tree.visible, tree.referenced
    if datagram.duplicate_of then
        self:append(root, string.format(": captured twice, first in frame %d", datagram.duplicate_of.number))
        self:add(root, "duplicate_of", datagram.duplicate_of.number)
        return root
    elseif datagram.part_of then
        self:append(root, ": IP fragment of an IKE message")
        self:add(root, "part_of", datagram.part_of.number)
        return root
    end
    local pair = datagram.slot.pair
    if self.visible then
        root:append_text(string.format(
            ": handshake %d, %s %s", pair.sa.number, names.of_exchange(pair.sa.version, pair.exchange),
            datagram.slot.response and "response" or "request"
        ))
    end
    if capture.finished then
        paths.settle(pair.sa)
    end
    self:handshake(root, capture, datagram)
    local exchange, transmission, all = exchanges.of_datagram(datagram)
    self:exchange(root, datagram, exchange, transmission, all)
    self:fragments(root, capture, datagram, transmission)
    self:decryption(root, capture, datagram)
    local content = contents.content(datagram)
    -- the contents of a fragmented message are shown in the frame that completed it
    if content and (content.frame == datagram.number or datagram.fragment == 0) then
        self:content(root, content)
    end
    for _, finding in ipairs(findings.of_datagram(capture, datagram, exchange, transmission)) do
        root:add_proto_expert_info(self.experts[finding[1]], finding[2])
    end
    return root
end

return View
