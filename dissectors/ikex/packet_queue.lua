--[[ Packets as they go by: those that may carry IKE are put aside with as little work as can be, and made into messages when
somebody wants to know. For a plain listing nobody ever does. ]]
local Fragments = require("ikex.ipfragments")
local message = require("ikex.message")
local packet = require("ikex.packet")

local PacketQueue = {}
PacketQueue.__index = PacketQueue

local byte, floor, sub = string.byte, math.floor, string.sub

local SK, SKF = message.SK, message.SKF
local TAIL = 24 -- bytes at the end of an encrypted message, with its ICV, by which it is known
local AROUND = 36 -- of an encrypted message: its header and fragment numbers
local MOST_HELD = 64 * 1024 * 1024 -- bytes of packets that are put aside whole
local PREFIX = "IKETCP" -- of a stream: RFC 9329, 3

PacketQueue.TAIL = TAIL

--- `whole`: encrypted messages are wanted with all of their bytes.
function PacketQueue.new(whole)
    local self = setmetatable({
        whole = whole,
        fragments = Fragments.new(),
        segments = {}, -- of TCP, by direction: those that no message has been made of yet
        highest = {}, -- sequence number behind the last of them, by direction
        last_time = 0, -- of all packets, s
        latest = 0, -- number of the latest packet
    }, PacketQueue)
    self:forget()
    return self
end

-- What was put aside, in arrays side by side: a table for each packet would take longer, and more room.
function PacketQueue:forget()
    self.numbers, self.times, self.sizes, self.raws, self.ports = {}, {}, {}, {}, {}
    self.tails, self.lengths, self.ends = {}, {}, {}
    self.count, self.compacted, self.held = 0, 0, 0
end

-- Of encrypted messages that nothing opens, keep what tells them apart.
local function compact(self)
    for n = self.compacted + 1, self.whole and 0 or self.count do
        local raw, ports = self.raws[n], self.ports[n]
        local udp, _, _, fragmented
        if ports > 0 then
            udp, _, _, fragmented = packet.datagram(raw, floor(ports / 65536), ports % 65536)
        end
        local at = udp and not fragmented and packet.message(raw, udp, floor(ports / 65536), ports % 65536)
        if at then
            local following, _, _, _, _, _, _, _, l1, l2, l3, l4 = byte(raw, at + 16, at + 27)
            if l4 and (following == SK or following == SKF) then
                local last = at - 1 + ((l1 * 256 + l2) * 256 + l3) * 256 + l4
                self.lengths[n] = #raw
                self.tails[n] = sub(raw, last - TAIL + 1, last)
                self.raws[n] = sub(raw, 1, at + AROUND - 1)
            end
        end
    end
    self.compacted, self.held = self.count, 0
end

local function put(self, number, time, size, raw, ports)
    local n = self.count + 1
    self.count = n
    self.numbers[n], self.times[n], self.sizes[n], self.raws[n], self.ports[n] = number, time, size, raw, ports
    local held = self.held + #raw
    self.held = held
    if held > MOST_HELD then
        compact(self)
    end
end

--- A packet on a port of IKE: UDP, or a segment of TCP. `time`: s; `size`: bytes of the frame.
function PacketQueue:packet(number, time, size, raw, source_port, destination_port)
    if (source_port == 4500 or destination_port == 4500) and not packet.is_marked(raw, source_port, destination_port) then
        local udp = packet.datagram(raw, source_port, destination_port)
        if udp and not packet.message(raw, udp, source_port, destination_port) then
            return -- ESP
        end
    end
    put(self, number, time, size, raw, source_port * 65536 + destination_port)
end

--- A packet without ports, which may be an IP fragment.
function PacketQueue:bare(number, time, size, raw)
    local fragment = packet.ip_fragment(raw, size)
    if fragment and fragment.proto == packet.UDP then
        put(self, number, time, size, raw, 0)
    end
end

