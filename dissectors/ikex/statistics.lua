--[[ The statistics as text: `tshark -z ikex,handshakes` and `-z ikex,exchanges`, and the windows under Tools. ]]
local compat = require("ikex.compat")
local names = require("ikex.names")

local statistics = {}

local function rows_as_text(rows)
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
            -- words to the left, numbers to the right
            cells[column] = rows.words[column] and cell .. pad or pad .. cell
        end
        lines[#lines + 1] = (table.concat(cells, "  "):gsub("%s+$", ""))
    end
    return lines
end

local function spi(data)
    return compat.hex(data)
end

--- A line a handshake.
function statistics.handshakes(state)
    state:finish()
    local rows = {
        words = { [2] = true, [3] = true, [4] = true, [5] = true, [14] = true, [15] = true },
        {
            "no.", "SPIi", "SPIr", "initiator", "responder", "msgs", "frames", "bytes", "msgs", "frames", "bytes",
            "retrans.", "set-up ms", "outcome", "remark",
        },
    }
    for _, sa in ipairs(state.conversation.sas) do
        local summary = state:summary(sa)
        local remarks = {}
        if summary.reason then
            remarks[1] = summary.reason
        end
        for _, reason in ipairs(summary.extra) do
            remarks[#remarks + 1] = "+" .. reason
        end
        rows[#rows + 1] = {
            compat.whole(sa.number), spi(sa.spi_i), spi(sa.spi_r), sa.initiator, sa.responder,
            compat.whole(summary.initiator.messages), compat.whole(summary.initiator.frames),
            compat.whole(summary.initiator.bytes), compat.whole(summary.responder.messages),
            compat.whole(summary.responder.frames), compat.whole(summary.responder.bytes),
            compat.whole(summary.retransmitted.messages), summary.setup and compat.ms(summary.setup) or "-",
            summary.outcome, table.concat(remarks, ", "),
        }
    end
    local lines = rows_as_text(rows)
    table.insert(lines, 1, "IKE handshakes: what sets each IKE SA up, from the initiator and from the responder")
    return table.concat(lines, "\n") .. "\n"
end

--- Round trips by exchange type.
function statistics.exchanges(state)
    state:finish()
    local order, by_name = {}, {}
    for _, sa in ipairs(state.conversation.sas) do
        for _, exchange in ipairs(state:summary(sa).exchanges) do
            local name = names.of_exchange(sa.version, exchange.pair.exchange)
            local one = by_name[name]
            if not one then
                one = { count = 0, timed = 0, sum = 0, least = math.huge, most = 0, open = 0 }
                by_name[name] = one
                order[#order + 1] = name
            end
            one.count = one.count + 1
            if exchange.rtt then
                one.timed, one.sum = one.timed + 1, one.sum + exchange.rtt
                one.least, one.most = math.min(one.least, exchange.rtt), math.max(one.most, exchange.rtt)
            elseif #exchange.responses == 0 then
                one.open = one.open + 1
            end
        end
    end
    local rows = {
        words = { true },
        { "exchange", "count", "no response", "timed", "min ms", "mean ms", "max ms" },
    }
    for _, name in ipairs(order) do
        local one = by_name[name]
        local some = one.timed > 0
        rows[#rows + 1] = {
            name, compat.whole(one.count), compat.whole(one.open), compat.whole(one.timed),
            some and compat.ms(one.least) or "-", some and compat.ms(one.sum / one.timed) or "-",
            some and compat.ms(one.most) or "-",
        }
    end
    local lines = rows_as_text(rows)
    table.insert(lines, 1, "IKE exchanges: round trips by type")
    return table.concat(lines, "\n") .. "\n"
end

return statistics
