--[[ What is known of the capture that is open: its IKE messages, and what they were found to be.

While a capture is read, packets are only put aside (`queue`); they are looked at when somebody wants to know, which for
a plain listing is never. ]]
local Association = require("ikex.association")
local Conversation = require("ikex.conversation")
local Duplicates = require("ikex.duplicates")
local PacketQueue = require("ikex.packet_queue")
local contents = require("ikex.contents")
local message = require("ikex.message")
local outcome = require("ikex.outcome")

local Capture = {}
Capture.__index = Capture

local sub = string.sub
local NONE = {}

local process

--- `keyring`: the keys that there are.
function Capture.new(keyring)
    local self = setmetatable({
        keyring = keyring,
        queue = PacketQueue.new(keyring.size > 0),
        conversation = Conversation.new(),
        duplicates = Duplicates.new(),
        replaced = {}, -- by both SPIs of an IKE SA: the one that it took over from
        by_frame = {}, -- units of each frame: one, or a list with `several`
        finished = false, -- all has been looked at
    }, Capture)
    self.association = Association.new(function(view)
        return self.conversation:new_sa(view)
    end)
    self.process = function(record)
        process(self, record)
    end
    return self
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

-- Enter the message of a record of the queue. `incomplete`: the capture lacks bytes of it.
local function make(self, record, unit, incomplete)
    local data = record.data
    local head = message.header(data)
    if not head or head.length < message.HEADER or head.wrong then
        return
    end
    local around, ends = record.around, record.ends
    local length = record.length
    if around then
        if around.quoted then
            return
        end
        length = around.size or length
        unit.ttl, unit.ip_id = around.ttl, around.ip_id
    end
    if head.length > length and not incomplete then
        return
    end
    data = sub(data, 1, head.length)
    local clear = message.is_clear(head)
    local view = {
        source = ends.source, destination = ends.destination,
        source_port = ends.source_port, destination_port = ends.destination_port,
        head = head, data = data, time = unit.time, init = Association.is_init(head), clear = clear,
        digest = clear and data or record.tail or sub(data, -PacketQueue.TAIL),
    }
    unit.fragment, unit.total, unit.size, unit.next = head.fragment, head.total, head.length, head.next
    unit.clear = clear
    if incomplete then
        view.digest = whole_content(self, unit, view) or view.digest
    elseif clear or (not record.tail and self.keyring:may_open(head.spi_i, head.spi_r)) then
        unit.data = data
    end
    unit.digest = view.digest
    enter(self, unit, view)
end

function process(self, record)
    local unit = { number = record.number, time = record.time, last_time = record.time, bytes = record.size, frames = 1 }
    local group = record.group
    if group then
        unit.time, unit.last_time, unit.bytes = group.time, group.last_time, group.size_on_wire
        unit.numbers, unit.repeated, unit.frames = group.numbers, group.repeated, #group.numbers
        unit.ip_fragments, unit.ttl, unit.ip_id = true, group.ttl, group.id
    elseif record.segments then
        if record.repeated_number then
            unit.bytes = 0 -- several messages in one TCP segment: its bytes are the first one's
        end
        unit.numbers = {}
        for index, segment in ipairs(record.segments) do
            unit.numbers[index] = segment.number
            unit.bytes, unit.frames = unit.bytes + segment.size, unit.frames + 1
            unit.time = math.min(unit.time, segment.time)
        end
    end
    make(self, record, unit, false)
end

--- Look at what came by.
function Capture:settle()
    if self.queue.count > 0 then
        self.finished = false
        self.queue:empty(self.process)
    end
end

--- Everything has been read: look at the rest too, which are messages that lack IP fragments.
function Capture:finish()
    if self.finished and self.queue.count == 0 then
        return
    end
    self:settle()
    for _, group in ipairs(self.queue.fragments:incomplete()) do
        local unit = {
            number = group.numbers[1], numbers = group.numbers, repeated = group.repeated,
            time = group.time, last_time = group.last_time, bytes = group.size_on_wire, frames = #group.numbers,
            ttl = group.ttl, ip_id = group.id, ip_fragments = true, incomplete = true,
        }
        make(self, { data = group.ike.data, length = #group.ike.data, ends = group.ike }, unit, true)
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
    contents.update(self, sa)
end

--- A handshake in numbers, see `outcome.of`; the capture must be read to its end for that.
function Capture:summary(sa)
    local last_time = PacketQueue.microseconds(self.queue.last_time)
    if not sa.summary or sa.changed or sa.summary_time ~= last_time then
        if sa.telling then -- there is more to be read than IKE_SA_INIT
            self:look_into(sa)
        end
        sa.summary = outcome.of(sa, last_time, self.replaced[sa.spi_i .. sa.spi_r])
        sa.changed, sa.summary_time = false, last_time
    end
    return sa.summary
end

return Capture
