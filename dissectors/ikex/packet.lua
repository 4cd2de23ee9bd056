--[[ The IP, UDP and TCP headers before an IKE message. They are located by the ports that Wireshark reports, so the
link layer does not matter (RFC 791, RFC 8200, RFC 768, RFC 3948).

The plugin requests no field of Wireshark, because that would make Wireshark build a tree for each packet of any
protocol. ]]
local packet = {}

local byte, char, find, floor, sub = string.byte, string.char, string.find, math.floor, string.sub

local ICMP, TCP, UDP, FRAGMENT, ESP, ICMPV6 = 1, 6, 17, 44, 50, 58
local TCP_HEADER = 20 -- bytes, without options
local MAX_IP_POSITION = 64 -- of an IP header: no link layer needs more bytes before it
local MAX_HEADERS = 4096 -- before the header of TCP or UDP: those of all tunnels and extensions
local NON_ESP_MARKER = "\0\0\0\0"
-- Positions in IPv4 in Ethernet, which most frames are: of the headers, and of the message without and behind a marker.
local USUAL_IP, USUAL_UDP, USUAL_UNMARKED, USUAL_MARKED = 15, 35, 43, 47

packet.USUAL_IP, packet.USUAL_UDP = USUAL_IP, USUAL_UDP

local function u16(data, at)
    local high, low = byte(data, at, at + 1)
    return low and high * 256 + low or -1
end

-- Position and version of the IP header that ends before position `at` and is followed by this protocol.
local function find_ip_before(frame, at, protocol)
    for size = 20, 60, 4 do
        local begin = at - size
        if begin < 1 then
            return nil
        end
        if byte(frame, begin) == 0x40 + size / 4 and byte(frame, begin + 9) == protocol then
            return begin, 4
        end
        if size == 40 and floor(byte(frame, begin) / 16) == 6 and byte(frame, begin + 6) == protocol then
            return begin, 6
        end
    end
    return nil
end

-- IPv6 extension headers that may precede UDP or TCP: hop by hop, routing, destination options (RFC 8200, 4).
local EXTENSIONS = { [0] = true, [43] = true, [60] = true }
local MAX_EXTENSIONS = 2048 -- bytes, those of the largest one

-- Whether a fragment header, at position `header`, is of a whole packet (RFC 6946).
local function is_atomic(frame, header)
    local word = u16(frame, header + 2)
    return byte(frame, header + 1) == 0 and word >= 0 and word < 8 and word % 2 == 0
end

-- Position of the IPv6 header whose extension headers end before position `at`; nil if there is none.
local function find_ipv6_with_extensions(frame, at, protocol)
    for ip = at - 48, math.max(1, at - 40 - MAX_EXTENSIONS), -8 do -- the sizes of headers are multiples of 8
        local following = byte(frame, ip + 6)
        if floor(byte(frame, ip) / 16) == 6 and (EXTENSIONS[following] or following == FRAGMENT) then
            local header = ip + 40
            while header < at and (EXTENSIONS[following] or (following == FRAGMENT and is_atomic(frame, header))) do
                following, header = byte(frame, header), header + 8 + 8 * byte(frame, header + 1)
            end
            if header == at and following == protocol then
                return ip
            end
        end
    end
    return nil
end

-- Position of the header of `protocol` with these ports, position of the IP header, and IP version.
local function find_transport(frame, source_port, destination_port, protocol)
    if byte(frame, 15) == 0x45 and byte(frame, 24) == protocol then -- usually IPv4 in Ethernet
        local a, b, c, d = byte(frame, 35, 38)
        if d and a * 256 + b == source_port and c * 256 + d == destination_port then
            return 35, 15, 4
        end
    end
    local ports = char(
        floor(source_port / 256), source_port % 256, floor(destination_port / 256), destination_port % 256
    )
    local from = 1
    while true do
        local at = find(frame, ports, from, true)
        if not at or at > MAX_HEADERS then
            return nil
        end
        local ip, version = find_ip_before(frame, at, protocol)
        if ip then
            return at, ip, version
        end
        ip = find_ipv6_with_extensions(frame, at, protocol)
        if ip then
            return at, ip, 6
        end
        from = at + 1
    end
end

--- The UDP datagram of a frame with these ports: positions of its UDP and its IP header, IP version, and whether the IP
-- packet is a fragment; nil if there is none.
function packet.datagram(frame, source_port, destination_port)
    local udp, ip, version = find_transport(frame, source_port, destination_port, UDP)
    if not udp then
        return nil
    end
    return udp, ip, version, version == 4 and u16(frame, ip + 6) % 0x4000 ~= 0
end

