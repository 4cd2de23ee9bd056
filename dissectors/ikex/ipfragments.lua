--[[ Reassembly of IKE messages from IP fragments (RFC 791, 3.2; RFC 8200, 4.5). Wireshark's own reassembly reports
neither messages that lack a fragment, nor the fragments that a capture on a router contains twice.

These are the rules of `ikeanalyze report`, which takes fragments in the order of the file. The same fragment again is a
duplicate of the capture within 1 ms, and one of the network within 200 ms, if a second datagram with the identification
does not become complete: no sender repeats a message so soon. Later, the identification is used again, and a fragment
of the earlier datagram was lost. ]]
local packet = require("ikex.packet")

local Fragments = {}
Fragments.__index = Fragments

local concat, max, min, sub = table.concat, math.max, math.min, string.sub

local PORTS = { [500] = true, [4500] = true }
local TIMEOUT = 30e6 -- us until the fragments of one datagram must have arrived (Linux: 30 s)
local DUPLICATE_WITHIN = 1000 -- us in which the same fragment again is a duplicate of the capture
local DOUBLED_WITHIN = 200000 -- us in which the same fragment again is a duplicate of the network
local MAX_DATAGRAMS = 4096 -- incomplete datagrams at the same time; as many complete ones to recognise duplicates
local MAX_BYTES = 32 * 1024 * 1024 -- of all these datagrams
local UDP_HEADER, MAX_PAYLOAD = 8, 65535 -- bytes

-- A list of groups in the order in which they were added, from which any group can be removed.
local function new_list()
    local list = {}
    list.next, list.previous = list, list
    return list
end

local function link(list, group)
    group.previous, group.next = list.previous, list
    list.previous.next, list.previous = group, group
end

local function unlink(group)
    group.previous.next, group.next.previous = group.next, group.previous
end

--- `emit`: called with each complete IKE message, and with each incomplete one when it is given up: {data, size,
-- incomplete, number, numbers, repeated, bytes, time, last_time, source, source_port, destination, destination_port,
-- ttl, ip_id}; `update`: called with a message of which frames were added later.
function Fragments.new(emit, update)
    return setmetatable({
        emit = emit, update = update,
        pending = {}, pending_count = 0, oldest_pending = new_list(), -- incomplete datagrams, by key and in order
        completed = {}, completed_count = 0, oldest_completed = new_list(), -- the same of complete ones, for 200 ms
        bytes = 0, -- of both
    }, Fragments)
end

