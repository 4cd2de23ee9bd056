--[[ Datagrams: each is an IKE message or a fragment of one, in a frame or in several.

A capture has as many of them as packets. So the fields that all of them have are in the array part of a table, where a
field takes 16 bytes, instead of 24 to 40 under its name. Modules that handle each packet use the positions below; the
others read the names, for example `datagram.time`.

Fields that few datagrams have are stored under their names: `data` (the kept bytes of the message), `clear` (it is not
encrypted), `next` (type of its first payload), `lacks_encryption` (see `exchanges.is_in_clear`), `last_time`, `frames`,
`numbers`, `repeated`, `ip_fragments`, `incomplete` (the capture lacks bytes of its IP fragments or TCP segments),
`endpoints` (see `get_endpoint`), `surplus` (number of bytes after the message), `unnumbered` (an IKE fragment that the
snapshot length truncates before its number); and those of the module `contents`. ]]
local message = require("ikex.message")

local Datagram = {}

--- Positions: number of the frame; time, us; bytes of its frames; TTL and IP identification, false if unknown; length
-- by the IKE header; number of the fragment and of all fragments, 0 if there are none; the bytes that identify its
-- content; its slot; the bytes of its IKE SA up to it, by sender; its transmission, false while it has not been built;
-- whether it is plain: encrypted, without keys, and in a frame, so that it has no fields by name.
Datagram.NUMBER, Datagram.TIME, Datagram.BYTES, Datagram.TTL, Datagram.IP_ID = 1, 2, 3, 4, 5
Datagram.SIZE, Datagram.FRAGMENT, Datagram.TOTAL, Datagram.DIGEST, Datagram.SLOT = 6, 7, 8, 9, 10
Datagram.SENT_BY_INITIATOR, Datagram.SENT_BY_RESPONDER, Datagram.TRANSMISSION, Datagram.PLAIN = 11, 12, 13, 14

local POSITIONS = {
    number = 1, time = 2, bytes = 3, ttl = 4, ip_id = 5, size = 6, fragment = 7, total = 8, digest = 9, slot = 10,
    sent_by_initiator = 11, sent_by_responder = 12, transmission = 13,
}

local TIME, FRAGMENT = Datagram.TIME, Datagram.FRAGMENT

-- Called for a name that is not in the hash part: most datagrams are encrypted, and a single frame has all their bytes.
local METATABLE = {
    __index = function(datagram, name)
        local position = POSITIONS[name]
        if position then
            return datagram[position]
        elseif name == "last_time" then
            return datagram[TIME]
        elseif name == "frames" then
            return 1
        elseif name == "next" then -- of IKEv2
            return datagram[FRAGMENT] > 0 and message.SKF or message.SK
        end
        return nil
    end,
}

--- A datagram of one frame, without its message.
function Datagram.new(number, time, bytes, ttl, ip_id)
    return setmetatable({
        number, time, bytes, ttl or false, ip_id or false, 0, 0, 0, "", false, 0, 0, false, false,
    }, METATABLE)
end

--- A datagram of one frame, with an encrypted message of IKEv2 that cannot be decrypted.
function Datagram.new_encrypted(number, time, bytes, ttl, ip_id, size, fragment, total, digest)
    return setmetatable({
        number, time, bytes, ttl, ip_id, size, fragment, total, digest, false, 0, 0, false, true,
    }, METATABLE)
end

--- Note where a datagram of IKE_SA_INIT came from and went to; `parsed`: has the fields source, source_port,
-- destination and destination_port. Under these names, they would take 216 bytes instead of 120.
function Datagram.set_endpoints(datagram, parsed)
    datagram.endpoints = { parsed.source, parsed.source_port, parsed.destination, parsed.destination_port }
end

--- Address and port of a side ("source" or "destination") of a datagram; nil if they have not been noted.
function Datagram.get_endpoint(datagram, side)
    local endpoints = datagram.endpoints
    if not endpoints then
        return nil
    elseif side == "source" then
        return endpoints[1], endpoints[2]
    end
    return endpoints[3], endpoints[4]
end

return Datagram