--- A fast test for the most frequent frames: whether this is UDP in IPv4 in Ethernet with a non-ESP marker, and no IP
-- fragment. If false, the frame may still have a marker.
function packet.is_marked(frame, source_port, destination_port)
    if byte(frame, 15) ~= 0x45 or byte(frame, 24) ~= UDP or u16(frame, USUAL_IP + 6) % 0x4000 ~= 0 then
        return false
    end
    local a, b, c, d, _, _, _, _, e, f, g, h = byte(frame, 35, 46)
    return h == 0 and g == 0 and f == 0 and e == 0
        and a * 256 + b == source_port and c * 256 + d == destination_port
end

--- Position (from 0) and number of the bytes of a frame for `find_ports`. It needs 38 of them, but Lua makes strings of
-- more than 40 bytes faster: it does not look whether it has the same string already.
packet.START, packet.START_SIZE = 12, 41

--- A fast test for the most frequent frames: unfragmented IPv4 in Ethernet, with or without a VLAN tag. `start`:
-- START_SIZE bytes of the frame from START on; `ports` and `tcp_ports`: those of IKE, as keys. Returns false if the
-- frame has no IKE message: it is TCP on other ports, ICMP, ESP, or ESP in UDP. Returns source and destination port if
-- it is UDP on a port of IKE, and the position of its IKE message, nil if that must be examined. Returns nil if the
-- frame must be examined. All bytes are read in one call, which is faster than in two.
function packet.find_ports(start, ports, tcp_ports)
    local kind, kind_low, head, _, _, _, _, _, flags, offset, _, protocol, _, _, _, _, _, _, _, _, _, _,
        a, b, c, d, _, _, _, _, e, f, g, h = byte(start, 1, 34)
    local tagged = kind == 0x81 and kind_low == 0
    if tagged then -- a VLAN tag
        kind, kind_low, head, _, _, _, _, _, flags, offset, _, protocol, _, _, _, _, _, _, _, _, _, _,
            a, b, c, d, _, _, _, _, e, f, g, h = byte(start, 5, 38)
    end
    -- other EtherTypes than 0x0800, and fragments
    if kind ~= 8 or kind_low ~= 0 or head ~= 0x45 or offset ~= 0 or flags % 64 ~= 0 then
        return nil
    end
    if protocol == UDP then
        local source_port, destination_port = a * 256 + b, c * 256 + d
        local on_4500 = source_port == 4500 or destination_port == 4500
        local on_500 = source_port == 500 or destination_port == 500
        if on_4500 and not on_500 then
            if h ~= 0 or e ~= 0 or f ~= 0 or g ~= 0 then
                return false -- ESP
            end
            return source_port, destination_port, not tagged and USUAL_MARKED or nil
        elseif on_500 and not on_4500 then
            return source_port, destination_port, not tagged and USUAL_UNMARKED or nil
        elseif ports[source_port] or ports[destination_port] then
            return source_port, destination_port
        end
        return nil -- it may be a tunnel
    elseif protocol == TCP and (tcp_ports[a * 256 + b] or tcp_ports[c * 256 + d]) then
        return nil
    elseif protocol == TCP or protocol == ESP or protocol == ICMP then
        return false
    end
    return nil
end

--- Position of the IKE message in the datagram whose UDP header is at `udp`; nil for ESP and keepalives.
function packet.message(frame, udp, source_port, destination_port)
    local on_4500 = source_port == 4500 or destination_port == 4500
    local on_500 = source_port == 500 or destination_port == 500
    local marked = sub(frame, udp + 8, udp + 11) == NON_ESP_MARKER
    if marked and (on_4500 or not on_500) then
        return udp + 12
    elseif on_4500 and not on_500 then
        return nil
    elseif on_500 and not on_4500 then
        return udp + 8
    end
    -- a NAT translated 500 to 4500 or the reverse, or the ports are set by the user: compare the length in the header
    local at = udp + 8
    local version = byte(frame, at + 17)
    local length = u16(frame, at + 24) * 65536 + u16(frame, at + 26)
    if version and (version == 0x20 or version == 0x10) and length == u16(frame, udp + 4) - 8 then
        return at
    end
    return nil
end

