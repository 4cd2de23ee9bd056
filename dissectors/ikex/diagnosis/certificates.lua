--[[ X.509 certificates: their subject and validity (RFC 5280, 4.1), and distinguished names as text (RFC 4514). ]]
local Cursor = require("ikex.cursor")
local templates = require("ikex.diagnosis.templates")

local certificates = {}

--- The encoding of certificates in CERT payloads that this module reads (RFC 7296, 3.6).
certificates.X509_SIGNATURE = 4

local SEQUENCE, SET, OID, UTC_TIME, GENERALIZED_TIME, VERSION = 0x30, 0x31, 0x06, 0x17, 0x18, 0xA0
-- Strings in UTF-8 or a part of it: UTF8String, NumericString, PrintableString, IA5String, VisibleString.
local IS_TEXT = { [0x0C] = true, [0x12] = true, [0x13] = true, [0x16] = true, [0x1A] = true }
-- Bytes of each character of other strings: TeletexString (Latin-1), UniversalString (UTF-32), BMPString (UTF-16).
local WIDTHS = { [0x14] = 1, [0x1C] = 4, [0x1E] = 2 }
local NAME_PARTS = {
    ["2.5.4.3"] = "CN", ["2.5.4.4"] = "SN", ["2.5.4.5"] = "serialNumber", ["2.5.4.6"] = "C", ["2.5.4.7"] = "L",
    ["2.5.4.8"] = "ST", ["2.5.4.9"] = "STREET", ["2.5.4.10"] = "O", ["2.5.4.11"] = "OU", ["2.5.4.12"] = "title",
    ["2.5.4.42"] = "givenName", ["2.5.4.97"] = "organizationIdentifier", ["0.9.2342.19200300.100.1.1"] = "UID",
    ["0.9.2342.19200300.100.1.25"] = "DC", ["1.2.840.113549.1.9.1"] = "emailAddress",
}
local MINUTE, HOUR, DAY = 60, 3600, 86400
-- Days before each month in a year that is not a leap year.
local DAYS_BEFORE = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 }

-- The next DER element: its tag, and a cursor over its content. The tag must be `expected`, if that is given.
local function read_element(cursor, expected)
    local tag, size = cursor:u8(), cursor:u8()
    if size >= 0x80 then
        local count = size - 0x80
        size = 0
        for _ = 1, count do
            size = size * 256 + cursor:u8()
        end
    end
    if expected and tag ~= expected then
        cursor:skip(cursor:remaining() + 1) -- not what it should be: end here
    end
    return tag, cursor:within(size)
end

