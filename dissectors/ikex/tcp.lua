-- IKE and ESP in TCP: the streams of RFC 9329 (and of RFC 8229 before it).
--
-- Whoever opens the connection sends the six bytes "IKETCP" once. From then on both sides send messages, each behind
-- its length: 16 bits, which count themselves. Four zero bytes, the non-ESP marker, come before an IKE message, and an
-- ESP packet has none. This dissector finds the messages, over as many segments as they take, and gives them to the
-- native dissectors "isakmp" and "esp"; so all fields and filters of these work inside.
--
-- A capture may begin in the middle of a stream, or miss a segment. Where messages begin is then unknown, until a
-- segment has a whole IKE header in the right place: a version, and a length that agrees with the one in front of it.
-- Until then, and where the lengths stop making sense, the tree says so and nothing is guessed.
--
-- Needs: Lua 5.2 or later, any Wireshark with `pinfo.desegment_len`. The preference "TCP ports" names the ports.
-- This file only defines things; `register()` makes the protocol, once.

local M = {}

local PREFIX = "IKETCP"
local MARKER = 4
local LENGTH = 2
-- Length, marker and IKE header: what tells an IKE message for certain.
local ENOUGH = LENGTH + MARKER + 28
local ESP_HEADER = 8

local protocol, field, expert_info, subprotocols
-- See `register`.
local listener

-- Directions of streams in which it is known where messages begin: the number of the frame that told it.
local in_step = {}

local function text(tvb, offset, length)
    return tvb:raw(offset, length)
end

-- Is there an IKE message at `offset`, beyond doubt? Needs its header captured.
local function is_ike(tvb, offset)
    if tvb:len() - offset < ENOUGH then
        return false
    end
    local version = tvb:range(offset + LENGTH + MARKER + 17, 1):uint()
    return tvb:range(offset + LENGTH, MARKER):uint() == 0
        and (version == 0x20 or version == 0x10)
        and tvb:range(offset, LENGTH):uint() == tvb:range(offset + LENGTH + MARKER + 24, 4):uint() + LENGTH + MARKER
end

local function begins_with_prefix(tvb, offset)
    return tvb:len() - offset >= #PREFIX and text(tvb, offset, #PREFIX) == PREFIX
end

-- The first offset at which an IKE message begins, or nil. A message begins behind a marker, and markers are rare.
local function find_ike(tvb)
    local bytes, from = text(tvb, 0, tvb:len()), 1
    while true do
        local at = bytes:find("\0\0\0\0", from, true)
        if not at then
            return nil
        end
        if at > LENGTH and is_ike(tvb, at - 1 - LENGTH) then
            return at - 1 - LENGTH
        end
        from = at + 1
    end
end

-- By both ends, and not by tcp.stream: a field that Lua asks for makes Wireshark build a tree for each packet, of whatever protocol.
local function direction(pinfo)
    return string.format("%s %d %s %d", tostring(pinfo.src), pinfo.src_port, tostring(pinfo.dst), pinfo.dst_port)
end

local function give(name, tvb, pinfo, tree)
    if listener then
        listener(name, tvb, pinfo)
    end
    -- A dissector that runs off its end has already said so in the tree; for Lua it is an error besides.
    pcall(subprotocols[name].call, subprotocols[name], tvb, pinfo, tree)
end

-- One message with all of its bytes: its row in the tree, and what the native dissectors make of it.
local function message(tvb, pinfo, tree, offset, size)
    local all = tvb:range(offset, size)
    local own = tree:add(protocol, all)
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
        give("isakmp", tvb:range(offset + LENGTH + MARKER, body - MARKER):tvb(), pinfo, tree)
    else
        own:append_text(": ESP packet")
        if body < ESP_HEADER then
            own:add_proto_expert_info(expert_info.short)
            return
        end
        give("esp", tvb:range(offset + LENGTH, body):tvb(), pinfo, tree)
    end
end

-- Ask for more of the stream: from `offset` on, `count` bytes more than there are (nil: as many as come).
local function more(pinfo, offset, count)
    pinfo.desegment_offset = offset
    pinfo.desegment_len = count or DESEGMENT_ONE_MORE_SEGMENT
end

local function rest(tvb, tree, offset, expert, why)
    if tvb:len() > offset then
        local own = tree:add(protocol, tvb:range(offset))
        own:append_text(": " .. why)
        own:add_proto_expert_info(expert)
    end
end

-- What is known of the place where messages begin: the offset to start at, or nil.
local function first_message(tvb, pinfo, key)
    if begins_with_prefix(tvb, 0) or is_ike(tvb, 0) then
        return 0
    end
    local since = in_step[key]
    if since and since <= pinfo.number then
        return 0
    end
    return find_ike(tvb)