-- The bytes of a group without a gap from the start, as far as they were captured. If fragments overlap, those with the
-- lower offset take precedence.
local function join_parts(group)
    local parts = group.parts
    table.sort(parts, function(a, b)
        return a.offset < b.offset
    end)
    local joined, size = {}, 0
    for _, part in ipairs(parts) do
        if part.offset > size then
            break
        end
        local new = sub(part.payload, size - part.offset + 1)
        joined[#joined + 1] = new
        size = size + #new
        if #part.payload < part.size then
            break
        end
    end
    local known = concat(joined)
    return group.size and sub(known, 1, group.size) or known
end

-- Note the bytes without a gap from the start that a group has with another part. Each offset, a multiple of 8, is
-- looked up once.
local function extend(group, part)
    local reached = group.reached
    if part.offset > reached then
        return
    end
    reached = max(reached, part.offset + part.size)
    local offset, at = group.scanned, group.at
    while offset <= reached do
        local following = at[offset]
        if following then
            reached = max(reached, offset + following.size)
        end
        offset = offset + 8
    end
    group.reached, group.scanned = reached, offset
end

-- The IKE message of a group, which may lack its end; nil if there is none.
local function find_message(group)
    local datagram = group.at[0] and join_parts(group) or ""
    local a, b, c, d, high, low = datagram:byte(1, 6)
    if not low then
        return nil
    end
    local source_port, destination_port = a * 256 + b, c * 256 + d
    if not PORTS[source_port] and not PORTS[destination_port] then
        return nil
    end
    local at = packet.message(datagram, 1, source_port, destination_port)
    local length, size = high * 256 + low, group.size or MAX_PAYLOAD
    if not at or (length > 0 and length < UDP_HEADER) then
        return nil
    end
    local last = length > 0 and min(length, size) or size
    return {
        data = sub(datagram, at, last), size = last - at + 1, incomplete = not group.complete or nil,
        number = group.complete and group.number or group.numbers[1],
        numbers = group.numbers, repeated = group.repeated, bytes = group.bytes_on_wire,
        time = group.time, last_time = group.last_time, ttl = group.ttl, ip_id = group.id, ip_fragments = true,
        source = group.source, source_port = source_port,
        destination = group.destination, destination_port = destination_port,
    }
end

local function note_repeated(self, group, number)
    group.repeated = group.repeated or {}
    group.repeated[#group.repeated + 1] = number
    if group.found then
        group.found.repeated = group.repeated
        self.update(group.found)
    end
end

-- Note another frame of a group, which has no bytes that earlier frames lack.
local function note_resent(self, group, number, size, time)
    group.numbers[#group.numbers + 1] = number
    group.bytes_on_wire = group.bytes_on_wire + size
    group.time = min(group.time, time)
    if group.found then
        group.found.bytes, group.found.time = group.bytes_on_wire, group.time
        self.update(group.found)
    end
end

local function remove_pending(self, group)
    unlink(group)
    self.pending[group.key], self.pending_count = nil, self.pending_count - 1
    self.bytes = self.bytes - group.bytes
end

local function remove_completed(self, group)
    unlink(group)
    self.completed[group.key], self.completed_count = nil, self.completed_count - 1
    self.bytes = self.bytes - group.bytes
    group.parts = nil
end

-- Give up an incomplete group. Its fragments are duplicates of the network if they may repeat a complete datagram.
local function give_up(self, group)
    remove_pending(self, group)
    local original = group.doubles
    if not original then
        local found = find_message(group)
        if found then
            group.found = found
            self.emit(found)
        end
    elseif original.found then
        for index, number in ipairs(group.numbers) do
            note_resent(self, original, number, group.sizes[index], group.times[index])
        end
        for _, number in ipairs(group.repeated or {}) do
            note_repeated(self, original, number)
        end
    end
    group.parts, group.doubles = nil, nil
end

local function complete(self, group)
    remove_pending(self, group)
    group.complete, group.doubles = true, nil
    local earlier = self.completed[group.key]
    if earlier then
        remove_completed(self, earlier)
    end
    self.completed[group.key], self.completed_count = group, self.completed_count + 1
    link(self.oldest_completed, group)
    self.bytes = self.bytes + group.bytes
    local found = find_message(group)
    if found then
        group.found = found
        self.emit(found)
    end
end

-- Give up and forget the groups that are too old at this time.
local function expire(self, time)
    local group = self.oldest_pending.next
    while group ~= self.oldest_pending and time - group.first_time > TIMEOUT do
        give_up(self, group)
        group = self.oldest_pending.next
    end
    group = self.oldest_completed.next
    while group ~= self.oldest_completed and
        (time - group.latest_time > DOUBLED_WITHIN or self.completed_count > MAX_DATAGRAMS) do
        remove_completed(self, group)
        group = self.oldest_completed.next
    end
end

-- Whether a fragment equals that of a group with its offset, which came at most so many us before or after it.
local function is_duplicate(group, fragment, payload, time, within)
    local part = group.at[fragment.offset]
    return part ~= nil and math.abs(time - part.time) <= within and part.payload == payload
end

local function new_group(self, fragment, frame, time, doubles)
    local group = {
        key = fragment.key, time = time, first_time = time, last_time = time, ttl = fragment.ttl, id = fragment.id,
        doubles = doubles, -- the complete datagram that its fragments repeat, while another one is still possible
        numbers = {}, sizes = {}, times = {}, -- of the frames
        parts = {}, at = {}, -- fragments, and the same by offset
        bytes = 0, bytes_on_wire = 0,
        reached = 0, scanned = 0, -- bytes without a gap from the start; offset of the first one that may follow them
    }
    group.source, group.destination = packet.addresses(frame, fragment.at, fragment.version)
    self.pending[group.key], self.pending_count = group, self.pending_count + 1
    link(self.oldest_pending, group)
    return group
end

local function add_frame(group, number, size, time)
    local numbers = group.numbers
    local index = #numbers + 1
    numbers[index], group.sizes[index], group.times[index] = number, size, time
    group.bytes_on_wire, group.latest_time = group.bytes_on_wire + size, time
    group.time = min(group.time, time)
end

local function add_part(self, group, fragment, payload, number, size, time)
    local wire_size = fragment.last - fragment.first + 1
    local part = { offset = fragment.offset, payload = payload, size = wire_size, time = time }
    group.parts[#group.parts + 1], group.at[part.offset] = part, part
    add_frame(group, number, size, time)
    group.number, group.last_time = number, max(group.last_time, time)
    group.bytes, self.bytes = group.bytes + #payload, self.bytes + #payload
    if not fragment.more then
        group.size = part.offset + wire_size
    end
    extend(group, part)
end

-- Give up the oldest datagrams while there are too many.
local function evict(self)
    while self.bytes > MAX_BYTES and self.completed_count > 0 do
        remove_completed(self, self.oldest_completed.next)
    end
    while self.pending_count > MAX_DATAGRAMS or (self.bytes > MAX_BYTES and self.pending_count > 1) do
        give_up(self, self.oldest_pending.next)
    end
end

--- Add a frame, with `fragment` from `packet.ip_fragment`, of UDP. `time`: us; `size`: bytes of the frame.
function Fragments:add(number, time, size, frame, fragment)
    expire(self, time)
    local payload = sub(frame, fragment.first, min(fragment.last, #frame))
    local completed, group = self.completed[fragment.key], self.pending[fragment.key]
    if completed and is_duplicate(completed, fragment, payload, time, DUPLICATE_WITHIN) then
        note_repeated(self, completed, number)
        return
    end
    local doubled = completed and is_duplicate(completed, fragment, payload, time, DOUBLED_WITHIN)
    if group and group.doubles and not doubled then
        give_up(self, group) -- this fragment belongs to another datagram with the same identification
        group = nil
    end
    if group and group.at[fragment.offset] then
        if is_duplicate(group, fragment, payload, time, DUPLICATE_WITHIN) then
            note_repeated(self, group, number)
            return
        elseif is_duplicate(group, fragment, payload, time, DOUBLED_WITHIN) then
            add_frame(group, number, size, time)
            return
        end
        give_up(self, group)
        group = nil
    end
    group = group or new_group(self, fragment, frame, time, doubled and completed or nil)
    add_part(self, group, fragment, payload, number, size, time)
    if group.size and group.reached >= group.size then
        complete(self, group)
    else
        evict(self)
    end
end

--- Give up the incomplete datagrams whose latest fragment was at `final_time`, us, or before it.
function Fragments:flush(final_time)
    local group = self.oldest_pending.next
    while group ~= self.oldest_pending do
        local following = group.next
        if group.latest_time <= final_time then
            give_up(self, group)
        end
        group = following
    end
end

--- Whether no datagram waits for fragments.
function Fragments:is_empty()
    return self.pending_count == 0
end

return Fragments