local function read_oid(cursor)
    local _, inner = read_element(cursor, OID)
    local parts, value = {}, 0
    while inner:remaining() > 0 do
        local byte = inner:u8()
        value = value * 128 + byte % 128
        if byte < 0x80 then
            if #parts == 0 then
                local first = math.min(math.floor(value / 40), 2)
                parts[1], value = string.format("%.0f", first), value - 40 * first
            end
            parts[#parts + 1], value = string.format("%.0f", value), 0
        end
    end
    return table.concat(parts, ".")
end

-- A character in UTF-8.
local function encode_character(code)
    if code < 0x80 then
        return string.char(code)
    elseif code >= 0xD800 and code < 0xE000 or code > 0x10FFFF then
        code = 0xFFFD -- not a character
    end
    local last = string.char(0x80 + code % 64)
    code = math.floor(code / 64)
    if code < 32 then
        return string.char(0xC0 + code) .. last
    end
    last, code = string.char(0x80 + code % 64) .. last, math.floor(code / 64)
    if code < 16 then
        return string.char(0xE0 + code) .. last
    end
    return string.char(0xF0 + math.floor(code / 64), 0x80 + code % 64) .. last
end

-- A string whose characters have `width` bytes each, in UTF-8.
local function decode_characters(cursor, width)
    local characters, high = {}, nil -- the first half of a pair of UTF-16
    while cursor:remaining() >= width do
        local code = 0
        for _ = 1, width do
            code = code * 256 + cursor:u8()
        end
        if high and code >= 0xDC00 and code < 0xE000 then
            characters[#characters] = encode_character(0x10000 + (high - 0xD800) * 1024 + code - 0xDC00)
        else
            characters[#characters + 1] = encode_character(code)
        end
        high = width == 2 and code >= 0xD800 and code < 0xDC00 and code or nil
    end
    return table.concat(characters)
end

-- A text as RFC 4514, 2.4, writes it.
local function escape(text)
    local escaped = text:gsub('[",+;<>\\]', "\\%0"):gsub("^[ #]", "\\%0"):gsub("%c", function(character)
        return string.format("\\%02x", character:byte())
    end)
    if #text > 1 then
        escaped = escaped:gsub(" $", "\\ ")
    end
    return escaped
end

local function format_value(cursor)
    local begin = cursor.at
    local tag, inner = read_element(cursor)
    if WIDTHS[tag] then
        return escape(decode_characters(inner, WIDTHS[tag]))
    elseif not IS_TEXT[tag] then
        return "#" .. cursor.data:sub(begin, cursor.at - 1):gsub(".", function(byte)
            return string.format("%02x", byte:byte())
        end)
    end
    return escape(inner:rest())
end

-- A distinguished name: the last part first.
local function read_name(cursor)
    local _, parts = read_element(cursor, SEQUENCE)
    local texts = {}
    while parts:remaining() > 0 do
        local _, set = read_element(parts, SET)
        local values = {}
        while set:remaining() > 0 do
            local _, pair = read_element(set, SEQUENCE)
            local kind = read_oid(pair)
            values[#values + 1] = (NAME_PARTS[kind] or kind) .. "=" .. format_value(pair)
        end
        table.insert(texts, 1, table.concat(values, "+"))
    end
    return table.concat(texts, ",")
end

-- A time, in s since 1970 (RFC 5280, 4.1.2.5); nil if it has another form.
local function read_time(cursor)
    local tag, inner = read_element(cursor)
    local pattern = tag == UTC_TIME and "^(%d%d)(%d%d)(%d%d)(%d%d)(%d%d)(%d%d)Z$"
        or tag == GENERALIZED_TIME and "^(%d%d%d%d)(%d%d)(%d%d)(%d%d)(%d%d)(%d%d)Z$"
    local year, month, day, hour, minute, second = inner:rest():match(pattern or "^$")
    year, month = tonumber(year), tonumber(month)
    if not month or month < 1 or month > 12 then
        return nil
    end
    if tag == UTC_TIME then
        year = year + (year < 50 and 2000 or 1900)
    end
    local before = year - (month <= 2 and 1 or 0) -- leap days until this month
    local leap_days = math.floor(before / 4) - math.floor(before / 100) + math.floor(before / 400) - 477
    local days = (year - 1970) * 365 + leap_days + DAYS_BEFORE[month] + tonumber(day) - 1
    return days * DAY + tonumber(hour) * HOUR + tonumber(minute) * MINUTE + tonumber(second)
end

--- A distinguished name in DER, as text; nil if it is invalid.
function certificates.format_name(data)
    return (Cursor.attempt(read_name, Cursor.new(data)))
end

--- The subject and the validity of a certificate: {subject, valid_from, valid_until}, times in s since 1970; nil if it
-- is invalid.
function certificates.read(data)
    return (Cursor.attempt(function()
        local _, whole = read_element(Cursor.new(data), SEQUENCE)
        local _, inner = read_element(whole, SEQUENCE)
        if inner.data:byte(inner.at) == VERSION then
            read_element(inner)
        end
        for _ = 1, 3 do -- serial number, algorithm, issuer
            read_element(inner)
        end
        local _, validity = read_element(inner, SEQUENCE)
        local from, until_time = read_time(validity), read_time(validity)
        return { subject = read_name(inner), valid_from = from, valid_until = until_time }
    end))
end

-- A time in the largest unit that is contained twice in it.
local function format_span(seconds)
    for _, unit in ipairs({ { "days", DAY }, { "hours", HOUR }, { "minutes", MINUTE } }) do
        if seconds >= 2 * unit[2] then
            local count = string.format("%.0f", math.floor(seconds / unit[2]))
            return templates.group_thousands(count) .. " " .. unit[1]
        end
    end
    return string.format("%.0f s", seconds)
end

local function format_time(seconds)
    return os.date("!%Y-%m-%d %H:%M:%S UTC", seconds)
end

--- How a certificate is not valid at a time; nil if it is.
function certificates.describe_validity(certificate, time)
    local from, until_time = certificate.valid_from, certificate.valid_until
    if until_time and time > until_time then
        return string.format("expired on %s, %s before", format_time(until_time), format_span(time - until_time))
    elseif from and time < from then
        return string.format("is not valid before %s, %s later", format_time(from), format_span(from - time))
    end
    return nil
end

return certificates
