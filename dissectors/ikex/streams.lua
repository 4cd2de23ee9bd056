--[[ Reassembly of IKE messages from TCP streams (RFC 9329), and which segments carry them. Wireshark's own reassembly
leaves out messages in segments that are out of order, or that repeat bytes together with new ones, unless a preference
is set; and it does not say which segments repeat a message.

These are the rules of `ikeanalyze report`: the originator of a connection sends the prefix "IKETCP" once; then both
sides send messages, each after a length of 16 bits that includes itself; an IKE message begins with four zero bytes.
Where bytes are missing, the start of the messages is unknown until a segment begins with one. A segment that repeats a
message counts as a frame of it. Positions in a stream are sequence numbers that do not begin again at 0. ]]
local framing = require("ikex.framing")
local message = require("ikex.message")

local Streams = {}
Streams.__index = Streams

local byte, concat, max, min, sub = string.byte, table.concat, math.max, math.min, string.sub

local PREFIX, MARKER, CERTAIN, ESP_HEADER = framing.PREFIX, framing.MARKER, framing.CERTAIN, framing.ESP_HEADER
local SEQUENCE_NUMBERS, HALF = 4294967296, 2147483648 -- RFC 9293, 3.4
local MAX_HELD = 64 -- segments out of order; then the missing one is skipped
local MAX_GAP = 1048576 -- missing bytes between two segments; a larger gap means another connection
local MAX_HISTORY = 256 -- messages of a direction that repeated segments are still assigned to
local MAX_CONNECTIONS = 8192 -- at the same time; then the one that was idle for longest ends
-- Segments that show where a stream without SYN begins: TCP takes one after three later ones for lost (RFC 5681, 3.2).
local FIRST_SEGMENTS = 4
local DUPLICATE_WITHIN = 1000 -- us
local START, FRAMED, LOST = 1, 2, 3 -- at the start; at the length of a message; at an unknown place

-- Takes the place of an ESP packet, or of a malformed message.
local NOT_IKE = {}

local Direction = {}
Direction.__index = Direction

--- `emit`: called with each message when it is complete; `update`: with each of these that another segment repeats.
function Streams.new(emit, update)
    local order = {} -- the connections, the one that was idle for longest first
    order.next, order.previous = order, order
    return setmetatable({
        connections = {}, count = 0, order = order, emit = emit, update = update, finished = true,
    }, Streams)
end

local function new_direction(streams, connection)
    return setmetatable({
        streams = streams, connection = connection, state = LOST, expects_prefix = false,
        parsed = 0, -- position of the first byte that has not been parsed
        pieces = {}, -- the bytes from there on
        size = 0, -- of these
        needed = 0, -- bytes without which nothing can be parsed
        unknown = {}, -- ranges of these that were not captured
        boundaries = { first = 1, last = 0 }, -- positions where segments begin
        held = {}, held_count = 0, -- segments out of order, by position: {payload, size, waiting}
        -- Segments with bytes that are not parsed yet. Those ahead of the buffer wait with the held ones: however many
        -- these are, a message is compared with its own segments only.
        waiting = {},
        history = {}, history_next = 1, -- the latest messages, with their ranges
        recent = {}, recent_next = 1, -- the latest segments
        first = {}, -- of a stream without SYN, until its beginning is known
    }, Direction)
end

local function distance(origin, sequence)
    return (sequence - origin + HALF) % SEQUENCE_NUMBERS - HALF
end

