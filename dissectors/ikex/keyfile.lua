--[[ Key files: JSON of ikeanalyze ("ikeanalyze.keys/1", or a plain list of key sets), and rows of Wireshark's
ikev2_decryption_table. Rows of one IKE SA are its epochs, in order.

A key set: {spi_i, spi_r, encryption, integrity, icv, ei, er, origin}. SPIs are strings of 8 bytes, nil if the file does
not name the IKE SA; encryption and integrity are transform IDs, nil if the file does not name the algorithms; `icv`:
bytes of an ICV that cannot be checked. Problems are collected as sentences, which never contain keys. ]]
local algorithms = require("ikex.algorithms")
local compat = require("ikex.compat")
local json = require("ikex.json")

local keyfile = {}

local MAX_SIZE = 64 * 1024 * 1024 -- bytes of a key file
local SCHEMA = "ikeanalyze.keys/1"

local function parse_hex(value, size)
    if type(value) ~= "string" then
        return nil
    end
    local data = compat.unhex((value:gsub("^0[xX]", "")))
    if data and size and #data ~= size then
        return nil
    end
    return data
end

local function add(sets, keys, where, problems)
    if not keys.ei or not keys.er or (#keys.ei == 0 and keys.encryption ~= 11) then
        problems[#problems + 1] = where .. ": SK_ei and SK_er are missing; ignored"
        return
    end
    keys.origin = where
    keys.number = #sets + 1
    sets[#sets + 1] = keys
end

local function add_object(sets, item, where, problems)
    local lower = {}
    for name, value in pairs(type(item) == "table" and item or {}) do
        lower[tostring(name):lower()] = value ~= json.null and value or nil
    end
    if lower.no_salt == true then
        problems[#problems + 1] = where .. ": the file lacks the salt of the cipher; ignored"
        return
    end
    if lower.spi_i and not parse_hex(lower.spi_i, 8) or lower.spi_r and not parse_hex(lower.spi_r, 8) then
        problems[#problems + 1] = where .. ": an SPI does not have 16 hexadecimal digits; ignored"
        return
    end
    add(sets, {
        spi_i = parse_hex(lower.spi_i, 8),
        spi_r = parse_hex(lower.spi_r, 8),
        encryption = lower.encryption and algorithms.named_encryption(lower.encryption),
        integrity = lower.integrity and algorithms.named_integrity(lower.integrity),
        icv = type(lower.unchecked_icv) == "number" and lower.unchecked_icv or nil,
        ei = parse_hex(lower.sk_ei),
        er = parse_hex(lower.sk_er),
    }, where, problems)
end

local function read_json(sets, text, path, problems)
    local document, problem = json.decode(text)
    if document == nil then
        problems[#problems + 1] = path .. ": not valid JSON: " .. problem
        return
    end
    local items = document
    if type(document) == "table" and document.schema ~= nil then
        if document.schema ~= SCHEMA then
            problems[#problems + 1] = path .. ": the schema is not " .. SCHEMA
            return
        end
        items = document.key_sets
    end
    if type(items) ~= "table" then
        problems[#problems + 1] = path .. ": the file contains no key sets"
        return
    end
    for number, item in ipairs(items) do
        add_object(sets, item, string.format("%s, key set %d", path, number), problems)
    end
end

local function split_row(row)
    local fields = {}
    local at = 1
    while at <= #row + 1 do
        local field, comma = row:match('^%s*"([^"]*)"%s*()', at)
        if not field then
            field, comma = row:match("^([^,]*)()", at)
            field = field:match("^%s*(.-)%s*$")
        end
        fields[#fields + 1] = field
        if row:sub(comma, comma) ~= "," then
            break
        end
        at = comma + 1
    end
    return fields
end

--- Add the key set of a row of ikev2_decryption_table, given as a list of its eight columns.
function keyfile.add_row(sets, columns, where, problems)
    if #columns ~= 8 then
        problems[#problems + 1] = where .. ": the row does not have eight columns; ignored"
        return
    end
    local encryption = algorithms.table_encryption(columns[5])
    local integrity, unchecked = algorithms.table_integrity(columns[8])
    local spi_i, spi_r = parse_hex(columns[1], 8), parse_hex(columns[2], 8)
    if not encryption or not (integrity or unchecked) or not spi_i or not spi_r then
        problems[#problems + 1] = where .. ": invalid SPI or unknown algorithm; ignored"
        return
    end
    add(sets, {
        spi_i = spi_i,
        spi_r = spi_r,
        encryption = encryption,
        integrity = integrity,
        icv = unchecked,
        ei = parse_hex(columns[3]),
        er = parse_hex(columns[4]),
    }, where, problems)
end

local function read_table(sets, text, path, problems)
    local number = 0
    for line in text:gmatch("([^\n]*)\n?") do
        number = number + 1
        line = line:match("^%s*(.-)%s*$")
        if line ~= "" and line:sub(1, 1) ~= "#" then
            keyfile.add_row(sets, split_row(line), string.format("%s, line %d", path, number), problems)
        end
    end
end

--- Read a key file: append its key sets to `sets`, and its problems to `problems`.
function keyfile.read(path, sets, problems)
    local file, problem = io.open(path, "rb")
    if not file then
        problems[#problems + 1] = problem
        return
    end
    local text = file:read(MAX_SIZE + 1)
    file:close()
    if not text or #text > MAX_SIZE then
        problems[#problems + 1] = path .. (text and ": larger than 64 MiB" or ": cannot be read, or is empty")
        return
    end
    if text:sub(1, 2) == "\31\139" then
        problems[#problems + 1] = path .. ": compressed; `ikeanalyze keys FILE --to json` converts it for the plugin"
        return
    end
    local first = text:match("^%s*(.)")
    if first == "{" or first == "[" then
        read_json(sets, text, path, problems)
    else
        read_table(sets, text, path, problems)
    end
end

return keyfile
