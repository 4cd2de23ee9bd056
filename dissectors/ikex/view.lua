--[[ The plugin's part of the packet details. ]]
local compat = require("ikex.compat")
local exchanges = require("ikex.exchanges")
local findings = require("ikex.findings")
local contents = require("ikex.contents")
local message = require("ikex.message")
local names = require("ikex.names")
local proposals = require("ikex.proposals")

local View = {}
View.__index = View

local MOST = 64 -- fragments, payloads, transforms of one kind that are listed

--- `fields` and `experts`: what the module fields made; `proto`: the plugin's protocol.
function View.new(proto, fields, experts)
    return setmetatable({ proto = proto, fields = fields, experts = experts }, View)
end

local function generated(item)
    item:set_generated()
    return item
end

function View:add(tree, name, value)
    return generated(tree:add(self.fields[name], value))
end

local function ms(us)
    return us / 1000
end

function View:handshake(tree, state, unit)
    local sa = unit.slot.pair.sa
    self:add(tree, "handshake", sa.number)
    self:add(tree, "exchange", names.of_exchange(sa.version, unit.slot.pair.exchange))
    self:add(tree, "sender", unit.slot.from_initiator and "initiator" or "responder")
    self:add(tree, "kind", unit.slot.response and "response" or "request")
    self:add(tree, "time", ms(unit.time - sa.start))
    self:add(tree, "bytes_initiator", UInt64(unit.sent_by_initiator))
    self:add(tree, "bytes_responder", UInt64(unit.sent_by_responder))
    local before = state.replaced[sa.spi_i .. sa.spi_r]
    if before then
        self:add(tree, "replaces", before.number)
    end
    if state.finished then
        local summary = state:summary(sa)
        self:add(tree, "outcome", summary.outcome)
        if summary.reason then
            self:add(tree, "reason", summary.reason)
        end
    end
end

function View:exchange(tree, unit, exchange, sent, all)
    if not exchange then
        return
    end
    if unit.slot.response then
        local request = exchange.answered or exchange.requests[1]
        if request then
            self:add(tree, "request_in", request.units[1].number)
        end
        if exchange.rtt and sent == exchange.ended_by then
            self:add(tree, "response_time", ms(exchange.rtt))
        end
        local reason = exchanges.asked_again(exchange)
        if reason then
            self:add(tree, "extra_round_trip", reason)
        end
    elseif exchange.ended_by then
        self:add(tree, "response_in", exchange.ended_by.units[1].number)
    end
    if #all > 1 and unit.slot.pair.sa.version == 2 then
        self:add(tree, "attempt", exchange.attempt)
    end
    self:add(tree, "transmission", sent.transmission)
    if sent.transmission > 1 then
        self:add(tree, "retransmission", sent.transmission - 1)
        self:add(tree, "retransmission_of", sent.first.units[1].number)
    end
end

function View:fragments(tree, state, unit, sent)
    if unit.ip_fragments then
        self:add(tree, "ip_fragments", unit.frames)
    end
    if unit.fragment == 0 then
        return
    end
    local item = self:add(tree, "fragment", unit.fragment)
    if unit.total > 0 then
        item:append_text(string.format(" of %d", unit.total))
        self:add(item, "fragments", unit.total)
    end
    if not sent or not sent.seen then
        return
    end
    local listed = 0
    for _, one in ipairs(sent.units) do
        listed = listed + 1
        if listed > MOST then
            break
        end
        self:add(item, "fragment_frame", one.number):append_text(string.format(" (%d)", one.fragment))
    end
    if state.finished then
        for _, number in ipairs(findings.missing(sent, MOST)) do
            self:add(item, "fragment_missing", number)
        end
    end
end

-- What can be said of a sealed message: which keys opened it, or what would.
function View:decryption(tree, state, unit)
    local sa = unit.slot.pair.sa
    if unit.clear or sa.version ~= 2 then
        return
    end
    local key = unit.key
    local text
    if key then
        text = key.verified and "by the key set whose tag fits"
            or string.format("epoch %d taken by order, integrity not checked", key.epoch)
        local item = self:add(tree, "decryption", text)
        if key.count then
            item:append_text(string.format(", key set %d of %d", key.position, key.count))
        end
        self:add(item, "epoch", key.epoch)
        self:add(item, "verified", key.verified)
        return
    end
    if not compat.has_ciphers then
        text = "not by this version of Wireshark: `ikeanalyze decrypt` writes the capture in clear"
    elseif unit.no_key and state.keyring:count(sa.spi_i, sa.spi_r) > 0 then
        text = "no key fits"
    elseif state.keyring.size == 0 then
        text = "no keys: the preference ikex.keys names a key file"
    else
        text = "no keys of this IKE SA"
    end
    self:add(tree, "decryption", text)
end

function View:key_exchange(tree, content)
    local exchange = content.key_exchange
    local judged = findings.key_exchange(content)
    local item = self:add(tree, "method", exchange.method)
    local name = names.of(names.method, exchange.method)
    item:set_text(string.format("Key exchange: %s, %s, %d bytes", name, judged.role, #exchange.data))
    self:add(item, "method_name", name)
    self:add(item, "role", judged.role)
    local length = self:add(item, "ke_length", #exchange.data)
    if judged.length_ok ~= nil then
        length:append_text(judged.length_ok and "" or string.format(" instead of %d", judged.expected))
        self:add(item, "length_ok", judged.length_ok)
    end
    if judged.above then
        self:add(item, "modulus_ok", judged.above == 0)
    end
    if exchange.slot then
        self:add(item, "slot", exchange.slot)
    end
    if judged.negotiated ~= nil then
        self:add(item, "negotiated", judged.negotiated)
    end
    if content.pair.linked_to then
        self:add(item, "linked_to", content.pair.linked_to.frame)
    end
end

function View:transforms(tree, content, payload)
    local listed = 0
    for _, proposal in ipairs((proposals.read(message.body(content.data, payload)))) do
        for _, transform in ipairs(proposal.transforms) do
            listed = listed + 1
            if listed > MOST then
                return
            end
            local registry = names.transform_ids(transform.type)
            local text = names.of(names.transform_type, transform.type)
                .. ": "
                .. (registry and names.both(registry, transform.id) or compat.whole(transform.id))
            if transform.key_bits then
                text = text .. string.format(", %d bits", transform.key_bits)
            end
            self:add(tree, "transform", text)
        end
    end
end

function View:content(tree, content)
    for number, payload in ipairs(content.payloads) do
        if number > MOST then
            break
        end
        local name = content.pair.sa.version == 2 and names.of(names.payload, payload.type) or compat.whole(payload.type)
        local item = self:add(tree, "payload", name)
        if content.pair.sa.version ~= 2 then
            item:set_hidden()
        elseif payload.type == message.SA then
            self:transforms(item, content, payload)
        elseif payload.type == message.NOTIFY then
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

--- Show a unit under `tree`. `state`: the capture.
function View:unit(tree, state, unit)
    local root = tree:add(self.proto)
    root:set_generated()
    if unit.duplicate_of then
        root:append_text(string.format(": captured twice, first in frame %d", unit.duplicate_of.number))
        self:add(root, "duplicate_of", unit.duplicate_of.number)
        return root
    elseif unit.part_of then
        root:append_text(": IP fragment of an IKE message")
        self:add(root, "part_of", unit.part_of.number)
        return root
    end
    local pair = unit.slot.pair
    root:append_text(string.format(
        ": handshake %d, %s %s", pair.sa.number, names.of_exchange(pair.sa.version, pair.exchange),
        unit.slot.response and "response" or "request"
    ))
    self:handshake(root, state, unit)
    local exchange, sent, all = exchanges.of_unit(unit)
    self:exchange(root, unit, exchange, sent, all)
    self:fragments(root, state, unit, sent)
    self:decryption(root, state, unit)
    local content = contents.content(unit)
    -- of a message in fragments, the frame that completed it has the contents
    if content and (content.frame == unit.number or unit.fragment == 0) then
        self:content(root, content)
    end
    for _, finding in ipairs(findings.of(state, unit, exchange, sent)) do
        root:add_proto_expert_info(self.experts[finding[1]], finding[2])
    end
    return root
end

return View
