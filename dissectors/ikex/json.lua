--[[ JSON (RFC 8259), read only: enough for key files, with a bound on the depth. ]]
local json = {}

local DEEPEST = 32
local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

--- What `null` becomes in lists and objects.
json.null = setmetatable({}, { __tostring = function() return "null" end })

local value

local function fail(at, what)
    error({ json = string.format("byte %d: %s", at, what) }, 0)
end

local function blank(text, at)
    return text:find("[^ \t\r\n]", at) or #text + 1
end

local function character(code)
    if code < 0x80 then
        return string.char(code)
    elseif code < 0x800 then
        return string.char(0xC0 + math.floor(code / 64), 0x80 + code % 64)
    end
    return string.char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
end

local function text_at(text, at)
    local parts = {}
    local from = at + 1
    while true do
        local stop = text:find('["\\]', from)
        if not stop then
            fail(at, "a string without end")
        end
        parts[#parts + 1] = text:sub(from, stop - 1)
        if text:sub(stop, stop) == '"' then
            return table.concat(parts), stop + 1
        end
        local letter = text:sub(stop + 1, stop + 1)
        if letter == "u" then
            local digits = text:match("^%x%x%x%x", stop + 2)
            if not digits then
                fail(stop, "a wrong escape")
            end
            parts[#parts + 1] = character(tonumber(digits, 16))
            from = stop + 6
        else
            parts[#parts + 1] = ESCAPES[letter] or fail(stop, "a wrong escape")
            from = stop + 2
        end
    end
end

local function members(text, at, depth, close, member)
    at = blank(text, at + 1)
    if text:sub(at, at) == close then
        return at + 1
    end
    while true do
        at = blank(text, member(at, depth))
        local sign = text:sub(at, at)
        if sign == close then
            return at + 1
        elseif sign ~= "," then
            fail(at, "a comma is missing")
        end
        at = blank(text, at + 1)
    end
end

function value(text, at, depth)
    if depth > DEEPEST then
        fail(at, "too deep")
    end
    at = blank(text, at)
    local sign = text:sub(at, at)
    if sign == "{" then
        local object = {}
        return object, members(text, at, depth, "}", function(place)
            if text:sub(place, place) ~= '"' then
                fail(place, "a name is missing")
            end
            local name, behind = text_at(text, place)
            behind = blank(text, behind)
            if text:sub(behind, behind) ~= ":" then
                fail(behind, "a colon is missing")
            end
            object[name], behind = value(text, behind + 1, depth + 1)
            return behind
        end)
    elseif sign == "[" then
        local list = {}
        return list, members(text, at, depth, "]", function(place)
            local item, behind = value(text, place, depth + 1)
            list[#list + 1] = item
            return behind
        end)
    elseif sign == '"' then
        return text_at(text, at)
    end
    for word, meaning in pairs({ ["true"] = true, ["false"] = false, ["null"] = json.null }) do
        if text:sub(at, at + #word - 1) == word then
            return meaning, at + #word
        end
    end
    local number = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
    if number and tonumber(number) then
        return tonumber(number), at + #number
    end
    fail(at, "no value")
end

--- The value of a JSON text; nil and what is wrong, if it is none.
function json.decode(text)
    local ok, result, behind = pcall(value, text, 1, 0)
    if not ok then
        if type(result) == "table" and result.json then
            return nil, result.json
        end
        error(result, 0)
    end
    if blank(text, behind) <= #text then
        return nil, "something behind the end"
    end
    return result
end

return json
