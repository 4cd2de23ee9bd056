--[[ The messages of a handshake as text, in order of time: `tshark -z ikex,ladders`, and the window of a handshake. ]]
local compat = require("ikex.compat")
local describe_diagnosis = require("ikex.diagnosis.describe")
local exchanges = require("ikex.exchanges")
local info = require("ikex.info")
local outcome = require("ikex.outcome")

local ladder = {}

local WIDTH = 69 -- characters of a line, if its words are not longer
local MAX_TRANSMISSIONS = 1000 -- of one handshake; a flood of retransmissions has more

-- All transmissions of an IKE SA, in order of time.
local function list_transmissions(sa)
    local transmissions = {}
    for _, exchange in ipairs(exchanges.of_sa(sa)) do
        for _, list in ipairs({ exchange.requests, exchange.responses }) do
            for _, transmission in ipairs(list) do
                transmissions[#transmissions + 1] = transmission
            end
        end
    end
    table.sort(transmissions, function(a, b)
        if a.time ~= b.time then
            return a.time < b.time
        end
        return a.datagrams[1].number < b.datagrams[1].number
    end)
    return transmissions
end

-- The numbers of the frames of a transmission: "4", "4-6", "4, 7".
local function format_frames(transmission)
    local parts, first, last = {}, nil, nil
    local function close()
        if first then
            parts[#parts + 1] = first == last and compat.format_integer(first) or string.format("%d-%d", first, last)
        end
    end
    for _, datagram in ipairs(transmission.datagrams) do
        for _, number in ipairs(datagram.numbers or { datagram.number }) do
            if last and number == last + 1 then
                last = number
            else
                close()
                first, last = number, number
            end
        end
    end
    close()
    return table.concat(parts, ", ")
end

local function format_heading(capture, sa)
    local summary = capture:summary(sa)
    local parts = { string.format("IKE handshake %d: %s > %s", sa.number, sa.initiator, sa.responder) }
    if outcome.is_decided(capture, sa) then
        parts[#parts + 1] = summary.outcome
        parts[#parts + 1] = summary.reason
    else
        parts[#parts + 1] = "running"
    end
    if summary.setup then
        parts[#parts + 1] = string.format(
            "set-up %s%s ms", summary.uncertain and "~" or "", compat.ms(summary.setup)
        )
    end
    return table.concat(parts, ", ")
end

-- The payloads of a fragmented message are described by the datagram that completed it.
local function describe(transmission)
    local longest = ""
    for _, datagram in ipairs(transmission.datagrams) do
        local text = info.describe(datagram, transmission)
        longest = #text > #longest and text or longest
    end
    if transmission.fragments then
        local total = transmission.total > 0 and compat.format_integer(transmission.total) or "?"
        local count = string.format("%d of %s fragments", transmission.fragment_count, total)
        longest = longest:gsub("fragment %d+/?%d*", count, 1)
    end
    return transmission.number > 1 and longest:match("^[^,]*") or longest
end

-- Append a text to lines, after `head` and in lines that fit into a window as it opens.
local function append_wrapped(lines, head, text)
    local line = head
    for word, separator in text:gmatch("([^,]+)(,? ?)") do
        if #line + #word >= WIDTH and line ~= head then
            lines[#lines + 1] = line:gsub("%s+$", "")
            line = (" "):rep(#head)
        end
        line = line .. word .. separator
    end
    lines[#lines + 1] = line
end

--- The heading, the diagnosis and the messages of a handshake; requires that the capture has been read to its end.
function ladder.describe(capture, sa)
    capture:decode(sa)
    local lines = { format_heading(capture, sa) }
    for _, line in ipairs(describe_diagnosis.list_lines(capture, sa)) do
        lines[#lines + 1] = line
    end
    lines[#lines + 1] = "   time ms  sender     frames"
    for number, transmission in ipairs(list_transmissions(sa)) do
        if number > MAX_TRANSMISSIONS then
            lines[#lines + 1] = "..."
            break
        end
        append_wrapped(lines, string.format(
            "%10s  %-9s  %-8s  ", compat.ms(transmission.time - sa.start),
            transmission.slot.from_initiator and "initiator" or "responder", format_frames(transmission)
        ), describe(transmission))
    end
    return table.concat(lines, "\n") .. "\n"
end

return ladder
