--[[ Reassembly of IKE messages from IP fragments. Wireshark's own reassembly reports neither messages that lack a
fragment, nor the fragments that a capture on a router contains twice. ]]
local message = require("ikex.message")
local packet = require("ikex.packet")

local Fragments = {}
Fragments.__index = Fragments

local TIMEOUT = 30e6 -- us until the fragments of one datagram must have arrived (Linux: 30 s)
local DUPLICATE_WITHIN = 1000 -- us in which the same fragment again is a capture duplicate
local MAX_DATAGRAMS = 4096 -- incomplete datagrams at the same time
local MAX_BYTES = 32 * 1024 * 1024 -- of all incomplete datagrams

function Fragments.new()
    -- pending: groups by key; order: groups in order of arrival, from `first` on; frames: group of each frame
    return setmetatable({ pending = {}, order = {}, first = 1, frames = {}, bytes = 0 }, Fragments)
end

-- The IKE message in a UDP datagram, which may lack its end; nil if there is none. The caller adds the addresses.
local function find_ike(datagram)
    local a, b, c, d = datagram:byte(1, 4)
    if not d then
        return nil
    end
    local source, destination = a * 256 + b, c * 256 + d
    local begin = 9
    if source == 4500 or destination == 4500 then
        if datagram:sub(9, 12) ~= "\0\0\0\0" then
            return nil
        end
        begin = 13
    elseif source ~= 500 and destination ~= 500 then
        return nil
    end
    local data = datagram:sub(begin)
    local head = message.header(data)
    if not head then
        return nil
    end
    return { data = data, source_port = source, destination_port = destination }
end

-- The bytes of a datagram up to its first gap, and their number.
local function join_parts(group)
    table.sort(group.parts, function(a, b)
        return a.offset < b.offset
    end)
    local joined, size = {}, 0
    for _, part in ipairs(group.parts) do
        if part.offset > size then
            break
        end
        local new = part.payload:sub(size - part.offset + 1)
        joined[#joined + 1] = new
        size = size + #new
    end
    return table.concat(joined), size
end

local function close(self, group)
    group.closed = true
    self.bytes = self.bytes - group.bytes
    local datagram, size = join_parts(group)
    group.parts = nil
    if group.has_first then
        group.ike = find_ike(datagram)
        if group.ike then
            group.ike.source, group.ike.destination = group.source, group.destination
        end
    end
    group.complete = group.size ~= nil and size >= group.size
end

-- Close the oldest datagrams while there are too many incomplete ones.
local function evict(self)
    while
        self.first <= #self.order and (#self.order - self.first >= MAX_DATAGRAMS or self.bytes > MAX_BYTES)
    do
        local group = self.order[self.first]
        if not group.closed then
            close(self, group)
        end
        self.evicted = self.evicted or {}
        if not group.complete and group.ike then
            self.evicted[#self.evicted + 1] = group
        end
        self.order[self.first] = nil
        self.first = self.first + 1
    end
end

--- Add a frame, if it is an IP fragment of UDP; `at`: position of its IP header, if known. Returns the group of
-- fragments, with its message as `ike`, if this fragment completed an IKE message; otherwise nil.
function Fragments:add(number, time, size, frame, at)
    local fragment
    if at then
        fragment = packet.ip_fragment_at(frame, at)
    else
        fragment = packet.ip_fragment(frame, size)
    end
    if not fragment or fragment.proto ~= packet.UDP or self.frames[number] then
        return nil
    end
    local payload = frame:sub(fragment.first, math.min(fragment.last, #frame))
    local group = self.pending[fragment.key]
    local earlier = group and group.offsets[fragment.offset]
    local tail = payload:sub(-24)
    local repeated = earlier and earlier.tail == tail and earlier.size == #payload
    if repeated and time - earlier.time <= DUPLICATE_WITHIN then
        self.frames[number] = group
        group.repeated = group.repeated or {}
        group.repeated[#group.repeated + 1] = number
        return nil
    end
    if group and (earlier or group.closed or time - group.time > TIMEOUT) then
        group = nil -- another datagram has the same identification
    end
    if not group then
        group = {
            time = time, last_time = time, ttl = fragment.ttl, id = fragment.id,
            numbers = {}, parts = {}, offsets = {}, size_on_wire = 0, bytes = 0, received = 0,
        }
        group.source, group.destination = packet.addresses(frame, fragment.at, fragment.version)
        self.pending[fragment.key] = group
        self.order[#self.order + 1] = group
        evict(self)
    end
    group.parts[#group.parts + 1] = { offset = fragment.offset, payload = payload }
    group.offsets[fragment.offset] = { time = time, tail = tail, size = #payload }
    group.numbers[#group.numbers + 1] = number
    group.size_on_wire, group.last_time = group.size_on_wire + size, time
    group.bytes, self.bytes = group.bytes + #payload, self.bytes + #payload
    group.received = group.received + fragment.last - fragment.first + 1
    group.has_first = group.has_first or fragment.offset == 0
    self.frames[number] = group
    if not fragment.more then
        group.size = fragment.offset + fragment.last - fragment.first + 1
    end
    if group.size and group.received >= group.size then
        close(self, group)
        return group.ike and group.complete and group or nil
    end
    return nil
end

--- The incomplete groups that contain the beginning of an IKE message, the longest first. Each is returned once.
-- Groups with fragments after `final_time` may still become complete.
function Fragments:incomplete(final_time)
    local groups = self.evicted or {}
    self.evicted = nil
    local open, pending = {}, {}
    for index = self.first, #self.order do
        local group = self.order[index]
        if not group.closed and group.last_time > final_time then
            open[#open + 1] = group
        elseif not group.closed then
            close(self, group)
        end
        if group.closed and not group.complete and group.ike and not group.returned then
            group.returned = true
            groups[#groups + 1] = group
        end
    end
    for key, group in pairs(self.pending) do
        pending[key] = group.last_time > final_time and group or nil
    end
    self.order, self.first, self.pending = open, 1, pending
    table.sort(groups, function(a, b)
        if #a.ike.data ~= #b.ike.data then
            return #a.ike.data > #b.ike.data
        end
        return a.time < b.time
    end)
    return groups
end

--- Whether no datagram waits for fragments.
function Fragments:is_empty()
    return self.first > #self.order
end

return Fragments