-- Note that a segment carries bytes of a message in this range of the stream. The headers of a segment count for the
-- first IKE message in it.
local function add_part(streams, segment, found, first, last)
    last = min(last, segment.finish)
    local size = last - max(first, segment.begin)
    if size <= 0 then
        return
    elseif segment.repeated then
        found.repeated = found.repeated or {}
        found.repeated[#found.repeated + 1] = segment.number
    else
        local owner, share = segment.owner, size
        if owner then
            owner.bytes = owner.bytes - size
            if owner.emitted and owner ~= found then
                streams.update(owner)
            end
        else
            segment.owner, share = found, segment.frame_size
        end
        found.bytes = found.bytes + share
        found.numbers[#found.numbers + 1] = segment.number
        found.time = min(found.time, segment.time)
        if last > segment.fresh then -- it has bytes of the message that no segment had before
            found.last_time = max(found.last_time, segment.time)
            found.number = max(found.number or 0, segment.number)
        end
    end
    if found.emitted then
        streams.update(found)
    end
end

-- The bytes that wait to be parsed, in one string.
local function get_buffer(self)
    if #self.pieces > 1 then
        self.pieces = { concat(self.pieces) }
    end
    return self.pieces[1] or ""
end

-- Whether the first `size` bytes from a position on were captured, or are not there yet.
local function is_captured(self, position, size)
    local range = self.unknown[1]
    return not range or range[1] - position >= size
end

-- Move the segments that begin where a held one does to those that wait for the next message.
local function begin_waiting(self, held)
    for _, segment in ipairs(held.waiting) do
        self.waiting[#self.waiting + 1] = segment
    end
    held.waiting = {}
end

-- Remove the bytes up to `last`, and assign them to a message if one is given. `number`: of the frame that shows the
-- message, nil if that is the last one with bytes of it.
local function consume(self, last, found, number)
    local first, streams = self.parsed, self.streams
    self.parsed = last
    if found then
        self.history[self.history_next] = { first, last, found }
        self.history_next = self.history_next % MAX_HISTORY + 1
    end
    if self.held_count > 0 then
        for position, held in pairs(self.held) do
            if position < last then -- a segment that began before has its bytes
                begin_waiting(self, held)
            end
        end
    end
    if found and found ~= NOT_IKE then
        for _, segment in ipairs(self.waiting) do
            add_part(streams, segment, found, first, last)
        end
    end
    local kept = {}
    for _, segment in ipairs(self.waiting) do
        if segment.finish > last then
            kept[#kept + 1] = segment
        end
    end
    self.waiting = kept
    local boundaries = self.boundaries
    while boundaries[boundaries.first] and boundaries[boundaries.first] < last do
        boundaries[boundaries.first] = nil
        boundaries.first = boundaries.first + 1
    end
    while self.unknown[1] and self.unknown[1][1] < last do
        local range = table.remove(self.unknown, 1)
        if range[2] > last then
            table.insert(self.unknown, 1, { last, range[2] })
            break
        end
    end
    if found and found ~= NOT_IKE and #found.numbers > 0 then
        table.sort(found.numbers)
        if found.repeated then
            table.sort(found.repeated)
        end
        found.number = number or found.number
        found.emitted = true
        streams.emit(found)
    end
end

-- The message at position `at` of the buffer, or NOT_IKE; nil if too little of it is known. `size`: its length field.
local function read_message(self, buffer, at, size)
    local available = min(size, #buffer - at + 1)
    local range = self.unknown[1]
    local known = range and min(available, range[1] - self.parsed) or available
    if known < 2 + #MARKER then
        return nil
    end
    if sub(buffer, at + 2, at + 5) ~= MARKER then
        return size >= 2 + ESP_HEADER and NOT_IKE or nil
    elseif size >= CERTAIN and available < CERTAIN then
        return nil
    elseif size < CERTAIN or known < CERTAIN then
        return NOT_IKE
    end
    local version = byte(buffer, at + 23)
    local a, b, c, d = byte(buffer, at + 30, at + 33)
    local length = ((a * 256 + b) * 256 + c) * 256 + d
    if (version < 16 or version >= 48) or length < message.HEADER or length > size - 6 then
        return NOT_IKE
    end
    return {
        data = sub(buffer, at + 6, at + min(known, length + 6) - 1), size = size - 6, stream = self,
        incomplete = known ~= size or nil, bytes = 0, numbers = {}, time = math.huge, last_time = 0,
    }
end

-- Whether an IKE message may begin at position `at` of the buffer, which may end early.
local function may_begin_ike(buffer, at)
    local left = #buffer - at + 1
    local high, low = byte(buffer, at, at + 1)
    local size = low and high * 256 + low
    if size and size < CERTAIN then
        return false
    elseif sub(buffer, at + 2, at + 5) ~= sub(MARKER, 1, max(0, min(left - 2, 4))) then
        return false
    end
    local version = byte(buffer, at + 23)
    if version and version ~= 0x10 and version ~= 0x20 then
        return false
    elseif left < CERTAIN then
        return true
    end
    local a, b, c, d = byte(buffer, at + 30, at + 33)
    return ((a * 256 + b) * 256 + c) * 256 + d == size - 6
end

-- Whether the bytes of the buffer from `at` to `last` are ESP packets after their lengths.
local function is_framed_esp(buffer, at, last)
    local first = at
    while at + 2 + ESP_HEADER <= last + 1 do
        local high, low = byte(buffer, at, at + 1)
        local size = high * 256 + low
        if size < 2 + ESP_HEADER or sub(buffer, at + 2, at + 5) == MARKER then
            return false
        end
        at = at + size
    end
    return at == last + 1 and at > first
end

-- Drop segments until one begins with a message. Returns the position in the buffer, and whether the start of the
-- messages is known again. `at`: position in the buffer.
local function resynchronise(self, buffer, at, number)
    while at <= #buffer do
        if sub(buffer, at, at + #PREFIX - 1) == PREFIX then
            consume(self, self.parsed + #PREFIX, nil, number)
            at = at + #PREFIX
        elseif is_captured(self, self.parsed, 2) and may_begin_ike(buffer, at) then
            if #buffer - at + 1 < CERTAIN then
                return at, false -- the next segment decides
            end
            self.state = FRAMED
            return at, true
        else
            local boundaries, left = self.boundaries, #buffer - at + 1
            local index = boundaries.first
            while boundaries[index] and boundaries[index] <= self.parsed do
                index = index + 1
            end
            local size = boundaries[index] and boundaries[index] - self.parsed or left
            if is_captured(self, self.parsed, size) and is_framed_esp(buffer, at, at + size - 1) then
                self.state = FRAMED
                return at, true
            end
            consume(self, self.parsed + size, nil, number)
            at = at + size
        end
    end
    return at, false
end

-- Find the messages of the buffer from position `at` on. Returns the position of what is left of it, and how many bytes
-- that needs to be parsed.
local function parse_from(self, buffer, at, number)
    while at <= #buffer do
        local left = #buffer - at + 1
        if self.state == START then
            local captured = is_captured(self, self.parsed, #PREFIX)
            if left < #PREFIX and sub(PREFIX, 1, left) == sub(buffer, at) then
                return at, 0
            elseif sub(buffer, at, at + #PREFIX - 1) == PREFIX then
                consume(self, self.parsed + #PREFIX, nil, number)
                at = at + #PREFIX
            elseif self.expects_prefix and captured then
                self.connection.foreign = true
            end
            self.state = FRAMED
        elseif self.connection.foreign then
            consume(self, self.parsed + left, nil, number)
            return #buffer + 1, 0
        else
            if self.state == LOST then
                local known
                at, known = resynchronise(self, buffer, at, number)
                if not known then
                    return at, 0
                end
            end
            local high, low = byte(buffer, at, at + 1)
            if not low then
                return at, 2
            end
            local size = high * 256 + low
            if size < 2 or not is_captured(self, self.parsed, 2) then
                self.state = LOST
            elseif #buffer - at + 1 < size then
                return at, size
            else
                local found = read_message(self, buffer, at, size)
                consume(self, self.parsed + size, found, number)
                at = at + size
            end
        end
    end
    return at, 0
end

local function parse(self, number)
    local buffer = get_buffer(self)
    local at, needed = parse_from(self, buffer, 1, number)
    if at > 1 then
        self.pieces = at <= #buffer and { sub(buffer, at) } or {}
    end
    self.size, self.needed = #buffer - at + 1, needed
end

-- Append a segment, which begins at the end of the buffer or before it.
local function append(self, begin, payload, size, number)
    local overlap = self.next - begin
    local new = size - overlap
    if new <= 0 then
        return
    end
    local boundaries = self.boundaries
    boundaries.last = boundaries.last + 1
    boundaries[boundaries.last] = self.next
    local known = sub(payload, overlap + 1)
    self.next = self.next + new
    self.pieces[#self.pieces + 1] = known
    if #known < new then
        self.pieces[#self.pieces + 1] = ("\0"):rep(new - #known)
        self.unknown[#self.unknown + 1] = { self.next - new + #known, self.next }
    end
    self.size = self.size + new
    if self.size >= self.needed then
        parse(self, number)
    end
end

-- Parse what is left of the buffer at its end.
local function flush_buffer(self)
    local buffer, found = get_buffer(self), nil
    if buffer ~= "" then
        if self.state == FRAMED and not self.connection.foreign and #buffer > 2 then
            found = read_message(self, buffer, 1, byte(buffer, 1) * 256 + byte(buffer, 2))
        end
        self.pieces, self.size, self.needed = {}, 0, 0
        consume(self, self.parsed + #buffer, found)
    end
end

-- Skip the missing bytes before the first segment that is held. The start of the messages stays known if the length of
-- the message around the gap is.
local function skip_gap(self)
    local begin = math.huge
    for position in pairs(self.held) do
        begin = min(begin, position)
    end
    local missing = begin - self.next
    if missing <= MAX_GAP then
        append(self, self.next, "", missing)
        return
    end
    flush_buffer(self)
    self.next, self.state = begin, LOST
    consume(self, self.parsed + missing)
end

-- Append the segments that follow the buffer.
local function drain(self, number)
    while self.held_count > 0 do
        local ready = {}
        for position in pairs(self.held) do
            if position <= self.next then
                ready[#ready + 1] = position
            end
        end
        if #ready == 0 then
            return
        end
        table.sort(ready)
        for _, position in ipairs(ready) do
            local held = self.held[position]
            self.held[position], self.held_count = nil, self.held_count - 1
            begin_waiting(self, held)
            append(self, position, held.payload, held.size, number)
        end
    end
end

local function is_duplicate(self, segment)
    for _, other in ipairs(self.recent) do
        if
            other.begin == segment.begin and other.finish == segment.finish
            and math.abs(segment.time - other.time) <= DUPLICATE_WITHIN
            and (other.ttl ~= segment.ttl or (segment.ip_id and segment.ip_id ~= 0 and other.ip_id == segment.ip_id))
        then
            return true
        end
    end
    return false
end

-- Add a segment to the messages that it repeats, in order: its headers count for the first one.
local function add_known_parts(self, segment)
    local history, count, oldest = self.history, #self.history, self.history_next
    for offset = 0, count - 1 do
        local range = history[(oldest - 1 + offset) % count + 1]
        if range[3] ~= NOT_IKE and range[2] > segment.begin and range[1] < segment.finish then
            add_part(self.streams, segment, range[3], range[1], range[2])
        end
    end
end

local function add_segment(self, segment)
    local size, next, payload, number = segment.size, self.next, segment.payload, segment.number
    local begin = next + distance(next % SEQUENCE_NUMBERS, segment.sequence)
    segment.payload = nil
    if size == 1 and begin == next - 1 then
        return -- a keepalive probe without data (RFC 9293, 3.8.4)
    end
    segment.begin, segment.finish = begin, begin + size
    segment.repeated = is_duplicate(self, segment)
    local held = self.held[begin]
    local resent = segment.finish <= next or (held and held.size >= size)
    segment.fresh = resent and segment.finish or max(begin, next)
    self.recent[self.recent_next] = segment
    self.recent_next = self.recent_next % MAX_HELD + 1
    if begin < self.parsed then
        add_known_parts(self, segment)
    end
    if segment.finish <= self.parsed then
        return
    end
    if begin <= next then
        self.waiting[#self.waiting + 1] = segment
        append(self, begin, payload, size, number)
    else
        if not held then
            held = { payload = payload, size = size, waiting = {} }
            self.held[begin], self.held_count = held, self.held_count + 1
        elseif held.size < size then
            held.payload, held.size = payload, size
        end
        held.waiting[#held.waiting + 1] = segment
        if self.held_count > MAX_HELD then
            skip_gap(self)
            number = nil -- this frame does not fill the gap
        end
    end
    drain(self, number)
end

-- Start a stream without SYN with the earliest of its first segments, which may be out of order.
local function begin_without_syn(self)
    local first, ahead = self.first, 0
    local origin = first[1].sequence
    for _, segment in ipairs(first) do
        local apart = distance(origin, segment.sequence)
        if math.abs(apart) <= MAX_GAP then
            ahead = min(ahead, apart)
        end
    end
    self.first, self.next, self.parsed = {}, origin + ahead, origin + ahead
    for _, segment in ipairs(first) do
        add_segment(self, segment)
    end
end

--- Parse the remaining bytes at the end of the stream.
function Direction:flush()
    if #self.first > 0 then
        begin_without_syn(self)
    end
    while self.held_count > 0 do
        skip_gap(self)
        drain(self)
    end
    if self.size > 0 then -- if the stream goes on, it does so within a message
        flush_buffer(self)
        self.state = LOST
    end
    self.waiting = {}
end

-- Start the stream after a SYN.
local function begin_with_syn(self, sequence, is_originator)
    if self.syn == sequence then
        return -- it came again
    end
    self:flush()
    if is_originator then
        self.connection.foreign = false
    end
    self.syn, self.state, self.expects_prefix = sequence, START, is_originator
    self.next, self.parsed = sequence + 1, sequence + 1
    self.history, self.history_next, self.recent, self.recent_next = {}, 1, {}, 1
    self.boundaries, self.unknown = { first = 1, last = 0 }, {}
end

local function unlink(connection)
    connection.previous.next, connection.next.previous = connection.next, connection.previous
end

-- The connection with this key, which becomes the latest one.
local function get_connection(self, key)
    local connection, order = self.connections[key], self.order
    if connection then
        unlink(connection)
    else
        connection = { key = key, foreign = false, directions = {} }
        self.connections[key], self.count = connection, self.count + 1
        if self.count > MAX_CONNECTIONS then
            local oldest = order.next
            unlink(oldest)
            oldest.previous, oldest.next = nil, nil -- it must not keep later ones alive once it is garbage
            self.connections[oldest.key], self.count = nil, self.count - 1
            for _, direction in pairs(oldest.directions) do
                direction:flush()
            end
        end
    end
    connection.previous, connection.next = order.previous, order
    order.previous.next, order.previous = connection, connection
    return connection
end

--- Add a segment: {number, time (us), frame_size, payload (as captured), size (of it, on the wire), sequence, syn, ack,
-- ttl, ip_id, source, source_port, destination, destination_port}.
function Streams:add(segment)
    local from = string.format("%s %d", segment.source, segment.source_port)
    local to = string.format("%s %d", segment.destination, segment.destination_port)
    local connection = get_connection(self, from < to and from .. " " .. to or to .. " " .. from)
    local direction = connection.directions[from]
    if not direction then
        direction = new_direction(self, connection)
        direction.source, direction.source_port = segment.source, segment.source_port
        direction.destination, direction.destination_port = segment.destination, segment.destination_port
        connection.directions[from] = direction
    end
    direction.latest_time, self.finished = segment.time, false
    if segment.syn then
        begin_with_syn(direction, segment.sequence, not segment.ack)
        segment.sequence = (segment.sequence + 1) % SEQUENCE_NUMBERS -- data with it: RFC 7413
    end
    if segment.size == 0 then
        return
    elseif not direction.next then
        direction.first[#direction.first + 1] = segment
        if #direction.first >= FIRST_SEGMENTS then
            begin_without_syn(direction)
        end
        return
    end
    add_segment(direction, segment)
end

--- Parse the remaining bytes of the streams whose latest segment was at `final_time`, us, or before it.
function Streams:flush(final_time)
    if self.finished then
        return
    end
    self.finished = true
    local connection = self.order.next
    while connection ~= self.order do
        for _, direction in pairs(connection.directions) do
            if direction.latest_time <= final_time then
                direction:flush()
            else
                self.finished = false
            end
        end
        connection = connection.next
    end
end

--- Whether nothing was added since all streams were parsed to their ends.
function Streams:is_finished()
    return self.finished
end

return Streams
