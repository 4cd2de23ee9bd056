--[[ A JSON decoder (RFC 8259) for key files, with limited depth. ]]
local json = {}

local MAX_DEPTH = 32
local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

--- The value of `null` in lists and objects.
json.null = setmetatable({}, { __tostring = function() return "null" end })

local parse_value

local function fail(at, problem)
    error({ json = string.format("byte %d: %s", at, problem) }, 0)
end

local function skip_blanks(text, at)
    return text:find("[^ \t\r\n]", at) or #text + 1
end

local function encode_character(code)
    if code < 0x80 then
        return string.char(code)
    elseif code < 0x800 then
        return string.char(0xC0 + math.floor(code / 64), 0x80 + code % 64)
    end
    return string.char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
end

local function parse_string(text, at)
    local parts = {}
    local from = at + 1
    while true do
        local stop = text:find('["\\]', from)
        if not stop then
            fail(at, "unterminated string")
        end
        parts[#parts + 1] = text:sub(from, stop - 1)
        if text:sub(stop, stop) == '"' then
            return table.concat(parts), stop + 1
        end
        local letter = text:sub(stop + 1, stop + 1)
        if letter == "u" then
            local digits = text:match("^%x%x%x%x", stop + 2)
            if not digits then
                fail(stop, "invalid escape")
            end
            parts[#parts + 1] = encode_character(tonumber(digits, 16))
            from = stop + 6
        else
            parts[#parts + 1] = ESCAPES[letter] or fail(stop, "invalid escape")
            from = stop + 2
        end
    end
end

local function parse_members(text, at, depth, close, parse_member)
    at = skip_blanks(text, at + 1)
    if text:sub(at, at) == close then
        return at + 1
    end
    while true do
        at = skip_blanks(text, parse_member(at, depth))
        local char = text:sub(at, at)
        if char == close then
            return at + 1
        elseif char ~= "," then
            fail(at, "expected a comma")
        end
        at = skip_blanks(text, at + 1)
    end
end

function parse_value(text, at, depth)
    if depth > MAX_DEPTH then
        fail(at, "nested too deeply")
    end
    at = skip_blanks(text, at)
    local char = text:sub(at, at)
    if char == "{" then
        local object = {}
        return object, parse_members(text, at, depth, "}", function(from)
            if text:sub(from, from) ~= '"' then
                fail(from, "expected a name")
            end
            local name, after = parse_string(text, from)
            after = skip_blanks(text, after)
            if text:sub(after, after) ~= ":" then
                fail(after, "expected a colon")
            end
            object[name], after = parse_value(text, after + 1, depth + 1)
            return after
        end)
    elseif char == "[" then
        local list = {}
        return list, parse_members(text, at, depth, "]", function(from)
            local item, after = parse_value(text, from, depth + 1)
            list[#list + 1] = item
            return after
        end)
    elseif char == '"' then
        return parse_string(text, at)
    end
    for word, constant in pairs({ ["true"] = true, ["false"] = false, ["null"] = json.null }) do
        if text:sub(at, at + #word - 1) == word then
            return constant, at + #word
        end
    end
    local number = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
    if number and tonumber(number) then
        return tonumber(number), at + #number
    end
    fail(at, "expected a value")
end

--- The value of a JSON text; nil and a description of the problem, if the text is not valid.
function json.decode(text)
    local ok, result, after = pcall(parse_value, text, 1, 0)
    if not ok then
        if type(result) == "table" and result.json then
            return nil, result.json
        end
        error(result, 0)
    end
    if skip_blanks(text, after) <= #text then
        return nil, "unexpected data after the end"
    end
    return result
end

return json
