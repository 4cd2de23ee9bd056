--[[ Statistics as text, for `tshark -z ikex,NAME` and the windows under Statistics. ]]
local compat = require("ikex.compat")
local describe = require("ikex.diagnosis.describe")
local diagnose = require("ikex.diagnosis.diagnose")
local ladder = require("ikex.ladder")
local names = require("ikex.names")
local outcome = require("ikex.outcome")

local statistics = {}

local SEPARATOR = "  "
local UNCERTAIN_MARK = "~"
local NO_HANDSHAKE = "no handshake found; if IKE uses another port, name it in the preference ikex.ports (UDP)"
    .. " or iketcp.ports (TCP)\n"
local UNCERTAIN = UNCERTAIN_MARK
    .. " uncertain: requests were repeated and the repeats answered: the round trip may exceed the retransmission timer"

-- The lines of a table; `rows.left_aligned`: columns that are not right-aligned; `separator`: between columns.
local function format_rows(rows, separator)
    local widths = {}
    for _, row in ipairs(rows) do
        for column, cell in ipairs(row) do
            widths[column] = math.max(widths[column] or 0, #cell)
        end
    end
    local lines = {}
    for _, row in ipairs(rows) do
        local cells = {}
        for column, cell in ipairs(row) do
            local pad = (" "):rep(widths[column] - #cell)
            cells[column] = rows.left_aligned[column] and cell .. pad or pad .. cell
        end
        lines[#lines + 1] = (table.concat(cells, separator):gsub("%s+$", ""))
    end
    return lines
end

-- The set-up time of a handshake in ms; "-" if it is unknown, with a mark if it may be wrong. `format`: of the number.
local function format_setup(summary, format)
    if not summary.setup then
        return "-"
    end
    return (summary.uncertain and UNCERTAIN_MARK or "") .. string.format(format, summary.setup / 1000)
end

-- The outcome; "-" if it is unknown, "running" if the capture may still bring the packets that it lacks.
local function format_outcome(capture, sa)
    if not outcome.is_decided(capture, sa) then
        return "running"
    end
    return capture:summary(sa).outcome or "-"
end

-- Notes below a list of handshakes.
local function append_notes(lines, capture)
    for _, sa in ipairs(capture.conversation.sas) do
        if capture:summary(sa).uncertain then
            lines[#lines + 1] = UNCERTAIN
            break
        end
    end
    for _, line in ipairs(describe.list_capture_lines(capture)) do
        lines[#lines + 1] = line
    end
    if capture.queue.late > 0 then
        lines[#lines + 1] = string.format(
            "%d packets were read after packets with later times: sort the capture with reordercap to count correctly",
            capture.queue.late
        )
    end
end

-- The notify that ended a handshake, and those that cost a round trip.
local function format_remarks(summary)
    local remarks = { summary.reason }
    for _, reason in ipairs(summary.extra) do
        remarks[#remarks + 1] = "+" .. reason
    end
    return table.concat(remarks, ", ")
end

--- One line per handshake.
function statistics.handshakes(capture)
    local rows = {
        left_aligned = { [2] = true, [3] = true, [4] = true, [5] = true, [14] = true, [15] = true, [16] = true },
        {
            "no.", "SPIi", "SPIr", "initiator", "responder", "msgs", "frames", "bytes", "msgs", "frames", "bytes",
            "retrans.", "set-up ms", "outcome", "diagnosis", "remark",
        },
    }
    for _, sa in ipairs(capture.conversation.sas) do
        local summary = capture:summary(sa)
        rows[#rows + 1] = {
            compat.format_integer(sa.number), compat.hex(sa.spi_i), compat.hex(sa.spi_r), sa.initiator, sa.responder,
            compat.format_integer(summary.initiator.messages), compat.format_integer(summary.initiator.frames),
            compat.format_integer(summary.initiator.bytes), compat.format_integer(summary.responder.messages),
            compat.format_integer(summary.responder.frames), compat.format_integer(summary.responder.bytes),
            compat.format_integer(summary.retransmitted.messages), format_setup(summary, "%.3f"),
            format_outcome(capture, sa), diagnose.list_codes(capture, sa) or "-", format_remarks(summary),
        }
    end
    local lines = format_rows(rows, SEPARATOR)
    append_notes(lines, capture)
    table.insert(lines, 1, "IKE handshakes: set-up messages from the initiator and from the responder")
    return table.concat(lines, "\n") .. "\n"
end

--- One short line per handshake, at most 70 characters, which fit into a window as it opens. `selected`: number of the
-- handshake that is marked, or nil.
function statistics.list(capture, selected)
    local rows = {
        left_aligned = { [2] = true, [5] = true, [6] = true },
        { "no.", "SPIi", "retx", "set-up ms", "outcome", "remark" },
    }
    for _, sa in ipairs(capture.conversation.sas) do
        local summary, diagnosis = capture:summary(sa), diagnose.of_sa(capture, sa)[1]
        rows[#rows + 1] = {
            compat.format_integer(sa.number), compat.hex(sa.spi_i:sub(1, 4)),
            compat.format_integer(summary.retransmitted.messages), format_setup(summary, "%.1f"),
            format_outcome(capture, sa),
            diagnosis and diagnosis.code or summary.reason or summary.extra[1] and "+" .. summary.extra[1] or "",
        }
    end
    local lines = format_rows(rows, " ")
    if selected then
        for index, line in ipairs(lines) do
            lines[index] = (index == selected + 1 and "> " or "  ") .. line
        end
    end
    append_notes(lines, capture)
    table.insert(lines, 1, "IKE handshakes, counts of the set-up; filter: ikex.handshake == 1")
    return table.concat(lines, "\n") .. "\n"
end

local function format_count(number, word)
    return string.format("%.0f %s%s", number, word, number == 1 and "" or "s")
end

local function format_sent(sums)
    return string.format(
        "%s, %s, %s",
        format_count(sums.messages, "message"), format_count(sums.frames, "frame"), format_count(sums.bytes, "byte")
    )
end

--- The same as `handshakes`, in lines that fit into a window as it opens.
function statistics.details(capture)
    local lines = { "IKE handshakes, counts of the set-up", "" }
    for _, sa in ipairs(capture.conversation.sas) do
        local summary = capture:summary(sa)
        local rows = {
            left_aligned = { true, true },
            { "  initiator", sa.initiator },
            { "  responder", sa.responder },
            { "  SPIi, SPIr", compat.hex(sa.spi_i) .. ", " .. compat.hex(sa.spi_r) },
            { "  from initiator", format_sent(summary.initiator) },
            { "  from responder", format_sent(summary.responder) },
            { "  retransmitted", format_count(summary.retransmitted.messages, "message") },
            { "  set-up", summary.setup and format_setup(summary, "%.3f") .. " ms" or "-" },
            { "  diagnosis", diagnose.list_codes(capture, sa) or "-" },
        }
        local remarks = format_remarks(summary)
        if remarks ~= "" then
            rows[#rows + 1] = { "  remark", remarks }
        end
        if sa.number > 1 then
            lines[#lines + 1] = ""
        end
        lines[#lines + 1] = string.format("Handshake %.0f: %s", sa.number, format_outcome(capture, sa))
        for _, line in ipairs(format_rows(rows, SEPARATOR)) do
            lines[#lines + 1] = line
        end
    end
    append_notes(lines, capture)
    return table.concat(lines, "\n") .. "\n"
end

--- The diagnosis of each handshake that has one.
statistics.diagnosis = describe.all

--- The messages of each handshake.
function statistics.ladders(capture)
    local texts = {}
    for _, sa in ipairs(capture.conversation.sas) do
        texts[#texts + 1] = ladder.describe(capture, sa)
    end
    return table.concat(texts, "\n")
end

--- Round trips by exchange type.
function statistics.exchanges(capture)
    local order, by_name = {}, {}
    for _, sa in ipairs(capture.conversation.sas) do
        for _, exchange in ipairs(capture:summary(sa).exchanges) do
            local name = names.of_exchange(sa.version, exchange.pair.exchange)
            local sums = by_name[name]
            if not sums then
                sums = { count = 0, timed = 0, sum = 0, least = math.huge, most = 0, open = 0 }
                by_name[name] = sums
                order[#order + 1] = name
            end
            sums.count = sums.count + 1
            if exchange.rtt then
                sums.timed, sums.sum = sums.timed + 1, sums.sum + exchange.rtt
                sums.least, sums.most = math.min(sums.least, exchange.rtt), math.max(sums.most, exchange.rtt)
            elseif #exchange.responses == 0 then
                sums.open = sums.open + 1
            end
        end
    end
    local rows = {
        left_aligned = { true },
        { "exchange", "count", "no response", "timed", "min ms", "mean ms", "max ms" },
    }
    for _, name in ipairs(order) do
        local sums = by_name[name]
        local timed = sums.timed > 0
        rows[#rows + 1] = {
            name,
            compat.format_integer(sums.count), compat.format_integer(sums.open), compat.format_integer(sums.timed),
            timed and compat.ms(sums.least) or "-", timed and compat.ms(sums.sum / sums.timed) or "-",
            timed and compat.ms(sums.most) or "-",
        }
    end
    local lines = format_rows(rows, SEPARATOR)
    table.insert(lines, 1, "IKE exchanges: round trips by type")
    return table.concat(lines, "\n") .. "\n"
end

-- Every statistic reads the whole capture first, and says so if there is no handshake.
for name, make_text in pairs(statistics) do
    statistics[name] = function(capture, ...)
        capture:finish()
        return #capture.conversation.sas > 0 and make_text(capture, ...) or NO_HANDSHAKE
    end
end

return statistics
