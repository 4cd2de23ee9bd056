--[[ What is around an IKE message in its frame: the headers of IP and UDP, found backwards from where the message begins, so that
neither the link type nor a field of Wireshark's has to be asked for (RFC 791, RFC 768, RFC 3948). ]]
local packet = {}

local byte = string.byte

local UDP, ICMP, ICMPV6 = 17, 1, 58

local function u16(data, at)
    local high, low = byte(data, at, at + 1)
    return low and high * 256 + low or -1
end

-- Where the IP header is that ends before position `at` and has this protocol behind it: position and version.
local function ip_before(frame, at, protocol)
    for size = 20, 60, 4 do
        local begin = at - size
        if begin < 1 then
            return nil
        end
        if byte(frame, begin) == 0x40 + size / 4 and byte(frame, begin + 9) == protocol then
            return begin, 4
        end
        if size == 40 and byte(frame, begin) - byte(frame, begin) % 16 == 0x60 and byte(frame, begin + 6) == protocol then
            return begin, 6
        end
    end
    return nil
end

local function address(frame, at)
    return string.format("%d.%d.%d.%d", byte(frame, at, at + 3))
end

local function udp_before(frame, at)
    if at > 12 and u16(frame, at - 4) == 0 and u16(frame, at - 2) == 0 then
        if u16(frame, at - 12) == 4500 or u16(frame, at - 10) == 4500 then
            local ip, version = ip_before(frame, at - 12, UDP)
            if ip then
                return at - 12, ip, version
            end
        end
    end
    local ip, version = ip_before(frame, at - 8, UDP)
    return ip and at - 8, ip, version
end

--- The headers before the message that begins at position `at` of the frame (1 is the frame's first byte):
-- {ttl, ip_id, size, quoted, source, destination, source_port, destination_port}. `ip_id` and the addresses are nil in
-- IPv6; `size`: bytes of the datagram's payload from `at` on, nil if the UDP header does not tell; `quoted`: an ICMP error has it.
-- Nil if there is no UDP directly before it.
function packet.around(frame, at)
    local udp, ip, version = udp_before(frame, at)
    if not udp then
        return nil
    end
    local found = { source_port = u16(frame, udp), destination_port = u16(frame, udp + 2) }
    local length = u16(frame, udp + 4)
    if length > 0 then
        found.size = length - (at - udp)
    end
    if version == 4 then
        found.ip_id, found.ttl = u16(frame, ip + 4), byte(frame, ip + 8)
        found.source, found.destination = address(frame, ip + 12), address(frame, ip + 16)
        found.quoted = ip_before(frame, ip - 8, ICMP) ~= nil
    else
        found.ttl = byte(frame, ip + 7)
        found.quoted = ip_before(frame, ip - 8, ICMPV6) ~= nil
    end
    return found
end

--- Whether a frame has a plain IPv4 header and UDP before position `at`, in which case `around` tells all of the addresses.
function packet.is_plain(frame, at)
    if byte(frame, at - 28) == 0x45 and byte(frame, at - 19) == UDP then
        return true
    end
    return byte(frame, at - 32) == 0x45 and byte(frame, at - 23) == UDP
end

--- Whether an IPv4 or IPv6 header at position `at` is that of an IP fragment, and which: {key, id, ttl, offset, more, first, last,
-- proto}, `first` and `last` being the positions of its payload in the frame. Nil if it is none.
function packet.ip_fragment(frame, at)
    local head = byte(frame, at)
    if not head then
        return nil
    end
    if head >= 0x40 and head < 0x50 and #frame >= at + 19 then
        local word = u16(frame, at + 6)
        local offset, more = word % 0x2000 * 8, word % 0x4000 >= 0x2000
        if offset == 0 and not more then
            return nil
        end
        local ttl, proto = byte(frame, at + 8, at + 9)
        return {
            key = frame:sub(at + 12, at + 19) .. frame:sub(at + 4, at + 5) .. frame:sub(at + 8, at + 9),
            id = u16(frame, at + 4), ttl = ttl, proto = proto, offset = offset, more = more,
            first = at + head % 16 * 4, last = at + u16(frame, at + 2) - 1,
        }
    elseif head >= 0x60 and head < 0x70 and #frame >= at + 47 and byte(frame, at + 6) == 44 then
        local word = u16(frame, at + 42)
        return {
            key = frame:sub(at + 8, at + 39) .. frame:sub(at + 44, at + 47) .. frame:sub(at + 7, at + 7),
            id = u16(frame, at + 46) + 65536 * u16(frame, at + 44), ttl = byte(frame, at + 7), proto = byte(frame, at + 40),
            offset = word - word % 8, more = word % 2 == 1, first = at + 48, last = at + 39 + u16(frame, at + 4),
        }
    end
    return nil
end

packet.UDP = UDP

return packet
