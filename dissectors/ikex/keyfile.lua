--[[ Key files: JSON of ikeanalyze ("ikeanalyze.keys/1", or a plain list of key sets), and rows of Wireshark's
ikev2_decryption_table. Rows of one IKE SA are its epochs, in their order.

A key set: {spi_i, spi_r, encryption, integrity, icv, ei, er, origin}. SPIs are strings of 8 bytes, nil if the file does not say
for which IKE SA the keys are; encryption and integrity are transform IDs, nil if it does not say; `icv` is how many bytes
an ICV has that nothing can check. What is wrong goes into a list of sentences that have no key in them. ]]
local algorithms = require("ikex.algorithms")
local compat = require("ikex.compat")
local json = require("ikex.json")

local keyfile = {}

local LARGEST = 64 * 1024 * 1024 -- bytes of a key file
local SCHEMA = "ikeanalyze.keys/1"

local function octets(value, size)
    if type(value) ~= "string" then
        return nil
    end
    local data = compat.unhex((value:gsub("^0[xX]", "")))
    if data and size and #data ~= size then
        return nil
    end
    return data
end

local function add(found, keys, where, problems)
    if not keys.ei or not keys.er or (#keys.ei == 0 and keys.encryption ~= 11) then
        problems[#problems + 1] = where .. ": no SK_ei and SK_er; not used"
        return
    end
    keys.origin = where
    keys.number = #found + 1
    found[#found + 1] = keys
end

local function from_object(found, item, where, problems)
    local lower = {}
    for name, value in pairs(type(item) == "table" and item or {}) do
        lower[tostring(name):lower()] = value ~= json.null and value or nil
    end
    if lower.no_salt == true then
        problems[#problems + 1] = where .. ": the salt of the cipher is not in the file; not used"
        return
    end
    if lower.spi_i and not octets(lower.spi_i, 8) or lower.spi_r and not octets(lower.spi_r, 8) then
        problems[#problems + 1] = where .. ": an SPI is no 16 hexadecimal digits; not used"
        return
    end
    add(found, {
        spi_i = octets(lower.spi_i, 8),
        spi_r = octets(lower.spi_r, 8),
        encryption = lower.encryption and algorithms.named_encryption(lower.encryption),
        integrity = lower.integrity and algorithms.named_integrity(lower.integrity),
        icv = type(lower.unchecked_icv) == "number" and lower.unchecked_icv or nil,
        ei = octets(lower.sk_ei),
        er = octets(lower.sk_er),
    }, where, problems)
end

local function from_json(found, text, path, problems)
    local document, wrong = json.decode(text)
    if document == nil then
        problems[#problems + 1] = path .. ": no JSON: " .. wrong
        return
    end
    local sets = document
    if type(document) == "table" and document.schema ~= nil then
        if document.schema ~= SCHEMA then
            problems[#problems + 1] = path .. ": its schema is not " .. SCHEMA
            return
        end
        sets = document.key_sets
    end
    if type(sets) ~= "table" then
        problems[#problems + 1] = path .. ": there are no key sets in it"
        return
    end
    for number, item in ipairs(sets) do
        from_object(found, item, string.format("%s, key set %d", path, number), problems)
    end
end

local function fields_of(row)
    local fields = {}
    local at = 1
    while at <= #row + 1 do
        local quoted, behind = row:match('^%s*"([^"]*)"%s*()', at)
        if not quoted then
            quoted, behind = row:match("^([^,]*)()", at)
            quoted = quoted:match("^%s*(.-)%s*$")
        end
        fields[#fields + 1] = quoted
        if row:sub(behind, behind) ~= "," then
            break
        end
        at = behind + 1
    end
    return fields
end

--- Take one row of ikev2_decryption_table, as a list of its eight columns.
function keyfile.add_row(found, columns, where, problems)
    if #columns ~= 8 then
        problems[#problems + 1] = where .. ": no row of eight columns; not used"
        return
    end
    local encryption = algorithms.table_encryption(columns[5])
    local integrity, unchecked = algorithms.table_integrity(columns[8])
    local spi_i, spi_r = octets(columns[1], 8), octets(columns[2], 8)
    if not encryption or not (integrity or unchecked) or not spi_i or not spi_r then
        problems[#problems + 1] = where .. ": an SPI or the name of an algorithm is not known; not used"
        return
    end
    add(found, {
        spi_i = spi_i,
        spi_r = spi_r,
        encryption = encryption,
        integrity = integrity,
        icv = unchecked,
        ei = octets(columns[3]),
        er = octets(columns[4]),
    }, where, problems)
end

local function from_table(found, text, path, problems)
    local number = 0
    for line in text:gmatch("([^\n]*)\n?") do
        number = number + 1
        line = line:match("^%s*(.-)%s*$")
        if line ~= "" and line:sub(1, 1) ~= "#" then
            keyfile.add_row(found, fields_of(line), string.format("%s, line %d", path, number), problems)
        end
    end
end

--- Read a key file: its key sets are appended to `found`, what is wrong to `problems`.
function keyfile.read(path, found, problems)
    local file, wrong = io.open(path, "rb")
    if not file then
        problems[#problems + 1] = wrong
        return
    end
    local text = file:read(LARGEST + 1)
    file:close()
    if not text or #text > LARGEST then
        problems[#problems + 1] = path .. (text and ": larger than 64 MiB" or ": cannot be read, or is empty")
        return
    end
    if text:sub(1, 2) == "\31\139" then
        problems[#problems + 1] = path .. ": compressed; `ikeanalyze keys FILE --to json` makes a file for the plugin of it"
        return
    end
    local first = text:match("^%s*(.)")
    if first == "{" or first == "[" then
        from_json(found, text, path, problems)
    else
        from_table(found, text, path, problems)
    end
end

return keyfile
