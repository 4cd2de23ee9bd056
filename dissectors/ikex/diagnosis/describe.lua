--[[ The diagnosis of handshakes as text, for the statistics and the windows. ]]
local compat = require("ikex.compat")
local diagnose = require("ikex.diagnosis.diagnose")
local flood = require("ikex.diagnosis.flood")

local describe = {}

local WIDTH = 69 -- characters of a line, if its words are not longer
local MAX_LISTED = 20 -- handshakes with the same first code; a flood has many more
local LABEL = 11 -- characters of a label, with the blanks after it

--- A text in lines of `width` characters, if its words are not longer.
function describe.wrap(text, width)
    local lines, line = {}, nil
    for word in text:gmatch("%S+") do
        if line and #line + 1 + #word > width then
            lines[#lines + 1] = line
            line = nil
        end
        line = line and line .. " " .. word or word
    end
    lines[#lines + 1] = line
    return lines
end

-- Append a labelled text to lines, in lines that fit into a window as it opens.
local function append_wrapped(lines, label, text)
    for index, line in ipairs(describe.wrap(text, WIDTH - LABEL)) do
        local head = index == 1 and label or ""
        lines[#lines + 1] = head .. (" "):rep(LABEL - #head) .. line
    end
end

local function format_evidence(diagnosis)
    local numbers = {}
    for index, number in ipairs(diagnosis.frames) do
        numbers[index] = compat.format_integer(number)
    end
    local word = #numbers == 1 and "packet" or "packets"
    local packets = #numbers > 0 and string.format(", %s %s", word, table.concat(numbers, ", ")) or ""
    local confidence = diagnosis.confidence == "certain" and "certain" or "consistent with this, not proved"
    return string.format("%s%s: %s", diagnosis.concerns, packets, confidence)
end

--- The diagnoses of a handshake as lines; none without a problem.
function describe.list_lines(capture, sa)
    local lines, effects = {}, {}
    for _, diagnosis in ipairs(diagnose.of_sa(capture, sa)) do
        local label = effects[diagnosis.effect] and "or" or "diagnosis"
        effects[diagnosis.effect] = true
        append_wrapped(lines, label, string.format("%s (%s)", diagnosis.message, diagnosis.code))
        append_wrapped(lines, "  evidence", format_evidence(diagnosis))
        append_wrapped(lines, "  try", diagnosis.remedy)
    end
    return lines
end

--- The diagnoses of the capture as lines; none without a problem.
function describe.list_capture_lines(capture)
    local lines = {}
    for _, sentence in ipairs(flood.describe(capture)) do
        append_wrapped(lines, "capture", string.format("%s (%s)", sentence, flood.CODE))
        append_wrapped(lines, "  try", flood.REMEDY)
    end
    return lines
end

-- Append the diagnoses of each handshake, of those with the same first code only some.
local function append_handshakes(lines, capture)
    local listed = {}
    for _, sa in ipairs(capture.conversation.sas) do
        local first = diagnose.of_sa(capture, sa)[1]
        local count = first and (listed[first.code] or 0) + 1
        if first then
            listed[first.code] = count
        end
        if first and count <= MAX_LISTED then
            lines[#lines + 1] = ""
            lines[#lines + 1] = string.format("IKE handshake %.0f: %s > %s", sa.number, sa.initiator, sa.responder)
            for _, line in ipairs(describe.list_lines(capture, sa)) do
                lines[#lines + 1] = line
            end
        elseif first and count == MAX_LISTED + 1 then
            lines[#lines + 1] = ""
            lines[#lines + 1] = string.format("IKE handshake %.0f and later ones: %s, too", sa.number, first.code)
        end
    end
end

-- The codes by how many handshakes have them, the most frequent first.
local function count_codes(capture)
    local counts, codes = {}, {}
    for _, sa in ipairs(capture.conversation.sas) do
        for _, diagnosis in ipairs(diagnose.of_sa(capture, sa)) do
            if not counts[diagnosis.code] then
                counts[diagnosis.code] = 0
                codes[#codes + 1] = diagnosis.code
            end
            counts[diagnosis.code] = counts[diagnosis.code] + 1
        end
    end
    table.sort(codes, function(a, b)
        if counts[a] ~= counts[b] then
            return counts[a] > counts[b]
        end
        return a < b
    end)
    return codes, counts
end

--- How many handshakes have each diagnosis, the diagnosis of the capture, and those of its handshakes.
function describe.all(capture)
    local codes, counts = count_codes(capture)
    local lines = { "IKE diagnosis: what stopped handshakes or made them slow" }
    for _, code in ipairs(codes) do
        lines[#lines + 1] = string.format("%8.0f  %s", counts[code], code)
    end
    for _, line in ipairs(describe.list_capture_lines(capture)) do
        lines[#lines + 1] = line
    end
    if #lines == 1 then
        lines[2] = "no problem found"
    end
    append_handshakes(lines, capture)
    return table.concat(lines, "\n") .. "\n"
end

return describe
