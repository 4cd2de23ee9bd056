-- A dissector for IKE and ESP in TCP (RFC 9329, which replaced RFC 8229).
--
-- The initiator of the connection sends the six bytes "IKETCP" once. Then both sides send messages, each after its
-- length: 16 bits, which include the length field. Four zero bytes, the non-ESP marker, precede an IKE message but not
-- an ESP packet. This dissector reassembles the messages from the segments and passes them to the built-in dissectors
-- "isakmp" and "esp", so that all fields and filters of these work.
--
-- A capture may begin in the middle of a stream, or miss a segment. The start of the messages is then unknown, until a
-- segment has a complete IKE header with a valid version and with a length that agrees with the length before it. Until
-- then, and if a length is impossible, an expert info reports this and the dissector does not guess.
--
-- Needs: Lua 5.2 or later, any Wireshark with `pinfo.desegment_len`. The preference "TCP ports" sets the ports.
-- Loading this file has no side effects; `register()` registers the protocol and must be called once.

local framing = require("ikex.framing")

local tcp = {}

local PREFIX, LENGTH, MARKER = framing.PREFIX, framing.LENGTH, #framing.MARKER
local CERTAIN, ESP_HEADER = framing.CERTAIN, framing.ESP_HEADER

local protocol, field, expert_info, subprotocols

-- By direction of a stream: the number of the frame from which on the start of the messages is known.
local synchronised_since = {}

local function text(tvb, offset, length)
    return tvb:raw(offset, length)
end

-- Whether an IKE message certainly begins at `offset`. Its header must have been captured.
local function is_ike(tvb, offset)
    if tvb:len() - offset < CERTAIN then
        return false
    end
    local version = tvb:range(offset + LENGTH + MARKER + 17, 1):uint()
    return tvb:range(offset + LENGTH, MARKER):uint() == 0
        and (version == 0x20 or version == 0x10)
        and tvb:range(offset, LENGTH):uint() == tvb:range(offset + LENGTH + MARKER + 24, 4):uint() + LENGTH + MARKER
end

