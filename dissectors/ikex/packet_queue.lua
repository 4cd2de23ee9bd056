--[[ A queue of the packets that may carry IKE. Adding a packet costs as little as possible; packets are parsed only
when a field of the plugin is needed, which is never for a plain packet list. IP fragments are put together at once:
most are of other protocols, and need not be kept. ]]
local Fragments = require("ikex.ipfragments")
local Streams = require("ikex.streams")
local message = require("ikex.message")
local packet = require("ikex.packet")

local PacketQueue = {}
PacketQueue.__index = PacketQueue

local byte, floor, sub = string.byte, math.floor, string.sub

local SK, SKF = message.SK, message.SKF
local TAIL = 24 -- bytes at the end of an encrypted message that identify it; they include its ICV
local START = 36 -- bytes at the start of an encrypted message: its header and fragment numbers
local MAX_HELD = 8 * 1024 * 1024 -- bytes of packets that are kept complete; the same of TCP segments
local SEGMENT_TABLE = 500 -- bytes of a segment without its payload
local REASSEMBLED = -1 -- in place of the ports of a packet
local USUAL_IP, USUAL_UDP = packet.USUAL_IP, packet.USUAL_UDP
local USUAL_START = USUAL_UDP + 11 + START -- bytes until the end of START behind a non-ESP marker

PacketQueue.TAIL = TAIL

