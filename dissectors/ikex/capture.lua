--[[ What is known of the capture that is open: its IKE messages as they came, and what they were found to be.

While a capture is read, only what is needed is put aside; it is looked at when somebody wants to know, which for a plain listing is
never. Nothing of Wireshark's is kept longer than a packet. ]]
local Association = require("ikex.association")
local Conversation = require("ikex.conversation")
local Duplicates = require("ikex.duplicates")
local Fragments = require("ikex.ipfragments")
local insides = require("ikex.insides")
local message = require("ikex.message")
local outcome = require("ikex.outcome")
local packet = require("ikex.packet")

local Capture = {}
Capture.__index = Capture

local byte, floor, sub = string.byte, math.floor, string.sub
local NONE = {}
local SK, SKF = message.SK, message.SKF
local SMALLEST = 33 -- position behind the headers of IP and UDP, and a marker
local TAIL = 24 -- bytes at the end of an encrypted message, with its ICV, by which it is known
local MOST_HELD = 64 * 1024 * 1024 -- bytes of frames that are put aside whole
local AROUND = 36 -- of an encrypted message: its header and fragment numbers

--- `keyring`: the keys that there are.
function Capture.new(keyring)
    local self = setmetatable({
        keyring = keyring,
        conversation = Conversation.new(),
        duplicates = Duplicates.new(),
        fragments = Fragments.new(),
        replaced = {}, -- by both SPIs of an IKE SA: the one that it took over from
        by_frame = {}, -- units of each frame: one, or a list with `several`
        latest = 0, -- number of the latest frame that came by
        last_time = 0, -- of the frames that came by, s
        segments = {}, -- TCP segments that may be parts of messages
        finished = false,
    }, Capture)
    self:forget_queue()
    self.association = Association.new(function(view)
        return self.conversation:new_sa(view)
    end)
    return self
end

-- What was put aside, in arrays side by side: a table for each message would take longer, and more room.
function Capture:forget_queue()
    self.numbers, self.times, self.sizes, self.raws, self.ats = {}, {}, {}, {}, {}
    self.tails, self.lengths, self.ends, self.groups = {}, {}, {}, {}
    self.waiting, self.settled, self.compacted, self.held = 0, 0, 0, 0
end

-- Of encrypted messages that nothing opens, keep what tells them apart.
local function compact(self)
    if self.keyring.size == 0 then
        for n = self.compacted + 1, self.waiting do
            local raw, at = self.raws[n], self.ats[n]
            local following, _, _, _, _, _, _, _, l1, l2, l3, l4 = byte(raw, at + 16, at + 27)
            if l4 and (following == SK or following == SKF) then
                local last = at - 1 + ((l1 * 256 + l2) * 256 + l3) * 256 + l4
                self.lengths[n] = #raw - at + 1
                self.tails[n] = sub(raw, last - TAIL + 1, last)
                self.raws[n] = sub(raw, 1, at + AROUND - 1)
            end
        end
        self.compacted = self.waiting
    end
    self.held = 0
end

--- Put a message aside. `raw` has it from position `at` on; at 1, where it is all that is there, the headers before it are
-- not known. `time`: seconds; `size`: bytes of the frame. `pinfo` tells the ends where the headers before the message
-- do not; `segments`: numbers of the TCP segments that the message came in.
function Capture:collect(number, time, size, raw, at, pinfo, segments)
    local n = self.waiting + 1
    self.waiting = n
    self.numbers[n], self.times[n], self.sizes[n], self.raws[n], self.ats[n] = number, time, size, raw, at
    self.finished = false
    if at < SMALLEST or not packet.is_plain(raw, at) then
        self.ends[n] = { pinfo.net_src, pinfo.net_dst, pinfo.src_port, pinfo.dst_port, segments = segments }
    end
    local held = self.held + #raw
    self.held = held
    if held > MOST_HELD then
        compact(self)
    end
end

--- Put a message aside that came in several IP fragments: `group` as ipfragments has it, complete in frame `number`.
function Capture:collect_fragmented(number, group)
    self:collect(number, group.time / 1e6, group.size_on_wire, group.ike.data, 1, {})
    self.groups[self.waiting] = group
end

--- A TCP segment went by that may be a part of a message.
function Capture:segment(number, time, size)
    self.segments[number] = { time = time, size = size }
end

--- Seconds, as Wireshark has them, in whole microseconds.
function Capture.microseconds(seconds)
    return floor(seconds * 1e6 + 0.5)
end

local function remember(self, number, unit)
    local before = self.by_frame[number]
    if not before then
        self.by_frame[number] = unit
    elseif before.several then
        before[#before + 1] = unit
    else
        self.by_frame[number] = { several = true, before, unit }
    end
end

local function enter(self, unit, view)
    local original = self.duplicates:original(unit)
    if original then
        self.association:translated(view, original.view)
        remember(self, unit.number, { number = unit.number, time = unit.time, duplicate_of = original })
        return
    end
    unit.view = view.init and view or nil
    local sa = self.association:of(view)
    self.conversation:enter(sa, unit, view)
    remember(self, unit.number, unit)
    for _, number in ipairs(unit.numbers or NONE) do
        if number ~= unit.number then
            remember(self, number, { number = number, part_of = unit })
        end
    end
    for _, number in ipairs(unit.repeated or NONE) do
        remember(self, number, { number = number, duplicate_of = unit })
    end
    if unit.data then
        sa.news[#sa.news + 1] = unit
        sa.telling = sa.telling or not view.init
    end
end

-- The content that a message lacking bytes has the beginning of: that of another one with the same header, if the clear
-- bytes that are there agree. It would be another message than the one that it repeats otherwise.
local function whole_content(self, unit, view)
    local group = self.association.groups[view.head.spi_i]
    for _, sa in ipairs(group and group.sas or {}) do
        for _, pair in ipairs(sa.list) do
            if pair.message_id == view.head.message_id and pair.exchange == view.head.exchange then
                for _, slot in ipairs({ pair.request or false, pair.response or false }) do
                    local digest = slot and slot.response == view.head.response and Conversation.content_like(slot, unit, view)
                    if digest then
                        return digest
                    end
                end
            end
        end
    end
    return nil
end

local function make(self, front, at, tail, length, unit, view)
    local data = at > 1 and sub(front, at) or front
    local head = message.header(data)
    if not head or head.length < message.HEADER or head.wrong then
        return
    end
    local around = at > 1 and packet.around(front, at)
    if around then
        if around.quoted then
            return
        end
        view.source, view.destination = view.source or around.source, view.destination or around.destination
        view.source_port, view.destination_port = around.source_port, around.destination_port
        length = around.size or length
        unit.ttl, unit.ip_id = around.ttl, around.ip_id
    elseif view.incomplete then
        length = head.length
    end
    if head.length > length then
        return
    end
    data = sub(data, 1, head.length)
    view.head, view.data, view.time = head, data, unit.time
    view.init, view.clear = Association.is_init(head), message.is_clear(head)
    view.digest = view.clear and data or tail or sub(data, -TAIL)
    unit.fragment, unit.total, unit.size, unit.next = head.fragment, head.total, head.length, head.next
    unit.clear = view.clear
    if view.incomplete then
        view.digest = whole_content(self, unit, view) or view.digest
    elseif view.clear then
        unit.data = data
    elseif not tail and self.keyring:may_open(head.spi_i, head.spi_r) then
        unit.data = data
    end
    unit.digest = view.digest
    enter(self, unit, view)
end

local function process(self, n)
    local unit = { number = self.numbers[n], time = Capture.microseconds(self.times[n]), bytes = self.sizes[n], frames = 1 }
    unit.last_time = unit.time
    local view = {}
    local group, ends = self.groups[n], self.ends[n]
    if group then
        unit.numbers, unit.repeated, unit.frames = group.numbers, group.repeated, #group.numbers
        unit.ip_fragments = true
        unit.last_time, unit.ttl, unit.ip_id = group.last_time, group.ttl, group.id
        view.source, view.destination = group.source, group.destination
        view.source_port, view.destination_port = group.ike.source_port, group.ike.destination_port
    elseif ends then
        view.source, view.destination = tostring(ends[1]), tostring(ends[2])
        view.source_port, view.destination_port = ends[3], ends[4]
        if self.by_frame[unit.number] then
            unit.bytes = 0 -- several messages in one TCP segment: its bytes are the first one's
        end
        for _, number in ipairs(ends.segments or NONE) do
            local segment = self.segments[number]
            if segment then
                self.segments[number] = nil
                unit.bytes, unit.frames = unit.bytes + segment.size, unit.frames + 1
                unit.time = math.min(unit.time, segment.time)
                unit.numbers = unit.numbers or {}
                unit.numbers[#unit.numbers + 1] = number
            end
        end
    end
    local raw, at = self.raws[n], self.ats[n]
    make(self, raw, at, self.tails[n], self.lengths[n] or #raw - at + 1, unit, view)
end

--- Look at what was put aside.
function Capture:settle()
    if self.settled == self.waiting then
        return
    end
    for n = self.settled + 1, self.waiting do
        process(self, n)
    end
    self:forget_queue()
end

--- Everything has been read: look at the rest too, which are messages that lack IP fragments.
function Capture:finish()
    if self.finished then
        return
    end
    self:settle()
    for _, group in ipairs(self.fragments:incomplete()) do
        local unit = {
            number = group.numbers[1], numbers = group.numbers, repeated = group.repeated,
            time = group.time, last_time = group.last_time, bytes = group.size_on_wire, frames = #group.numbers,
            ttl = group.ttl, ip_id = group.id, ip_fragments = true, incomplete = true,
        }
        make(self, group.ike.data, 1, false, #group.ike.data, unit, {
            source = group.source, destination = group.destination,
            source_port = group.ike.source_port, destination_port = group.ike.destination_port,
            incomplete = true,
        })
        if unit.slot then
            Conversation.recount(unit.slot.pair.sa)
        end
    end
    self.finished = true
end

--- The units of a frame, a list; empty if it has none.
function Capture:units(number)
    local found = self.by_frame[number]
    if not found then
        return {}
    elseif found.several then
        return found
    end
    return { found }
end

--- Look into the messages of an IKE SA, as far as they are known.
function Capture:look_into(sa)
    insides.update(self, sa)
end

--- A handshake in numbers, see `outcome.of`; the capture must be read to its end for that.
function Capture:summary(sa)
    if not sa.summary or sa.changed or sa.summary_time ~= self.last_time then
        if sa.telling then -- there is more to be read than IKE_SA_INIT
            self:look_into(sa)
        end
        local last_time = Capture.microseconds(self.last_time)
        sa.summary = outcome.of(sa, last_time, self.replaced[sa.spi_i .. sa.spi_r])
        sa.changed, sa.summary_time = false, self.last_time
    end
    return sa.summary
end

return Capture