-- An IPv6 address as text: RFC 5952, 4.
local function ipv6_address(frame, at)
    local groups, begin, longest = {}, nil, 1
    local run = 0
    for index = 1, 8 do
        groups[index] = u16(frame, at + 2 * index - 2)
        run = groups[index] == 0 and run + 1 or 0
        if run > longest then
            begin, longest = index - run + 1, run
        end
    end
    local text = {}
    for index, group in ipairs(groups) do
        if begin and index == begin then
            text[#text + 1] = index == 1 and "::" or ":"
        elseif not begin or index < begin or index >= begin + longest then
            text[#text + 1] = string.format("%x", group) .. (index < 8 and ":" or "")
        end
    end
    return table.concat(text)
end

-- The texts of addresses, by their bytes.
local texts, text_count = {}, 0
local MAX_TEXTS = 10000

local function format_address(data, at, version)
    local key = sub(data, at, at + (version == 4 and 3 or 15))
    local text = texts[key]
    if not text then
        if text_count >= MAX_TEXTS then
            texts, text_count = {}, 0
        end
        text = version == 4 and string.format("%d.%d.%d.%d", byte(key, 1, 4)) or ipv6_address(key, 1)
        texts[key], text_count = text, text_count + 1
    end
    return text
end

--- Source and destination address of an IP header at position `at`, as text.
local function addresses(frame, at, version)
    if version == 4 then
        return format_address(frame, at + 12, 4), format_address(frame, at + 16, 4)
    end
    return format_address(frame, at + 8, 6), format_address(frame, at + 24, 6)
end

-- Whether an ICMP error quotes the IP packet at position `ip`.
local function is_quoted(frame, ip, version)
    return find_ip_before(frame, ip - 8, version == 4 and ICMP or ICMPV6) ~= nil
end

--- Put values of the headers of a message at position `at` into `record`: source, destination, ttl, ip_id, size.
-- `ip_id`: nil in IPv6; `size`: bytes of the datagram's payload from `at` on, nil if the UDP length is 0. Returns false
-- if the message is quoted by an ICMP error.
function packet.read_headers(record, frame, at, udp, ip, version)
    if is_quoted(frame, ip, version) then
        return false
    end
    record.source, record.destination = addresses(frame, ip, version)
    local length = u16(frame, udp + 4)
    record.size = length > 0 and length - (at - udp) or nil
    if version == 4 then
        local high, low, _, _, ttl = byte(frame, ip + 4, ip + 8)
        record.ttl, record.ip_id = ttl, high * 256 + low
    else
        record.ttl, record.ip_id = byte(frame, ip + 7), nil
    end
    return true
end

--- The TCP segment with these ports in a frame, as `Streams:add` takes it: {payload (as captured), size (of it, on the
-- wire), sequence, syn, ack, ttl, ip_id, source, destination}; nil if there is none, if an ICMP error quotes it, or if
-- it has neither data nor a SYN. `frame_size`: on the wire.
function packet.segment(frame, frame_size, source_port, destination_port)
    local tcp, ip, version = find_transport(frame, source_port, destination_port, TCP)
    if not tcp or #frame < tcp + TCP_HEADER - 1 or is_quoted(frame, ip, version) then
        return nil
    elseif version == 4 and u16(frame, ip + 6) % 0x4000 ~= 0 then
        return nil -- an IP fragment
    end
    local offset, flags = byte(frame, tcp + 12, tcp + 13)
    local size_on_wire = version == 4 and u16(frame, ip + 2) or u16(frame, ip + 4) + 40
    if size_on_wire <= 40 and u16(frame, ip + (version == 4 and 2 or 4)) == 0 then
        size_on_wire = frame_size -- the network card divides it
    end
    local header_size, syn = floor(offset / 16) * 4, floor(flags / 2) % 2 == 1
    local first, last = tcp + header_size, math.min(ip + size_on_wire - 1, frame_size)
    local size = last - first + 1
    if header_size < TCP_HEADER or size < 0 or (size == 0 and not syn) then
        return nil
    end
    local source, destination = addresses(frame, ip, version)
    return {
        payload = sub(frame, first, last), size = size,
        sequence = u16(frame, tcp + 4) * 65536 + u16(frame, tcp + 6),
        syn = syn, ack = floor(flags / 16) % 2 == 1,
        ttl = byte(frame, ip + (version == 4 and 8 or 7)), ip_id = version == 4 and u16(frame, ip + 4) or nil,
        source = source, destination = destination,
    }
end

-- Position of the last byte of the IP packet that begins at position `at` of a frame with `size` bytes on the wire, nil
-- if no IP header begins there. Only padding may follow a packet. `last`: of the packet around it, if there is one.
local function find_ip_end(frame, at, size, last)
    local head = byte(frame, at)
    if not head or at + 19 > #frame then
        return nil
    end
    local length
    if head >= 0x45 and head <= 0x4F then
        length = u16(frame, at + 2)
    elseif head >= 0x60 and head <= 0x6F then
        length = u16(frame, at + 4) + 40
    else
        return nil
    end
    local left = (last or size) - at + 1
    return (length == left or (not last and length < left and size <= 64)) and at + length - 1 or nil
end

-- Positions of the IP header after Ethernet, Linux cooked, raw, VLAN, Linux cooked 2, loopback.
local USUAL_POSITIONS = { 15, 17, 1, 19, 21, 5 }
-- Protocols of tunnels in IP, and the most bytes of their headers before an IP packet.
local TUNNELS = { [4] = true, [UDP] = true, [41] = true, [47] = true, [97] = true, [115] = true, [137] = true }
local MAX_TUNNEL_HEADERS = 64
--- UDP ports of tunnels (IANA): the ports of a packet in which Wireshark found no others.
packet.TUNNEL_PORTS = {
    [1701] = true, [2152] = true, [4754] = true, [4789] = true, [4790] = true, [6081] = true, [6635] = true,
    [8472] = true, [37008] = true,
}
local MAX_TUNNELS = 4 -- inside each other

-- The protocol of the IP packet at position `at`, and the position of its payload.
local function read_protocol(frame, at)
    local head = byte(frame, at)
    if head < 0x50 then
        return byte(frame, at + 9), at + head % 16 * 4
    end
    local protocol, payload = byte(frame, at + 6), at + 40
    while EXTENSIONS[protocol] do
        local following, length = byte(frame, payload, payload + 1)
        if not length then
            return nil
        end
        protocol, payload = following, payload + 8 + 8 * length
    end
    return protocol, payload
end

-- Whether the IP header at position `at` is not one of a tunnel that looks like it, as L2TP's with a length does: that
-- of IPv4 has a checksum (RFC 791, 3.1).
local function is_plausible(frame, at)
    local size = byte(frame, at) % 16 * 4
    if byte(frame, at) >= 0x60 then
        return true
    elseif #frame < at + size - 1 then
        return false
    end
    local sum = 0
    for position = at, at + size - 2, 2 do
        sum = sum + u16(frame, position)
    end
    return sum > 0 and sum % 0xFFFF == 0
end

-- The IP fragment of UDP inside the IP packet at position `at`, which ends at `last`; nil if it is in no tunnel.
local function find_in_tunnels(frame, at, size, last)
    for _ = 1, MAX_TUNNELS do
        local protocol, payload = read_protocol(frame, at)
        if not TUNNELS[protocol] then
            return nil
        end
        local inner, finish
        for position = payload, payload + MAX_TUNNEL_HEADERS do
            finish = find_ip_end(frame, position, size, last)
            if finish and is_plausible(frame, position) then
                inner = position
                break
            end
        end
        if not inner then
            return nil
        end
        local fragment = packet.ip_fragment_at(frame, inner)
        if fragment then
            return fragment
        end
        at, last = inner, finish
    end
    return nil
end

--- The IP fragment of UDP in a frame: {key, id, ttl, offset, more, first, last, at, version}; nil if there is none.
-- `first` and `last`: positions of its payload in the frame; `at`: position of its IP header; `size`: bytes of the
-- frame on the wire.
function packet.ip_fragment(frame, size)
    local at, last
    for _, position in ipairs(USUAL_POSITIONS) do
        last = find_ip_end(frame, position, size)
        if last then
            at = position
            break
        end
    end
    if not at then
        for position = 1, MAX_IP_POSITION do
            last = find_ip_end(frame, position, size)
            if last then
                at = position
                break
            end
        end
    end
    return at and (packet.ip_fragment_at(frame, at) or find_in_tunnels(frame, at, size, last)) or nil
end

--- As `ip_fragment`, with a known position of the IP header.
function packet.ip_fragment_at(frame, at)
    local head = byte(frame, at)
    local fragment
    if head < 0x50 then
        local word = u16(frame, at + 6)
        local offset, more = word % 0x2000 * 8, word % 0x4000 >= 0x2000
        local ttl, protocol = byte(frame, at + 8, at + 9)
        if protocol ~= UDP or (offset == 0 and not more) then
            return nil
        end
        fragment = {
            key = sub(frame, at + 12, at + 19) .. sub(frame, at + 4, at + 5) .. sub(frame, at + 8, at + 9),
            id = u16(frame, at + 4), ttl = ttl, offset = offset, more = more,
            first = at + head % 16 * 4, last = at + u16(frame, at + 2) - 1, at = at, version = 4,
        }
    else
        local protocol, header = read_protocol(frame, at)
        if protocol ~= FRAGMENT or #frame < header + 7 or byte(frame, header) ~= UDP then
            return nil
        end
        local word = u16(frame, header + 2)
        local offset, more = word - word % 8, word % 2 == 1
        if offset == 0 and not more then
            return nil
        end
        fragment = {
            key = sub(frame, at + 8, at + 39) .. sub(frame, header + 4, header + 7) .. sub(frame, at + 7, at + 7),
            id = u16(frame, header + 4) * 65536 + u16(frame, header + 6), ttl = byte(frame, at + 7),
            offset = offset, more = more,
            first = header + 8, last = at + 39 + u16(frame, at + 4), at = at, version = 6,
        }
    end
    return fragment.last >= fragment.first - 1 and fragment or nil
end

packet.addresses = addresses

return packet
