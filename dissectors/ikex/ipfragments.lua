--[[ IKE messages in several IP fragments. They are put together here once more, because Wireshark tells neither of those that lack a
fragment, nor of the frames of a datagram that a router's capture has twice. ]]
local message = require("ikex.message")
local packet = require("ikex.packet")

local Fragments = {}
Fragments.__index = Fragments

local TIMEOUT = 30e6 -- us that fragments of one datagram are waited for (Linux: 30 s)
local NEAR = 1000 -- us within which the same fragment again is the capture's doing
local MOST = 4096 -- datagrams that are waited for at the same time
local MOST_BYTES = 32 * 1024 * 1024 -- of all of them together

function Fragments.new()
    -- pending: by key; order: groups as they came, from `first` on; frames: group of each frame
    return setmetatable({ pending = {}, order = {}, first = 1, frames = {}, bytes = 0 }, Fragments)
end

-- The IKE message in the payload of a UDP datagram, as far as that is known.
local function ike_in(datagram)
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
    return { data = data, source_port = source, destination_port = destination } -- and its addresses
end

local function known_bytes(group)
    table.sort(group.parts, function(one, other)
        return one.offset < other.offset
    end)
    local out, reached = {}, 0
    for _, part in ipairs(group.parts) do
        if part.offset > reached then
            break
        end
        local new = part.payload:sub(reached - part.offset + 1)
        out[#out + 1] = new
        reached = reached + #new
    end
    return table.concat(out), reached
end

local function close(self, group)
    group.closed = true
    self.bytes = self.bytes - group.bytes
    local datagram, reached = known_bytes(group)
    group.parts = nil
    if group.has_first then
        group.ike = ike_in(datagram)
        if group.ike then
            group.ike.source, group.ike.destination = group.source, group.destination
        end
    end
    group.complete = group.size ~= nil and reached >= group.size
end

-- Datagrams that are waited for no longer, because there are too many of them.
local function make_room(self)
    while self.first <= #self.order and (#self.order - self.first >= MOST or self.bytes > MOST_BYTES) do
        local group = self.order[self.first]
        if not group.closed then
            close(self, group)
        end
        self.left = self.left or {}
        if not group.complete and group.ike then
            self.left[#self.left + 1] = group
        end
        self.order[self.first] = nil
        self.first = self.first + 1
    end
end

--- Take a frame, if it is an IP fragment of UDP; `at`: where its IP header begins, if that is known. The group of fragments,
-- with its message as `ike`, if this one made an IKE message complete; nil for all other frames.
function Fragments:take(number, time, size, frame, at)
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
    local same = group and group.offsets[fragment.offset]
    local tail = payload:sub(-24)
    if group and same and time - same.time <= NEAR and same.tail == tail and same.size == #payload then
        self.frames[number] = group
        group.repeated = group.repeated or {}
        group.repeated[#group.repeated + 1] = number
        return nil
    end
    if group and (same or group.closed or time - group.time > TIMEOUT) then
        group = nil -- the identification is used again
    end
    if not group then
        group = {
            time = time, last_time = time, ttl = fragment.ttl, id = fragment.id,
            numbers = {}, parts = {}, offsets = {}, size_on_wire = 0, bytes = 0, have = 0,
        }
        group.source, group.destination = packet.addresses(frame, fragment.at, fragment.version)
        self.pending[fragment.key] = group
        self.order[#self.order + 1] = group
        make_room(self)
    end
    group.parts[#group.parts + 1] = { offset = fragment.offset, payload = payload }
    group.offsets[fragment.offset] = { time = time, tail = tail, size = #payload }
    group.numbers[#group.numbers + 1] = number
    group.size_on_wire, group.last_time = group.size_on_wire + size, time
    group.bytes, self.bytes = group.bytes + #payload, self.bytes + #payload
    group.have = group.have + fragment.last - fragment.first + 1
    group.has_first = group.has_first or fragment.offset == 0
    self.frames[number] = group
    if not fragment.more then
        group.size = fragment.offset + fragment.last - fragment.first + 1
    end
    if group.size and group.have >= group.size then
        close(self, group)
        return group.ike and group.complete and group or nil
    end
    return nil
end

--- The groups with the beginning of an IKE message that were never complete, those with the most of it first; each is
-- given once.
function Fragments:incomplete()
    local found = self.left or {}
    self.left = nil
    for index = self.first, #self.order do
        local group = self.order[index]
        if not group.closed then
            close(self, group)
        end
        if not group.complete and group.ike and not group.given then
            group.given = true
            found[#found + 1] = group
        end
    end
    self.order, self.first, self.pending = {}, 1, {}
    table.sort(found, function(one, other)
        if #one.ike.data ~= #other.ike.data then
            return #one.ike.data > #other.ike.data
        end
        return one.time < other.time
    end)
    return found
end

return Fragments
