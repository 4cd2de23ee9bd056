--[[ The analysis of the open capture: its IKE datagrams, their IKE SAs and exchanges.

While a capture is read, packets are only queued. They are processed when a field is needed, which is never for a plain
packet list. ]]
local Association = require("ikex.association")
local Conversation = require("ikex.conversation")
local Duplicates = require("ikex.duplicates")
local Liveness = require("ikex.liveness")
local PacketQueue = require("ikex.packet_queue")
local Radius = require("ikex.radius")
local contents = require("ikex.contents")
local message = require("ikex.message")
local outcome = require("ikex.outcome")
local paths = require("ikex.paths")

local Capture = {}
Capture.__index = Capture

local sub = string.sub
local NONE = {}
local NAT_PORT = 4500

local process_record

--- An empty capture; `keyring`: all key sets; `has_window`: rows are drawn while it grows (module `liveness`).
function Capture.new(keyring, has_window)
    local self = setmetatable({
        keyring = keyring,
        queue = PacketQueue.new(keyring.size > 0),
        conversation = Conversation.new(),
        duplicates = Duplicates.new(),
        liveness = Liveness.new(has_window),
        radius = Radius.new(),
        replaced = {}, -- by both SPIs of an IKE SA: the IKE SA that it replaced
        negotiated = {}, -- the suite and nonces of an IKE SA that replaced another one, by both SPIs
        responders_on_4500 = {}, -- addresses of responders that sent something from UDP port 4500
        by_frame = {}, -- of each frame: its datagram, or a list of them with `several`
        finished = false, -- all frames have been processed
    }, Capture)
    self.association = Association.new(function(parsed)
        return self.conversation:new_sa(parsed)
    end)
    self.process_record = function(record)
        process_record(self, record)
    end
    return self
end

