--[[ The analysis of the open capture: its IKE datagrams, their IKE SAs and exchanges.

While a capture is read, packets are only queued. They are processed when a field is needed, which is never for a plain
packet list. ]]
local Association = require("ikex.association")
local Conversation = require("ikex.conversation")
local Datagram = require("ikex.datagram")
local Duplicates = require("ikex.duplicates")
local Liveness = require("ikex.liveness")
local PacketQueue = require("ikex.packet_queue")
local Radius = require("ikex.radius")
local contents = require("ikex.contents")
local glance = require("ikex.glance")
local message = require("ikex.message")
local outcome = require("ikex.outcome")
local packet = require("ikex.packet")
local paths = require("ikex.paths")
local slots = require("ikex.slots")

local Capture = {}
Capture.__index = Capture

local byte, max, sub = string.byte, math.max, string.sub
local NONE = {}
local USUAL_IP = packet.USUAL_IP
local INITS, SKF = message.INITS, message.SKF
local microseconds = PacketQueue.microseconds
local NUMBER, TIME, BYTES, SIZE, FRAGMENT, TOTAL, DIGEST, SLOT, PLAIN = Datagram.NUMBER, Datagram.TIME,
    Datagram.BYTES, Datagram.SIZE, Datagram.FRAGMENT, Datagram.TOTAL, Datagram.DIGEST, Datagram.SLOT, Datagram.PLAIN
local NAT_PORT = 4500

local add_usual, process_record, process_reassembled, update_reassembled

--- An empty capture; `keyring`: all key sets; `has_window`: rows are drawn while it grows (module `liveness`);
-- `tcp_ports`: those of IKE in TCP, as keys.
function Capture.new(keyring, has_window, tcp_ports)
    local self = setmetatable({
        keyring = keyring,
        conversation = Conversation.new(),
        duplicates = Duplicates.new(),
        liveness = Liveness.new(has_window),
        radius = Radius.new(),
        replaced = {}, -- by both SPIs of an IKE SA: the IKE SA that it replaced
        negotiated = {}, -- the suite and nonces of an IKE SA that replaced another one, by both SPIs
        tickets = {}, -- the suite of the IKE SA that was given a ticket, by ticket
        has_port_4500 = false, -- whether an IKE message used UDP port 4500
        responders_on_4500 = {}, -- addresses of responders that sent something from UDP port 4500
        by_frame = {}, -- the datagram of each frame; false if it has several
        lists = {}, -- the datagrams of frames that have several
        finished = false, -- all frames have been processed
        unremarkable = {}, -- by number of an IKE SA, for `findings.is_unremarkable`
        recounted = {}, -- IKE SAs with messages of which more frames came later, as keys
    }, Capture)
    self.queue = PacketQueue.new(keyring.size > 0, tcp_ports or {}, function(found)
        process_reassembled(self, found)
    end, function(found)
        update_reassembled(self, found)
    end)
    self.association = Association.new(function(parsed)
        return self.conversation:new_sa(parsed)
    end)
    self.process_record = function(record)
        process_record(self, record)
    end
    self.add_usual = function(index, at)
        return add_usual(self, index, at)
    end
    return self
end