end

local function dissect(tvb, pinfo, tree)
    local total, captured = tvb:reported_len(), tvb:len()
    pinfo.cols.protocol = "IKE/TCP"
    -- The prefix may come byte by byte.
    if total < #PREFIX and captured == total and text(tvb, 0, total) == PREFIX:sub(1, total) and pinfo.can_desegment > 0 then
        more(pinfo, 0, #PREFIX - total)
        return total
    end
    local key = direction(pinfo)
    local offset = first_message(tvb, pinfo, key)
    if not offset then
        rest(tvb, tree, 0, expert_info.unknown, "the middle of a message")
        return total
    end
    if not in_step[key] or in_step[key] > pinfo.number then
        in_step[key] = pinfo.number
    end
    if offset > 0 then
        local before = tree:add(protocol, tvb:range(0, offset))
        before:append_text(": the end of a message that began before the capture")
        before:add_proto_expert_info(expert_info.unknown)
    end
    local shown = false
    while offset < total do
        local left, there = total - offset, captured - offset
        if begins_with_prefix(tvb, offset) then
            local own = tree:add(protocol, tvb:range(offset, #PREFIX))
            own:append_text(": stream prefix")
            own:add(field.prefix, tvb:range(offset, #PREFIX))
            pinfo.cols.info:set("Stream prefix")
            offset = offset + #PREFIX
            shown = true
        elseif there < LENGTH then
            if pinfo.can_desegment > 0 and there == left then
                more(pinfo, offset)
            else
                rest(tvb, tree, offset, expert_info.incomplete, "a message that is not complete")
            end
            return total
        else
            local size = tvb:range(offset, LENGTH):uint()
            local known = there >= ENOUGH and tvb:range(offset + LENGTH, MARKER):uint() == 0
            if size < LENGTH or (known and size > left and not is_ike(tvb, offset)) then
                in_step[key] = nil
                rest(tvb, tree, offset, expert_info.lost, "not the beginning of a message")
                return total
            end
            if size > left and pinfo.can_desegment > 0 then
                more(pinfo, offset, size - left)
                return total
            end
            if size > there then
                rest(tvb, tree, offset, expert_info.incomplete, "a message that is not complete")
                return total
            end
            if shown then
                pinfo.cols.info:append(", ") -- what a native dissector writes then stands behind it
                pinfo.cols.info:fence()
            end
            message(tvb, pinfo, tree, offset, size)
            offset = offset + size
            shown = true
        end
    end
    return total
end

-- Make the protocol "iketcp" and take the ports. To be called once, while Wireshark loads. `heard`, if it is given, is called with
-- "isakmp" or "esp", the message as a Tvb, and pinfo, before the native dissector is.
function M.register(heard)
    listener = heard
    protocol = Proto("iketcp", "IKE and ESP in TCP (RFC 9329)")
    field = {
        prefix = ProtoField.string("iketcp.prefix", "Stream prefix"),
        length = ProtoField.uint16("iketcp.length", "Length, itself included", base.DEC),
        marker = ProtoField.bytes("iketcp.non_esp_marker", "Non-ESP marker"),
        keepalive = ProtoField.bytes("iketcp.keepalive", "NAT keepalive"),
    }
    protocol.fields = { field.prefix, field.length, field.marker, field.keepalive }
    expert_info = {
        short = ProtoExpert.new(
            "iketcp.short", "Too short for an IKE or ESP header", expert.group.MALFORMED, expert.severity.ERROR),
        disagrees = ProtoExpert.new(
            "iketcp.length.disagrees", "Its length is not the one in the IKE header, or there is no IKE header",
            expert.group.MALFORMED, expert.severity.WARN),
        lost = ProtoExpert.new(
            "iketcp.lost", "No message begins here: the lengths before do not add up",
            expert.group.MALFORMED, expert.severity.ERROR),
        unknown = ProtoExpert.new(
            "iketcp.unknown", "The capture does not tell where messages begin",
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
    local taken = "4500"
    protocol.prefs.ports = Pref.range("TCP ports", taken, "TCP ports with IKE and ESP in them", 65535)
    protocol.prefs_changed = function()
        if protocol.prefs.ports ~= taken then
            if taken ~= "" then
                ports:remove(taken, protocol)
            end
            taken = protocol.prefs.ports
            if taken ~= "" then
                ports:add(taken, protocol)
            end
        end
    end
    protocol.init = function()
        in_step = {}
    end
    protocol.dissector = dissect
    ports:add(taken, protocol)
    return protocol
end

return M