local function add_to_frame(self, number, datagram)
    local existing = self.by_frame[number]
    if not existing then
        self.by_frame[number] = datagram
    elseif existing.several then
        existing[#existing + 1] = datagram
    else
        self.by_frame[number] = { several = true, existing, datagram }
    end
end

-- Note that a message used the port of UDP encapsulation.
local function note_port(self, slot, parsed)
    if parsed.source_port == NAT_PORT or parsed.destination_port == NAT_PORT then
        slot.on_4500 = true
        if parsed.source_port == NAT_PORT and not slot.from_initiator then
            self.responders_on_4500[slot.pair.sa.responder] = true
        end
    end
end

local function add_datagram(self, datagram, parsed)
    local original = self.duplicates:original(datagram, parsed)
    if original then
        self.association:add_translation(parsed, original.endpoints)
        add_to_frame(self, datagram.number, { number = datagram.number, time = datagram.time, duplicate_of = original })
        return
    end
    if parsed.init then
        datagram.endpoints = {
            source = parsed.source, source_port = parsed.source_port,
            destination = parsed.destination, destination_port = parsed.destination_port,
        }
    end
    local sa = self.association:associate(parsed)
    self.conversation:add(sa, datagram, parsed)
    note_port(self, datagram.slot, parsed)
    add_to_frame(self, datagram.number, datagram)
    for _, number in ipairs(datagram.numbers or NONE) do
        if number ~= datagram.number then
            add_to_frame(self, number, { number = number, part_of = datagram })
        end
    end
    for _, number in ipairs(datagram.repeated or NONE) do
        add_to_frame(self, number, { number = number, duplicate_of = datagram })
    end
    if datagram.data then
        sa.undecoded[#sa.undecoded + 1] = datagram
        sa.readable_after_init = sa.readable_after_init or not parsed.init
    end
end

-- The digest of the complete message that an incomplete datagram repeats: a message with the same header, whose clear
-- bytes agree as far as they were captured. Without it, the datagram would count as a different message.
local function find_complete_digest(self, datagram, parsed)
    local group = self.association.groups[parsed.head.spi_i]
    for _, sa in ipairs(group and group.sas or {}) do
        for _, pair in ipairs(sa.list) do
            if pair.message_id == parsed.head.message_id and pair.exchange == parsed.head.exchange then
                for _, slot in ipairs({ pair.request or false, pair.response or false }) do
                    local digest = slot and slot.response == parsed.head.response
                        and Conversation.find_same_content(slot, datagram, parsed)
                    if digest then
                        return digest
                    end
                end
            end
        end
    end
    return nil
end

-- The last bytes of an encrypted message, which the capture may lack.
local function get_tail(data, at, last)
    last = math.min(last, #data)
    return sub(data, math.max(at, last - PacketQueue.TAIL + 1), last)
end

-- The header and the message that are parsed: in the same tables for each message.
local parsed_head, parsed = {}, {}

-- Parse and add the datagram of a record of the queue. `incomplete`: the capture lacks bytes of it.
local function parse_record(self, record, datagram, incomplete)
    local at = record.at
    local head = message.header(record.data, at, parsed_head)
    if not head or head.length < message.HEADER or head.invalid then
        return
    end
    if head.length > (record.size or record.length) and not incomplete then
        return
    end
    local last = at + head.length - 1
    local clear, init = message.is_clear(head), Association.is_init(head)
    local decryptable = not clear and not record.tail and self.keyring:may_decrypt(head.spi_i, head.spi_r)
    local data = (clear or init or decryptable) and sub(record.data, at, last) or nil
    parsed.head, parsed.data, parsed.time, parsed.init, parsed.clear = head, data, datagram.time, init, clear
    parsed.source, parsed.source_port = record.source, record.source_port
    parsed.destination, parsed.destination_port = record.destination, record.destination_port
    parsed.digest = clear and data or record.tail or get_tail(record.data, at, last)
    datagram.fragment, datagram.total, datagram.size, datagram.next = head.fragment, head.total, head.length, head.next
    datagram.clear = clear or nil
    if incomplete then
        parsed.digest = find_complete_digest(self, datagram, parsed) or parsed.digest
    elseif clear or decryptable then
        datagram.data = data
    end
    datagram.digest = parsed.digest
    add_datagram(self, datagram, parsed)
end

-- A datagram with room for the fields of most datagrams: a table that grows takes more time and memory.
local function new_datagram(number, time, bytes)
    return {
        number = number, time = time, last_time = time, bytes = bytes, frames = 1,
        ttl = nil, ip_id = nil, fragment = nil, total = nil, size = nil, next = nil, digest = nil,
        slot = nil, transmission = nil, sent_by_initiator = nil, sent_by_responder = nil,
    }
end

function process_record(self, record)
    local datagram = new_datagram(record.number, record.time, record.frame_size)
    datagram.ttl, datagram.ip_id = record.ttl, record.ip_id
    local group = record.group
    if group then
        datagram.time, datagram.last_time, datagram.bytes = group.time, group.last_time, group.size_on_wire
        datagram.numbers, datagram.repeated, datagram.frames = group.numbers, group.repeated, #group.numbers
        datagram.ip_fragments, datagram.ttl, datagram.ip_id = true, group.ttl, group.id
    elseif record.segments then
        if record.repeated_number then
            datagram.bytes = 0 -- several messages in one TCP segment: all its bytes count for the first message
        end
        datagram.numbers = {}
        for index, segment in ipairs(record.segments) do
            datagram.numbers[index] = segment.number
            datagram.bytes, datagram.frames = datagram.bytes + segment.frame_size, datagram.frames + 1
            datagram.time = math.min(datagram.time, segment.time)
        end
    end
    parse_record(self, record, datagram, false)
end

--- Process the queued packets.
function Capture:process_queue()
    if self.queue.count > 0 then
        self.finished = false
        self.queue:process(self.process_record)
    end
end

--- Process the queued packets after the last frame, and the messages that lack IP fragments.
function Capture:finish()
    self.liveness:draw(self.queue.latest, self.queue.last_time)
    if self.finished and self.queue.count == 0 and self.queue.fragments:is_empty() then
        return
    end
    self:process_queue()
    for _, group in ipairs(self.queue.fragments:incomplete(self:final_time())) do
        local datagram = {
            number = group.numbers[1], numbers = group.numbers, repeated = group.repeated,
            time = group.time, last_time = group.last_time, bytes = group.size_on_wire, frames = #group.numbers,
            ttl = group.ttl, ip_id = group.id, ip_fragments = true, incomplete = true,
        }
        local ike = group.ike
        local record = {
            data = ike.data, at = 1, length = #ike.data, source = ike.source, source_port = ike.source_port,
            destination = ike.destination, destination_port = ike.destination_port,
        }
        parse_record(self, record, datagram, true)
        if datagram.slot then
            Conversation.recount_bytes(datagram.slot.pair.sa)
        end
    end
    self.finished = true
end

--- Decide the endings of the exchanges of an IKE SA that depend on others, if the capture has been read to its end.
function Capture:settle(sa)
    if self.finished then
        paths.settle(sa)
        self.radius:settle(self.conversation, PacketQueue.microseconds(self.queue.last_time))
    end
end

--- Add a frame on a port of RADIUS; `time`: s.
function Capture:add_radius(number, time, frame, source_port, destination_port)
    self.radius:add(number, PacketQueue.microseconds(time), frame, source_port, destination_port)
end

--- The time in us until which packets that the capture lacks will not come any more.
function Capture:final_time()
    return self.liveness:final_time(PacketQueue.microseconds(self.queue.last_time))
end

--- Whether a packet that should follow a message is missing, and not only still to come; `time`: of the message, us.
function Capture:is_final(time)
    return self.finished and time <= self:final_time()
end

--- The datagram of a frame, or a list of them with `several`; nil if it has none.
function Capture:datagrams(number)
    return self.by_frame[number]
end

--- Decode and decrypt the messages of an IKE SA that have been processed so far.
function Capture:decode(sa)
    contents.update(self, sa)
end

--- The summary of a handshake, see `outcome.summarize`; requires that the capture has been read to its end.
function Capture:summary(sa)
    local last_time = PacketQueue.microseconds(self.queue.last_time)
    if not sa.summary or sa.changed or sa.summary_time ~= last_time then
        if sa.readable_after_init then -- messages other than IKE_SA_INIT can be read
            self:decode(sa)
        end
        local replaced = self.replaced[sa.spi_i .. sa.spi_r]
        sa.summary = outcome.summarize(sa, self.conversation, last_time, replaced, self.radius)
        sa.changed, sa.summary_time = false, last_time
    end
    return sa.summary
end

return Capture
