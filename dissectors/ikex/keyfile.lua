--[[ Key files: JSON of ikeanalyze ("ikeanalyze.keys/1", or a plain list of key sets), rows of Wireshark's tables
ikev2_decryption_table and ikev1_decryption_table, and logs of charon and libreswan. Key sets of one IKE SA are its
epochs, in order.

A key set: {spi_i, spi_r, nonces, encryption, integrity, icv, ei, er, ai, ar, origin, number}. SPIs are strings of 8
bytes, nil if the file does not name the IKE SA; `nonces`: Ni | Nr, nil if unknown; encryption and integrity are
transform IDs, nil if the file does not name the algorithms; `icv`: bytes of an ICV that cannot be checked. An IKEv1
key: {cookie_i, key, origin}. Problems are collected as sentences, which never contain keys. ]]
local algorithms = require("ikex.algorithms")
local compat = require("ikex.compat")
local json = require("ikex.json")
local keylog = require("ikex.keylog")

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

local KEY1_BYTES = { [16] = true, [24] = true, [32] = true } -- of ciphers of IKEv1; DES has 8

--- Key sets, IKEv1 keys and problems of no file, to which `read` and `add_row` add.
function keyfile.new()
    return { sets = {}, phase1 = {}, problems = {} }
end

local function report(loaded, where, problem)
    loaded.problems[#loaded.problems + 1] = where .. ": " .. problem
end

local function add(loaded, keys, where)
    if not keys.ei or not keys.er or (#keys.ei + #keys.er == 0 and keys.encryption ~= 11) then
        report(loaded, where, "SK_ei and SK_er are missing; ignored")
        return
    end
    keys.origin = where
    keys.number = #loaded.sets + 1
    loaded.sets[keys.number] = keys
end

local function add_phase1(loaded, keys, where)
    if not keys.key or #keys.key == 0 then
        report(loaded, where, "invalid IKEv1 key; ignored")
        return
    end
    keys.origin = where
    loaded.phase1[#loaded.phase1 + 1] = keys
end

local function add_object(loaded, item, where)
    local lower = {}
    for name, value in pairs(type(item) == "table" and item or {}) do
        lower[tostring(name):lower()] = value ~= json.null and value or nil
    end
    if lower.no_salt == true then
        report(loaded, where, "the file lacks the salt of the cipher; ignored")
        return
    end
    if lower.spi_i and not parse_hex(lower.spi_i, 8) or lower.spi_r and not parse_hex(lower.spi_r, 8) then
        report(loaded, where, "an SPI does not have 16 hexadecimal digits; ignored")
        return
    end
    local derivation = type(lower.derivation) == "table" and lower.derivation or {}
    add(loaded, {
        spi_i = parse_hex(lower.spi_i, 8),
        spi_r = parse_hex(lower.spi_r, 8),
        nonces = parse_hex(derivation.nonces),
        encryption = lower.encryption and algorithms.named_encryption(lower.encryption),
        integrity = lower.integrity and algorithms.named_integrity(lower.integrity),
        icv = type(lower.unchecked_icv) == "number" and lower.unchecked_icv or nil,
        ei = parse_hex(lower.sk_ei or ""),
        er = parse_hex(lower.sk_er or ""),
        ai = parse_hex(lower.sk_ai or ""),
        ar = parse_hex(lower.sk_ar or ""),
    }, where)
end

local function read_json(loaded, text, path)
    local document, problem = json.decode(text)
    if document == nil then
        report(loaded, path, "not valid JSON: " .. problem)
        return
    end
    local items = document
    if type(document) == "table" and document.schema ~= nil then
        if document.schema ~= SCHEMA then
            report(loaded, path, "the schema is not " .. SCHEMA)
            return
        end
        items = document.key_sets
    end
    if type(items) ~= "table" then
        report(loaded, path, "the file contains no key sets")
        return
    end
    for number, item in ipairs(items) do
        add_object(loaded, item, string.format("%s, key set %d", path, number))
    end
    for number, item in ipairs(type(document.phase1) == "table" and document.phase1 or {}) do
        local where = string.format("%s, IKEv1 key %d", path, number)
        add_phase1(loaded, { cookie_i = parse_hex(item.cookie_i, 8), key = parse_hex(item.key) }, where)
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
function keyfile.add_row(loaded, columns, where)
    if #columns ~= 8 then
        report(loaded, where, "the row does not have eight columns; ignored")
        return
    end
    local encryption = algorithms.table_encryption(columns[5])
    local integrity, unchecked = algorithms.table_integrity(columns[8])
    local spi_i, spi_r = parse_hex(columns[1], 8), parse_hex(columns[2], 8)
    if not encryption or not (integrity or unchecked) or not spi_i or not spi_r then
        report(loaded, where, "invalid SPI or unknown algorithm; ignored")
        return
    end
    add(loaded, {
        spi_i = spi_i,
        spi_r = spi_r,
        encryption = encryption,
        integrity = integrity,
        icv = unchecked,
        ei = parse_hex(columns[3]),
        er = parse_hex(columns[4]),
        ai = parse_hex(columns[6]) or "",
        ar = parse_hex(columns[7]) or "",
    }, where)
end

-- Call `read_line(number, line)` for each line.
local function split_lines(text, read_line)
    local number = 0
    for line in text:gmatch("([^\n]*)\n?") do
        number = number + 1
        read_line(number, line)
    end
end

-- Read the lines of a table or a log, which may be mixed; `split` is another function than `split_lines` if they are
-- in entries.
local function read_lines(loaded, text, path, split)
    local function where(number)
        return string.format("%s, line %d", path, number)
    end
    local function add_keys(keys, number)
        add(loaded, keys, where(number))
    end
    local function add_key1(keys, number)
        add_phase1(loaded, keys, where(number))
    end
    local function report_line(number, problem)
        report(loaded, where(number), problem)
    end
    local charon = keylog.new_charon(add_keys, add_key1, report_line)
    local libreswan = keylog.new_libreswan(add_keys, add_key1, report_line)
    local is_log, unread = false, {}
    local function read_line(number, line)
        line = line:gsub("[%z\r]", "")
        if line:find("\27[", 1, true) then -- colours of terminals
            line = line:gsub("\27%[[0-?]*[ -/]*[@-~]", "")
        end
        local dump = next(charon.threads) ~= nil or line:find(" => ", 1, true)
        if dump and keylog.read_charon_line(charon, number, line) then
            is_log = true
        elseif line:find("ikev", 1, true) and keylog.read_libreswan_line(libreswan, number, line) then
            is_log = true
        elseif line:find(",", 1, true) and line:find("^%s*\"?0?[xX]?%x+\"?%s*,") then
            local columns = split_row(line)
            if #columns == 2 then -- of ikev1_decryption_table
                local cookie, key = parse_hex(columns[1], 8), parse_hex(columns[2])
                -- also rows of IKEv2 have two columns if they are cut
                local is_key = cookie and key and (KEY1_BYTES[#key] or #key == 8 and #loaded.sets == 0)
                add_key1({ cookie_i = cookie, key = is_key and key or nil }, number)
            else
                keyfile.add_row(loaded, columns, where(number))
            end
        elseif #unread < 1 and line:find("%S") and not line:find("^%s*#") then
            unread[1] = number
        end
    end
    (split or split_lines)(text, read_line)
    keylog.finish_charon(charon)
    keylog.finish_libreswan(libreswan)
    if #unread > 0 and not is_log then
        report_line(unread[1], "neither a row of Wireshark's key tables nor a line of a log; ignored")
    end
end

-- Whether a file is compressed with gzip, zstd, xz or bzip2.
local function is_compressed(text)
    return text:find("^\31\139") or text:find("^\40\181\47\253") or text:find("^\2537zXZ") or text:find("^BZh[1-9]1AY")
end

--- Read a key file: add its keys and problems to `loaded`.
function keyfile.read(path, loaded)
    local file, problem = io.open(path, "rb")
    if not file then
        loaded.problems[#loaded.problems + 1] = problem
        return
    end
    local text = file:read(MAX_SIZE + 1)
    file:close()
    if not text or #text > MAX_SIZE then
        report(loaded, path, text and "larger than 64 MiB" or "cannot be read, or is empty")
        return
    end
    if is_compressed(text) then
        report(loaded, path, "compressed; unpack it, or convert it with `ikeanalyze keys FILE --to json`")
        return
    end
    if text:find("^\255\254") or text:find("^\254\255") then -- UTF-16, as Windows PowerShell writes
        text = text:sub(3):gsub("%z", "")
    end
    text = text:gsub("^\239\187\191", "")
    local before = #loaded.sets + #loaded.phase1 + #loaded.problems
    local first = text:match("^%s*(.)")
    if text:find("^__CURSOR=") then
        read_lines(loaded, text, path, keylog.unwrap_export)
    elseif first == "{" and keylog.unwrap(text:match("^%s*([^\n]*)")) then
        read_lines(loaded, text, path, keylog.unwrap_lines)
    elseif first == "{" or text:find("^%s*%[%s*[{%[%]]") then -- a log may begin with a time in brackets
        read_json(loaded, text, path)
    else
        read_lines(loaded, text, path)
    end
    if #loaded.sets + #loaded.phase1 + #loaded.problems == before then
        report(loaded, path, "contains no key; a log of charon needs `ike = 4`")
    end
end

return keyfile