local function add_to_frame(self, number, datagram)
    local existing = self.by_frame[number]
    if existing == nil then
        self.by_frame[number] = datagram
    elseif existing then
        self.by_frame[number] = false
        self.lists[number] = { existing, datagram }
    else
        local list = self.lists[number]
        list[#list + 1] = datagram
    end
end

-- Add the frames with parts or copies of a datagram of several frames, except those that were added before.
local function add_further_frames(self, datagram)
    local numbers, repeated = datagram.numbers, datagram.repeated or NONE
    for index = (datagram.parts_added or 0) + 1, #numbers do
        if numbers[index] ~= datagram[NUMBER] then
            add_to_frame(self, numbers[index], { number = numbers[index], part_of = datagram })
        end
    end
    for index = (datagram.copies_added or 0) + 1, #repeated do
        add_to_frame(self, repeated[index], { number = repeated[index], duplicate_of = datagram })
    end
    datagram.parts_added, datagram.copies_added = #numbers, #repeated
end

-- Note that a message used the port of UDP encapsulation.
local function note_port(self, slot, source_port, destination_port)
    if source_port == NAT_PORT or destination_port == NAT_PORT then
        slot.on_4500 = true
        self.has_port_4500 = true
        if source_port == NAT_PORT and not slot.from_initiator then
            self.responders_on_4500[slot.pair.sa.responder] = true
        end
    end
end

-- A copy of the values of a message, which are valid until the next message.
local function copy_parsed(parsed)
    local copy, head = {}, setmetatable({}, getmetatable(parsed.head))
    for name, value in pairs(parsed) do
        copy[name] = value
    end
    for name, value in pairs(parsed.head) do
        head[name] = value
    end
    copy.head = head
    return copy
end

-- Add a datagram to its IKE SA, or to those that wait for the response that decides which it is.
local function add_new(self, datagram, parsed)
    local number = datagram[NUMBER]
    local sa, waiting = self.association:associate(parsed)
    if not sa then
        waiting[#waiting + 1] = { datagram = datagram, parsed = copy_parsed(parsed) }
        return
    end
    self.conversation:add(sa, datagram, parsed)
    if datagram.surplus then
        sa.has_wrong_headers = true
    end
    note_port(self, datagram[SLOT], parsed.source_port, parsed.destination_port)
    add_to_frame(self, number, datagram)
    if parsed.several_frames then
        add_further_frames(self, datagram)
    end
    if parsed.kept then
        sa.undecoded[#sa.undecoded + 1] = datagram
        sa.readable_after_init = sa.readable_after_init or not parsed.init
    end
end

local function add_datagram(self, datagram, parsed)
    local number = datagram[NUMBER]
    local original = self.duplicates:original(datagram, parsed)
    if original then
        self.association:add_translation(parsed, original)
        add_to_frame(self, number, { number = number, time = datagram[TIME], duplicate_of = original })
        return
    end
    if parsed.init then
        Datagram.set_endpoints(datagram, parsed)
    end
    for _, held in ipairs(self.association:release(parsed)) do
        add_new(self, held.datagram, held.parsed)
    end
    add_new(self, datagram, parsed)
end

-- The digest of the complete message that an incomplete datagram repeats: a message with the same header, whose clear
-- bytes agree as far as they were captured. Without it, the datagram would count as a different message.
local function find_complete_digest(self, datagram, parsed)
    local group = self.association.groups[parsed.head.spi_i]
    for _, sa in ipairs(group or NONE) do
        for _, pair in ipairs(sa.list) do
            if pair.message_id == parsed.head.message_id and pair.exchange == parsed.head.exchange then
                for _, slot in ipairs({ pair.request or false, pair.response or false }) do
                    local digest = slot and (slot.response or false) == parsed.head.response
                        and slots.find_same_content(slot, datagram, parsed)
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
local parsed_head, parsed = message.new_header(), {}

-- Parse and add the datagram of a record of the queue. `incomplete`: the capture lacks bytes of it.
local function parse_record(self, record, datagram, incomplete)
    local at = record.at
    local head = message.header(record.data, at, parsed_head)
    if not head or head.length < message.HEADER or head.invalid then
        return
    end
    if head.length > (record.size or record.length) then
        return
    end
    local last = at + head.length - 1
    local lacks_fragments = incomplete and datagram.ip_fragments
    local clear, init = message.is_clear(head), Association.is_init(head)
    local decryptable = not clear and not record.tail and self.keyring.size > 0
        and self.keyring:may_decrypt(head.spi_i, head.spi_r)
    local data = (clear or init or decryptable) and sub(record.data, at, last) or nil
    parsed.head, parsed.data, parsed.time, parsed.init, parsed.clear = head, data, datagram[TIME], init, clear
    parsed.source, parsed.source_port = record.source, record.source_port
    parsed.destination, parsed.destination_port = record.destination, record.destination_port
    parsed.digest = clear and data or record.tail or get_tail(record.data, at, last)
    datagram[FRAGMENT], datagram[TOTAL], datagram[SIZE] = head.fragment, head.total, head.length
    if clear then
        datagram.clear, datagram.next = true, head.next
    end
    parsed.kept = clear and not lacks_fragments or decryptable and not incomplete
    datagram[PLAIN] = not (clear or init or decryptable or incomplete or parsed.several_frames)
    if incomplete then
        parsed.digest = find_complete_digest(self, datagram, parsed) or parsed.digest
    end
    if parsed.kept then
        datagram.data = data
    end
    datagram[DIGEST] = parsed.digest
    local surplus = (record.size or record.length) - head.length
    if surplus > 0 then
        datagram.surplus, datagram[PLAIN] = surplus, false
    end
    if message.lacks_fragment_number(head) then
        datagram.unnumbered, datagram[PLAIN] = true, false
    end
    add_datagram(self, datagram, parsed)
end

function process_record(self, record)
    local datagram = Datagram.new(record.number, record.time, record.frame_size, record.ttl, record.ip_id)
    parsed.several_frames = false
    parse_record(self, record, datagram, false)
end

-- Add a message of a TCP stream or of IP fragments, see `Streams` and `Fragments`. Returns its datagram.
function process_reassembled(self, found)
    local datagram = Datagram.new(found.number, found.time, found.bytes, found.ttl, found.ip_id)
    datagram.numbers, datagram.repeated = found.numbers, found.repeated
    datagram.frames, datagram.last_time = #found.numbers, max(found.time, found.last_time)
    datagram.incomplete, datagram.ip_fragments = found.incomplete, found.ip_fragments
    parsed.several_frames = true
    local ends = found.stream or found
    found.datagram = datagram
    parse_record(self, {
        data = found.data, at = 1, length = #found.data, size = found.size,
        source = ends.source, source_port = ends.source_port,
        destination = ends.destination, destination_port = ends.destination_port,
    }, datagram, found.incomplete or false)
    return datagram
end

-- Count more frames of a message of a TCP stream or of IP fragments.
function update_reassembled(self, found)
    local datagram = found.datagram
    if not datagram then
        return -- it is queued
    end
    datagram[BYTES], datagram.frames, datagram.repeated = found.bytes, #found.numbers, found.repeated
    local slot = datagram[SLOT]
    if not slot then
        return -- a duplicate of the capture, or it waits for its IKE SA
    end
    add_further_frames(self, datagram)
    slots.regroup(slot)
    self.conversation:note_change(slot.pair.sa)
    self.recounted[slot.pair.sa] = true
end

-- Add an encrypted message of IKEv2 that the queue has recognised, with the index `n` in the queue and the position
-- `at` in its bytes. Most messages are such, and this takes a fraction of the time of `process_record`, which does the
-- same with any message. Returns false, and changes nothing, if that must do it: the message is of an unknown IKE SA,
-- belongs to IKE_SA_INIT, has a wrong flag, or has been captured before.
function add_usual(self, n, at)
    local queue = self.queue
    local raw, digest = queue.raws[n], queue.tails[n]
    local spis = sub(raw, at, at + 15)
    local sa = self.association.by_spis[spis]
    local following, _, exchange, flags, i1, i2, i3, i4, l1, l2, l3, l4, _, _, _, _, n1, n2, t1, t2 =
        byte(raw, at + 16, at + 35)
    if not sa or INITS[exchange] then
        return false
    end
    local fragment, total = 0, 0
    if following == SKF then
        fragment, total = n1 * 256 + n2, t1 * 256 + t2
        if fragment == 0 or fragment > total then
            return false
        end
    end
    local high, low, _, _, ttl = byte(raw, USUAL_IP + 4, USUAL_IP + 8)
    local number, ports = queue.numbers[n], queue.ports[n]
    local datagram = Datagram.new_encrypted(
        number, microseconds(queue.times[n]), queue.sizes[n], ttl, high * 256 + low,
        ((l1 * 256 + l2) * 256 + l3) * 256 + l4, fragment, total, digest
    )
    local from_initiator, response = flags % 16 >= 8, flags % 64 >= 32
    if Conversation.contradicts_flag(sa, sub(raw, USUAL_IP + 12, USUAL_IP + 19), from_initiator) then
        return false
    end
    if not self.duplicates:add_new(datagram, digest, response, raw, USUAL_IP + 12) then
        return false
    end
    local destination_port = ports % 65536
    local source_port = (ports - destination_port) / 65536
    self.conversation:add_encrypted(
        sa, datagram, spis, exchange, ((i1 * 256 + i2) * 256 + i3) * 256 + i4, from_initiator, response,
        from_initiator and source_port or destination_port
    )
    note_port(self, datagram[SLOT], source_port, destination_port)
    add_to_frame(self, number, datagram)
    return true
end

--- Process the queued packets.
function Capture:process_queue()
    if not self.queue:is_empty() then
        self.finished = false
        self.queue:process(self.process_record, self.add_usual)
    end
end

--- Process the queued packets after the last frame, and the messages that lack IP fragments.
function Capture:finish()
    self.liveness:draw(self.queue.latest, self.queue.last_time)
    local queue = self.queue
    if self.finished and queue:is_empty() and queue.fragments:is_empty() and queue.streams:is_finished() then
        return
    end
    self.finished = false
    queue:process(self.process_record, self.add_usual, self:final_time())
    for _, found in ipairs(queue:take_incomplete()) do
        local datagram = process_reassembled(self, found)
        if datagram[SLOT] then
            local sa = datagram[SLOT].pair.sa
            Conversation.recount_bytes(sa)
            self.conversation:begin_before(sa, datagram[TIME])
        end
    end
    for _, held in ipairs(self.association:release_all()) do
        add_new(self, held.datagram, held.parsed)
    end
    for sa in pairs(self.recounted) do
        Conversation.recount_bytes(sa)
    end
    self.recounted = {}
    self.conversation:renumber()
    self.finished, self.unremarkable = true, {}
end

--- Decide the endings of the exchanges of an IKE SA that depend on others, if the capture has been read to its end.
function Capture:settle(sa)
    if self.finished then
        paths.settle(sa)
        self.radius:settle(self.conversation, microseconds(self.queue.last_time))
    end
end

--- Add a frame on a port of RADIUS; `time`: s.
function Capture:add_radius(number, time, frame, source_port, destination_port)
    self.radius:add(number, microseconds(time), frame, source_port, destination_port)
end

--- The time in us until which packets that the capture lacks will not come any more.
function Capture:final_time()
    return self.liveness:final_time(microseconds(self.queue.last_time))
end

--- Whether a packet that should follow a message is missing, and not only still to come; `time`: of the message, us.
function Capture:is_final(time)
    return self.finished and time <= self:final_time()
end

--- Decode and decrypt the messages of an IKE SA that have been processed so far.
function Capture:decode(sa)
    contents.update(self, sa)
end

--- As `decode`, if the findings about the messages of a pair depend on contents.
function Capture:decode_for_findings(pair)
    if glance.needs_contents(pair.sa, pair) then
        contents.update(self, pair.sa)
    end
end

--- The summary of a handshake, see `outcome.summarize`; requires that the capture has been read to its end.
function Capture:summary(sa)
    local last_time = microseconds(self.queue.last_time)
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