--- A message in a TCP stream, `data`; of another protocol, nil. It comes before the packet that has its last segment.
function PacketQueue:heard(number, time, size, data, source, destination, source_port, destination_port)
    put(self, number, time, size, data or "", -1)
    self.ends[self.count] = {
        source = source, destination = destination, source_port = source_port, destination_port = destination_port,
    }
end

local function direction(ends)
    return string.format("%s %d %s %d", ends.source, ends.source_port, ends.destination, ends.destination_port)
end

-- A message of a TCP stream, and the segments before the last that it came in.
local function from_stream(self, record, raw, ends, each)
    local key = direction(ends)
    record.segments, self.segments[key] = self.segments[key] or {}, nil
    record.repeated_number = self.heard_in == record.number
    self.heard_in = record.number
    if raw ~= "" then
        record.data, record.length, record.ends = raw, #raw, ends
        each(record)
    end
end

-- A segment of TCP: the messages that end in it have been heard already.
local function of_stream(self, record, raw, source_port, destination_port)
    local payload, behind, source, destination = packet.segment(raw, source_port, destination_port)
    if not payload or payload == PREFIX then
        return
    end
    local key = direction({
        source = source, destination = destination, source_port = source_port, destination_port = destination_port,
    })
    local ahead = (behind - (self.highest[key] or behind - 1)) % 4294967296
    if ahead == 0 or ahead >= 2147483648 then
        return -- sent again
    end
    self.highest[key] = behind
    if self.heard_in == record.number then
        return
    end
    local list = self.segments[key] or {}
    self.segments[key] = list
    list[#list + 1] = record
end

local function fragment_of(self, record, raw, at, each)
    local group = self.fragments:take(record.number, record.time, record.size, raw, at)
    if group then
        record.group, record.data, record.length, record.ends = group, group.ike.data, #group.ike.data, group.ike
        each(record)
    end
end

local function unpack_one(self, n, each)
    local raw, ports = self.raws[n], self.ports[n]
    local record = { number = self.numbers[n], time = PacketQueue.microseconds(self.times[n]), size = self.sizes[n] }
    if ports == 0 then
        fragment_of(self, record, raw, nil, each)
        return
    elseif ports < 0 then
        from_stream(self, record, raw, self.ends[n], each)
        return
    end
    local source_port, destination_port = floor(ports / 65536), ports % 65536
    local udp, ip, version, fragmented = packet.datagram(raw, source_port, destination_port)
    if fragmented then
        fragment_of(self, record, raw, ip, each)
    elseif udp then
        local at = packet.message(raw, udp, source_port, destination_port)
        if at then
            record.around = packet.around(raw, at, udp, ip, version)
            record.ends = record.around
            record.ends.source_port, record.ends.destination_port = source_port, destination_port
            record.data, record.tail = sub(raw, at), self.tails[n]
            record.length = (self.lengths[n] or #raw) - at + 1
            each(record)
        end
    elseif source_port == 4500 or destination_port == 4500 then
        local before = self.fragments.frames
        fragment_of(self, record, raw, nil, each)
        if before[record.number] == nil then
            of_stream(self, record, raw, source_port, destination_port)
        end
    else
        fragment_of(self, record, raw, nil, each)
    end
end

--- Make messages of all that was put aside, in order: `each` is called with a record of each, {number, time (us), size, data,
-- length, ends, around, tail, group, segments}. `data`: the message as far as it was kept, of `length` captured
-- bytes; `tail`: its last bytes where it was not; `group`: of IP fragments; `segments`: of TCP, before the last one.
function PacketQueue:empty(each)
    local count = self.count
    for n = 1, count do
        unpack_one(self, n, each)
    end
    if count > 0 then
        self:forget()
    end
end

--- Seconds, as Wireshark has them, in whole microseconds.
function PacketQueue.microseconds(seconds)
    return floor(seconds * 1e6 + 0.5)
end

return PacketQueue