-- Whether an IKE message may begin with a segment of too few bytes to be certain.
local function may_be_ike(tvb)
    local total = tvb:len()
    if total >= CERTAIN or total ~= tvb:reported_len() then
        return false
    end
    local marker = text(tvb, 0, total):sub(LENGTH + 1, LENGTH + MARKER)
    return marker == ("\0"):rep(#marker) and (total < LENGTH or tvb:range(0, LENGTH):uint() >= CERTAIN)
end

local function begins_with_prefix(tvb, offset)
    return tvb:len() - offset >= #PREFIX and text(tvb, offset, #PREFIX) == PREFIX
end

-- The first offset at which an IKE message begins, or nil. Searches for markers, which are rare.
local function find_ike(tvb)
    local bytes, from = text(tvb, 0, tvb:len()), 1
    while true do
        local at = bytes:find(framing.MARKER, from, true)
        if not at then
            return nil
        end
        if at > LENGTH and is_ike(tvb, at - 1 - LENGTH) then
            return at - 1 - LENGTH
        end
        from = at + 1
    end
end

-- By both endpoints and not by tcp.stream: a field that Lua requests makes Wireshark build a tree for each packet of
-- any protocol.
local function format_direction(pinfo)
    return string.format("%s %d %s %d", tostring(pinfo.src), pinfo.src_port, tostring(pinfo.dst), pinfo.dst_port)
end

local function call_dissector(name, tvb, pinfo, tree)
    -- A dissector that reads past the end reports this in the tree, and also raises a Lua error.
    pcall(subprotocols[name].call, subprotocols[name], tvb, pinfo, tree)
end

-- Dissect one complete message: add its item to the tree, and call the built-in dissector.
local function dissect_message(tvb, pinfo, tree, offset, size)
    local own = tree:add(protocol, tvb:range(offset, size))
    own:add(field.length, tvb:range(offset, LENGTH))
    local body = size - LENGTH
    if body == 0 then
        own:append_text(": empty")
    elseif body == 1 then
        own:append_text(": keepalive")
        own:add(field.keepalive, tvb:range(offset + LENGTH, 1))
    elseif body < MARKER then
        own:add_proto_expert_info(expert_info.short)
    elseif tvb:range(offset + LENGTH, MARKER):uint() == 0 then
        own:append_text(": IKE message")
        own:add(field.marker, tvb:range(offset + LENGTH, MARKER))
        if body == MARKER then
            own:add_proto_expert_info(expert_info.short)
            return
        end
        if not is_ike(tvb, offset) then
            own:add_proto_expert_info(expert_info.disagrees)
        end
        call_dissector("isakmp", tvb:range(offset + LENGTH + MARKER, body - MARKER):tvb(), pinfo, tree)
    else
        own:append_text(": ESP packet")
        if body < ESP_HEADER then
            own:add_proto_expert_info(expert_info.short)
            return
        end
        call_dissector("esp", tvb:range(offset + LENGTH, body):tvb(), pinfo, tree)
    end
end

-- Request reassembly from `offset` on, with `count` more bytes (nil: one more segment).
local function request_bytes(pinfo, offset, count)
    pinfo.desegment_offset = offset
    pinfo.desegment_len = count or DESEGMENT_ONE_MORE_SEGMENT
end

local function add_rest(tvb, tree, offset, expert, description)
    if tvb:len() > offset then
        local own = tree:add(protocol, tvb:range(offset))
        own:append_text(": " .. description)
        own:add_proto_expert_info(expert)
    end
end

-- The offset of the first message, or nil if it is unknown.
local function find_first_message(tvb, pinfo, key)
    if begins_with_prefix(tvb, 0) or is_ike(tvb, 0) then
        return 0
    end
    local since = synchronised_since[key]
    if since and since <= pinfo.number then
        return 0
    end
    return find_ike(tvb)
end

local function dissect(tvb, pinfo, tree)
    local total, captured = tvb:reported_len(), tvb:len()
    pinfo.cols.protocol = "IKE/TCP"
    -- The prefix may be in several segments.
    local part_of_prefix = total < #PREFIX and captured == total and text(tvb, 0, total) == PREFIX:sub(1, total)
    if part_of_prefix and pinfo.can_desegment > 0 then
        request_bytes(pinfo, 0, #PREFIX - total)
        return total
    end
    local key = format_direction(pinfo)
    local offset = find_first_message(tvb, pinfo, key)
    if not offset and pinfo.can_desegment > 0 and may_be_ike(tvb) then
        request_bytes(pinfo, 0)
        return total
    elseif not offset then
        add_rest(tvb, tree, 0, expert_info.unknown, "the middle of a message")
        return total
    end
    if not synchronised_since[key] or synchronised_since[key] > pinfo.number then
        synchronised_since[key] = pinfo.number
    end
    if offset > 0 then
        local before = tree:add(protocol, tvb:range(0, offset))
        before:append_text(": the end of a message that began before the capture")
        before:add_proto_expert_info(expert_info.unknown)
    end
    local shown = false
    while offset < total do
        local left, available = total - offset, captured - offset
        if begins_with_prefix(tvb, offset) then
            local own = tree:add(protocol, tvb:range(offset, #PREFIX))
            own:append_text(": stream prefix")
            own:add(field.prefix, tvb:range(offset, #PREFIX))
            pinfo.cols.info:set("Stream prefix")
            offset = offset + #PREFIX
            shown = true
        elseif available < LENGTH then
            if pinfo.can_desegment > 0 and available == left then
                request_bytes(pinfo, offset)
            else
                add_rest(tvb, tree, offset, expert_info.incomplete, "incomplete message")
            end
            return total
        else
            local size = tvb:range(offset, LENGTH):uint()
            local marked = available >= CERTAIN and tvb:range(offset + LENGTH, MARKER):uint() == 0
            if size < LENGTH or (marked and size > left and not is_ike(tvb, offset)) then
                synchronised_since[key] = nil
                add_rest(tvb, tree, offset, expert_info.lost, "not the beginning of a message")
                return total
            end
            if size > left and pinfo.can_desegment > 0 then
                request_bytes(pinfo, offset, size - left)
                return total
            end
            if size > available then
                add_rest(tvb, tree, offset, expert_info.incomplete, "incomplete message")
                return total
            end
            if shown then
                pinfo.cols.info:append(", ") -- the built-in dissector appends to this
                pinfo.cols.info:fence()
            end
            dissect_message(tvb, pinfo, tree, offset, size)
            offset = offset + size
            shown = true
        end
    end
    return total
end

-- Register the protocol "iketcp" and its ports. To be called once, while Wireshark loads.
function tcp.register()
    protocol = Proto("iketcp", "IKE and ESP in TCP (RFC 9329)")
    field = {
        prefix = ProtoField.string("iketcp.prefix", "Stream prefix"),
        length = ProtoField.uint16("iketcp.length", "Length, including this field", base.DEC),
        marker = ProtoField.bytes("iketcp.non_esp_marker", "Non-ESP marker"),
        keepalive = ProtoField.bytes("iketcp.keepalive", "NAT keepalive"),
    }
    protocol.fields = { field.prefix, field.length, field.marker, field.keepalive }
    expert_info = {
        short = ProtoExpert.new(
            "iketcp.short", "Too short for an IKE or ESP header", expert.group.MALFORMED, expert.severity.ERROR),
        disagrees = ProtoExpert.new(
            "iketcp.length.disagrees", "The length differs from that in the IKE header, or there is no IKE header",
            expert.group.MALFORMED, expert.severity.WARN),
        lost = ProtoExpert.new(
            "iketcp.lost", "No message begins here: an earlier length was wrong",
            expert.group.MALFORMED, expert.severity.ERROR),
        unknown = ProtoExpert.new(
            "iketcp.unknown", "The start of the messages is unknown",
            expert.group.UNDECODED, expert.severity.NOTE),
        incomplete = ProtoExpert.new(
            "iketcp.incomplete", "The rest of the message is not in the capture",
            expert.group.UNDECODED, expert.severity.WARN),
    }
    protocol.experts = {
        expert_info.short, expert_info.disagrees, expert_info.lost, expert_info.unknown, expert_info.incomplete,
    }
    subprotocols = { isakmp = Dissector.get("isakmp"), esp = Dissector.get("esp") }

    local ports = DissectorTable.get("tcp.port")
    local registered = "4500"
    protocol.prefs.ports = Pref.range("TCP ports", registered, "TCP ports that carry IKE and ESP", 65535)
    protocol.prefs_changed = function()
        if protocol.prefs.ports ~= registered then
            if registered ~= "" then
                ports:remove(registered, protocol)
            end
            registered = protocol.prefs.ports
            if registered ~= "" then
                ports:add(registered, protocol)
            end
        end
    end
    protocol.init = function()
        synchronised_since = {}
    end
    protocol.dissector = dissect
    ports:add(registered, protocol)
    return protocol
end

return tcp