--- An empty queue; `keep_all`: keep all bytes of encrypted messages, because there may be keys; `tcp_ports`: those of
-- IKE in TCP, as keys; `on_message`: called with each message of a TCP stream or of IP fragments; `on_repeat`: with
-- each of these of which another frame comes later (see `Streams` and `Fragments`).
function PacketQueue.new(keep_all, tcp_ports, on_message, on_repeat)
    local self
    self = setmetatable({
        keep_all = keep_all,
        tcp_ports = tcp_ports,
        on_message = on_message,
        segments = {}, -- of TCP, see `Streams:add`
        segment_bytes = 0, -- memory that they take
        found = {}, -- messages of TCP streams and IP fragments that have not been queued yet
        incomplete = {}, -- messages that lack IP fragments
        streams = Streams.new(function(found)
            self.found[#self.found + 1] = found
        end, on_repeat),
        fragments = Fragments.new(function(found)
            local list = found.incomplete and self.incomplete or self.found
            list[#list + 1] = found
        end, on_repeat),
        last_time = 0, -- of all packets, s
        last_queued = 0, -- of the packets that were added, s
        last_processed = 0,
        late = 0, -- packets that were processed after packets with later times
        stepped_back = false, -- a packet on an IKE port is more than 1 s older than one before it
        latest = 0, -- number of the latest packet
        record = {}, -- of the message that is processed
    }, PacketQueue)
    self:clear()
    return self
end

-- Parallel arrays: a table for each packet would need more time and memory.
function PacketQueue:clear()
    self.numbers, self.times, self.sizes, self.raws, self.ports = {}, {}, {}, {}, {}
    self.tails, self.lengths = {}, {}
    self.usual = {} -- positions of the messages of `is_usual_message`
    self.messages = {} -- of TCP streams and IP fragments, by index
    self.count, self.compacted, self.held = 0, 0, 0
    self.disordered = false
end

-- Of encrypted messages without keys, keep only the bytes that distinguish them.
local function compact(self)
    for n = self.compacted + 1, self.keep_all and 0 or self.count do
        local raw, ports = self.raws[n], self.ports[n]
        local udp
        if ports > 0 and not self.usual[n] then
            udp = packet.datagram(raw, floor(ports / 65536), ports % 65536)
        end
        local at = udp and packet.message(raw, udp, floor(ports / 65536), ports % 65536)
        if at then
            local following, _, _, _, _, _, _, _, l1, l2, l3, l4 = byte(raw, at + 16, at + 27)
            if l4 and (following == SK or following == SKF) then
                local last = at - 1 + ((l1 * 256 + l2) * 256 + l3) * 256 + l4
                self.lengths[n] = #raw
                self.tails[n] = sub(raw, last - TAIL + 1, last)
                self.raws[n] = sub(raw, 1, at + START - 1)
            end
        end
    end
    self.compacted, self.held = self.count, 0
end

-- Note the time of a packet that is queued, s.
local function note_time(self, time)
    if time < self.last_queued then
        self.disordered = true
        self.stepped_back = self.stepped_back or self.last_queued - time > 1
    else
        self.last_queued = time
    end
end

local function append(self, number, time, size, raw, ports)
    local n = self.count + 1
    self.count = n
    self.numbers[n], self.times[n], self.sizes[n], self.raws[n], self.ports[n] = number, time, size, raw, ports
    note_time(self, time)
    local held = self.held + #raw
    self.held = held
    if held > MAX_HELD then
        compact(self)
    end
end

--- Note the time of a packet, s: the latest one is the end of the capture.
function PacketQueue:see_time(time)
    if time > self.last_time then
        self.last_time = time
    end
end

-- Whether the message at position `at` of a frame with `length` bytes, with UDP in IPv4 in Ethernet, is an encrypted
-- message of IKEv2 that ends with the datagram and the frame. `start`: the first bytes of the frame.
local function is_usual_message(start, at, length)
    local following, version, _, _, _, _, _, _, l1, l2, l3, l4 = byte(start, at + 16, at + 27)
    if (following ~= SK and following ~= SKF) or version < 32 or version >= 48 then
        return false
    end
    local size = length - at + 1
    local high, low = byte(start, USUAL_UDP + 4, USUAL_UDP + 5)
    return l3 * 256 + l4 == size and l1 == 0 and l2 == 0 and high * 256 + low == length - USUAL_UDP + 1
end

--- Add the packet of a Tvb, see `with_ports`. `methods`: of Tvb, {raw, len}; `at`: see `packet.find_ports`. Of most
-- encrypted messages, only the bytes that distinguish them are read.
function PacketQueue:from_tvb(number, time, size, tvb, methods, source_port, destination_port, at)
    local read = methods.raw
    local length = at and not self.keep_all and methods.len(tvb) or 0
    if length > USUAL_START then
        local start = read(tvb, 0, USUAL_START)
        if is_usual_message(start, at, length) then
            append(self, number, time, size, start, source_port * 65536 + destination_port)
            local n = self.count
            self.usual[n], self.lengths[n], self.tails[n] = at, length, read(tvb, length - TAIL, TAIL)
            return
        end
    end
    self:with_ports(number, time, size, read(tvb), source_port, destination_port, at)
end

-- Reassemble the TCP streams from the queued segments.
local function reassemble(self)
    local segments = self.segments
    self.segments, self.segment_bytes = {}, 0
    for _, segment in ipairs(segments) do
        self.streams:add(segment)
    end
end

--- Add a packet on a port of IKE in TCP, if it is a TCP segment with data or a SYN.
function PacketQueue:segment(number, time, size, raw, source_port, destination_port)
    local segment = packet.segment(raw, size, source_port, destination_port)
    if segment then
        note_time(self, time)
        segment.number, segment.time, segment.frame_size = number, PacketQueue.microseconds(time), size
        segment.source_port, segment.destination_port = source_port, destination_port
        self.segments[#self.segments + 1] = segment
        self.segment_bytes = self.segment_bytes + #segment.payload + SEGMENT_TABLE
        if self.segment_bytes > MAX_HELD then
            reassemble(self) -- most bytes are of ESP packets, which are not kept
        end
    end
end

-- Add an IP fragment of UDP, if the packet is one. Returns whether it is.
local function add_fragment(self, number, time, size, raw)
    local fragment = packet.ip_fragment(raw, size)
    if fragment then
        note_time(self, time)
        self.fragments:add(number, PacketQueue.microseconds(time), size, raw, fragment)
    end
    return fragment ~= nil
end

--- Add a packet on an IKE port: UDP, or a TCP segment. `time`: s; `size`: bytes of the frame; `raw`: its bytes; `at`:
-- see `packet.find_ports`, which finds none in fragments.
function PacketQueue:with_ports(number, time, size, raw, source_port, destination_port, at)
    if not at and not packet.is_marked(raw, source_port, destination_port) then
        local udp, _, _, fragmented = packet.datagram(raw, source_port, destination_port)
        if (fragmented or not udp) and add_fragment(self, number, time, size, raw) then
            return
        elseif not udp and (self.tcp_ports[source_port] or self.tcp_ports[destination_port]) then
            self:segment(number, time, size, raw, source_port, destination_port)
            return
        elseif udp and (source_port == 4500 or destination_port == 4500)
            and not packet.message(raw, udp, source_port, destination_port) then
            return -- ESP
        end
    end
    append(self, number, time, size, raw, source_port * 65536 + destination_port)
end

--- Add a packet without ports, if it is an IP fragment of UDP.
function PacketQueue:without_ports(number, time, size, raw)
    add_fragment(self, number, time, size, raw)
end

-- Queue the messages of TCP streams and IP fragments with the times of their first frames. `final_time`: see
-- `Streams:flush`, nil if the capture goes on.
local function queue_messages(self, final_time)
    reassemble(self)
    if final_time then
        self.streams:flush(final_time)
        self.fragments:flush(final_time)
    end
    local found = self.found
    self.found = {}
    table.sort(found, function(a, b)
        return a.time < b.time or (a.time == b.time and a.numbers[1] < b.numbers[1])
    end)
    for _, each in ipairs(found) do
        local n = self.count + 1
        self.count, self.messages[n] = n, each
        self.numbers[n], self.times[n], self.sizes[n] = each.numbers[1], each.time / 1e6, each.bytes
        self.raws[n], self.ports[n] = "", REASSEMBLED
        self.disordered = self.disordered or self.count > 1
    end
end

-- Process a datagram whose UDP header is at `udp`, with the message at `at`. All datagrams share a table, because they
-- are the most frequent.
local function process_datagram(self, n, at, udp, ip, version, source_port, destination_port, callback)
    local raw = self.raws[n]
    local record = self.record
    if at and packet.read_headers(record, raw, at, udp, ip, version) then
        record.number, record.time = self.numbers[n], PacketQueue.microseconds(self.times[n])
        record.frame_size, record.data, record.at, record.tail = self.sizes[n], raw, at, self.tails[n]
        record.length = (self.lengths[n] or #raw) - at + 1
        record.source_port, record.destination_port = source_port, destination_port
        callback(record)
    end
end

local function process_packet(self, n, callback)
    local raw, ports = self.raws[n], self.ports[n]
    local source_port, destination_port = floor(ports / 65536), ports % 65536
    local usual = self.usual[n]
    if usual then
        process_datagram(self, n, usual, USUAL_UDP, USUAL_IP, 4, source_port, destination_port, callback)
        return
    elseif ports == REASSEMBLED then
        self.on_message(self.messages[n])
        return
    end
    local udp, ip, version = packet.datagram(raw, source_port, destination_port)
    if udp then
        local at = packet.message(raw, udp, source_port, destination_port)
        process_datagram(self, n, at, udp, ip, version, source_port, destination_port, callback)
    end
end

-- Process the packet whose turn it is.
local function process_next(self, n, callback, add_usual)
    local time, at = self.times[n], self.usual[n]
    if time < self.last_processed then
        self.late = self.late + (self.ports[n] == REASSEMBLED and 0 or 1)
    else
        self.last_processed = time
    end
    if not at or not add_usual(n, at) then
        process_packet(self, n, callback)
    end
end

-- Process the only packet, which is shown while the capture is read: new arrays would take longer.
local function process_only(self, callback, add_usual)
    process_next(self, 1, callback, add_usual)
    if self.usual[1] then
        self.tails[1], self.lengths[1], self.usual[1] = nil, nil, nil
    else -- it may be compacted, or reassembled
        self.tails[1], self.lengths[1], self.messages[1] = nil, nil, nil
    end
    self.count, self.compacted, self.held, self.disordered = 0, 0, 0, false
end

--- Empty the queue, and call `callback` with a record of each message in order of time: {number, time (us), frame_size,
-- data, at, length, size, source, source_port, destination, destination_port, ttl, ip_id, tail}, which is valid until
-- the next one. `data`: the kept bytes of a message with `length` captured bytes, from position `at` on; `size`: its
-- bytes by the UDP header; `tail`: its last bytes, if not all bytes were kept. Messages of TCP streams and IP fragments
-- are passed to `on_message`; `final_time`: of the end of the capture, us, nil if it goes on. `add_usual`: called
-- before with the index of a usual message (see `is_usual_message`) and its position; if it returns true, it has added
-- the message, and `callback` is not called.
function PacketQueue:process(callback, add_usual, final_time)
    if final_time or self.segments[1] or self.found[1] then
        queue_messages(self, final_time)
    end
    if self.count == 1 then
        process_only(self, callback, add_usual)
        return
    end
    local count, order, times = self.count, nil, self.times
    if self.disordered then -- a capture merged of several, for example
        order = {}
        for n = 1, count do
            order[n] = n
        end
        table.sort(order, function(a, b)
            if times[a] ~= times[b] then
                return times[a] < times[b]
            end
            return a < b
        end)
    end
    for n = 1, count do
        process_next(self, order and order[n] or n, callback, add_usual)
    end
    if count > 0 then
        self:clear()
    end
end

--- The messages that lack IP fragments and were given up, the longest first. Each is returned once.
function PacketQueue:take_incomplete()
    local incomplete = self.incomplete
    self.incomplete = {}
    table.sort(incomplete, function(a, b)
        if #a.data ~= #b.data then
            return #a.data > #b.data
        end
        return a.time < b.time or (a.time == b.time and a.numbers[1] < b.numbers[1])
    end)
    return incomplete
end

--- Whether no packet waits to be processed.
function PacketQueue:is_empty()
    return self.count == 0 and not self.segments[1] and not self.found[1]
end

--- Seconds, as Wireshark has them, in integer microseconds.
function PacketQueue.microseconds(seconds)
    return floor(seconds * 1e6 + 0.5)
end

return PacketQueue
