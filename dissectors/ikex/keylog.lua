--[[ Keys in the logs of daemons: of strongSwan's charon with `ike = 4`, and of libreswan with `plutodebug=private`,
whose lines secret files of `tcpdump -E` have as well.

charon logs dumps of bytes, after a line with a label. Those of a key derivation follow one another in one thread:

    09[IKE] <name|1> Sk_ei secret => 36 bytes @ 0x7f0a
    09[IKE] <name|1>    0: 9F 7E 89 CE B0 B5 CA 04 FE 0E 5C 4B 30 C0 18 4E  ................

They name the IKE SA by its nonces only. libreswan logs the keys of one direction in a line:

    ikev2 I 0xSPIi 0xSPIr sha256:0xSK_ai aes128:0xSK_ei

Docker and journalctl may write each line or message as an entry in JSON. ]]
local algorithms = require("ikex.algorithms")
local compat = require("ikex.compat")
local json = require("ikex.json")

local keylog = {}

local MAX_DUMP = 131072 -- bytes
local BYTES_PER_LINE = 16

--- A reader of charon's lines. `add(keys, line)`, `add_phase1(keys, line)` and `report(line, problem)` receive their
-- contents.
function keylog.new_charon(add, add_phase1, report)
    return { threads = {}, unnumbered = "", add = add, add_phase1 = add_phase1, report = report }
end

local KEYS = { Sk_ai = "ai", Sk_ar = "ar", Sk_ei = "ei", Sk_er = "er" }

-- End the keys of a thread: `values` are the dumps so far, false if one is incomplete. They are used if each has its
-- label, and those of one direction if all labels follow. With an incomplete SK_a, nothing would check what SK_e
-- decrypts.
local function end_keys(reader, thread, number)
    local values = thread.values
    thread.values = {}
    if values.has_d and values.ei ~= nil and values.er ~= nil and (values.ai == nil) == (values.ar == nil) then
        local ei, er = values.ai ~= false and values.ei or "", values.ar ~= false and values.er or ""
        if #ei + #er > 0 and (values.is_whole or values.ei and values.er) then
            reader.add({ ei = ei, er = er, ai = values.ai or "", ar = values.ar or "", nonces = values.nonces }, number)
            return
        end
    end
    local has_keys = values.ai ~= nil or values.ar ~= nil or values.ei ~= nil or values.er ~= nil
    if values.line and (values.fresh or has_keys) then
        reader.report(values.line, "the keys that begin here are incomplete; ignored")
    end
end

local function finish_dump(reader, thread, number)
    local label, data = thread.label, thread.pieces and table.concat(thread.pieces)
    thread.label = nil
    local values = thread.values
    if label == "nonces" then
        if not values.fresh or values.nonces ~= data or values.has_d then -- else two loggers write to one log
            end_keys(reader, thread, number)
        end
        thread.values = { nonces = data or nil, line = number, fresh = true }
    elseif label == "Sk_d" then
        local nonces, fresh = values.nonces, values.fresh
        if values.ai ~= nil or values.ar ~= nil or values.ei ~= nil then
            end_keys(reader, thread, number)
            nonces, fresh = nil, nil
        end
        thread.values = { nonces = nonces, line = number, fresh = fresh, has_d = true }
    elseif KEYS[label] then
        values.line = values.line or number
        values[KEYS[label]] = data or false
        if label == "Sk_er" and data then
            if values.ei == nil and data == thread.latest_er then -- two loggers write to one log
                thread.values = {}
            elseif values.ei ~= false then
                thread.latest_er = data
                end_keys(reader, thread, number)
            end
        end
    elseif label == "Sk_pi" then
        values.has_pi = true
    elseif label == "Sk_pr" and values.line then
        values.is_whole = values.has_pi
        end_keys(reader, thread, number)
    elseif label == "Ka" and data then
        reader.add_phase1({ key = data }, number)
    end
end

-- The label and size of a dump that is needed.
local function match_label(text)
    local label, size = text:match("(Sk_%a+) secret => (%d+) bytes @")
    if not label then
        label, size = text:match("(nonces) => (%d+) bytes @")
    end
    if not label then
        label, size = text:match("encryption key (Ka) => (%d+) bytes @")
    end
    return label, tonumber(size)
end

-- The process that syslog or the journal names at the end of `before`, with its host.
local function match_process(before)
    local process = before:match("(%a[%w.@_-]*%[%d+%]):%s*$") or before:match("(%a[%w.@_-]*):%s*$")
    if not process then
        return ""
    end
    local host = before:match("(%S+) %a[%w.@_-]*%[?%d*%]?:%s*$")
    if host and (host:find("^%a[%w_.-]*$") or host:find("^%d+%.%d+%.%d+%.%d+$")) then
        return host .. " " .. process
    end
    return process
end

-- The container or pod of a line of `docker compose logs` or `kubectl logs --prefix`; of syslog (RFC 5424, section 6)
-- the host and the process.
local function match_source(line)
    return line:match("^([%w_.-]+) +| ") or line:match("^%[(pod/[^%]%s]+)%] ")
        or line:match("^<%d+>1 %S+ (%S+ %S+ %S+) ") or ""
end

-- The name of the thread of a line and the text after it. The daemons of a merged log have different containers, hosts
-- or processes, and the same numbers of threads. Lines of the journal have no numbers: the process is the name, also of
-- the indented lines that follow.
local function split_line(reader, line)
    local start, _, name, text = line:find("(%d%d+)%[%u%u%u%d?%](.*)$")
    if not start then
        local before = line:match("^%S.- %a[%w.@_-]*%[%d+%]: ")
        if before then
            reader.unnumbered = match_source(line) .. " " .. match_process(before)
        end
        return reader.unnumbered, line
    end
    local before = line:sub(1, start - 1)
    return match_source(line) .. " " .. match_process(before) .. " " .. name, text
end

--- Read a line; returns whether it has a dump that is needed.
function keylog.read_charon_line(reader, number, line)
    local name, text = split_line(reader, line)
    local thread = reader.threads[name]
    if not thread then
        thread = { values = {} }
        reader.threads[name] = thread
    end
    if thread.label then
        if text == thread.latest then -- logged twice, such as to standard output and standard error of a container
            return true
        end
        local offset, digits = text:match("%s(%d+): (%x%x .*)$")
        if tonumber(offset) == thread.have then
            local count = math.min(BYTES_PER_LINE, thread.size - thread.have)
            local data = compat.unhex((digits:sub(1, 3 * count):gsub("%s", "")))
            if data and #data == count then
                thread.pieces[#thread.pieces + 1], thread.have, thread.latest = data, thread.have + count, text
                if thread.have == thread.size then
                    finish_dump(reader, thread, number)
                end
                return true
            end
        end
        thread.pieces = nil -- lines are missing
        finish_dump(reader, thread, number)
    end
    local label, size = match_label(text)
    if label and size <= MAX_DUMP then
        thread.label, thread.size, thread.have, thread.pieces, thread.latest = label, size, 0, {}, text
        thread.line = number
        if size == 0 then
            finish_dump(reader, thread, number)
        end
        return true
    end
    return false
end

--- Report the keys that are incomplete at the end of the log.
function keylog.finish_charon(reader)
    local threads = {}
    for _, thread in pairs(reader.threads) do
        if thread.label then
            thread.pieces = nil
            finish_dump(reader, thread, thread.line)
        end
        threads[#threads + 1] = thread
    end
    table.sort(threads, function(a, b)
        return (a.values.line or 0) < (b.values.line or 0)
    end)
    for _, thread in ipairs(threads) do
        end_keys(reader, thread, thread.line)
    end
end

local LENGTH_BYTES = 8 -- before a value in journald's export format
local MAX_VALUE_BYTES = 16 * 1024 * 1024 -- of a value there

-- The text of an entry: of Docker, of journald, and of collectors of logs; nil if it has none.
local function get_text(entry)
    local text = entry.log or entry.MESSAGE or entry.message or entry.line
    if type(text) == "table" and text ~= json.null then -- bytes that are not UTF-8
        local bytes = {}
        for at, byte in ipairs(text) do
            if type(byte) ~= "number" or byte < 0 or byte > 255 or byte % 1 ~= 0 then
                return nil
            end
            bytes[at] = string.char(byte)
        end
        return table.concat(bytes)
    end
    return type(text) == "string" and text or nil
end

-- The prefix of the lines of an entry. charon-systemd has the thread and the group in fields.
local function make_prefix(entry)
    if not entry.MESSAGE then
        return ""
    end
    local process, pid = tostring(entry.SYSLOG_IDENTIFIER or "journal"), tostring(entry._PID or 0)
    local prefix = string.format("journal %s[%s]: ", process, pid)
    local thread, group = tostring(entry.THREAD):match("^%d%d?%d?%d?%d?$"), tostring(entry.GROUP):match("^%u%u%u$")
    if thread and group then
        prefix = string.format("%s%02d[%s] ", prefix, tonumber(thread), group)
    end
    return prefix
end

--- The lines of an entry in JSON; nil if the line is none.
function keylog.unwrap(line)
    local entry = line:sub(1, 1) == "{" and json.decode(line)
    local text = type(entry) == "table" and get_text(entry)
    if not text then
        return nil
    end
    local prefix, lines = make_prefix(entry), {}
    for part in text:gsub("\n+$", ""):gmatch("[^\n]+") do
        lines[#lines + 1] = prefix .. part
    end
    return lines
end

--- Call `read_line(number, line)` for each line, and in place of an entry in JSON for the lines in it.
function keylog.unwrap_lines(text, read_line)
    local number = 0
    for line in text:gmatch("([^\n]*)\n?") do
        number = number + 1
        for _, part in ipairs(keylog.unwrap(line) or { line }) do
            read_line(number, part)
        end
    end
end

-- The number of line feeds in a part of a text.
local function count_lines(text, first, last)
    return select(2, text:sub(first, last):gsub("\n", ""))
end

--- Call `read_line(number, line)` for each line of the texts in journald's export format (`journalctl -o export`).
-- A field is a line; one that has line feeds in its value has the length of the value in 64 bits, little-endian, before
-- it. An empty line ends an entry.
function keylog.unwrap_export(text, read_line)
    local at, number, entry = 1, 1, {}
    local function end_entry()
        if entry.MESSAGE then
            local prefix, count = make_prefix(entry), 0
            for line in (entry.MESSAGE:gsub("\n+$", "") .. "\n"):gmatch("([^\n]*)\n") do
                read_line(entry.line + count, prefix .. line)
                count = count + 1
            end
        end
        entry = {}
    end
    while at <= #text do
        local stop = text:find("\n", at, true) or #text + 1
        local name, value = text:sub(at, stop - 1):match("^([^=]*)=(.*)$")
        local begin = at
        if stop == at or name == "__CURSOR" then
            end_entry()
        end
        if not name and stop > at and stop + LENGTH_BYTES <= #text then
            local size = 0
            for place = stop + LENGTH_BYTES, stop + 1, -1 do
                size = size * 256 + text:byte(place)
            end
            if size <= MAX_VALUE_BYTES then -- otherwise it is damaged
                begin = stop + LENGTH_BYTES + 1
                name, value = text:sub(at, stop - 1), text:sub(begin, begin + size - 1)
                stop = math.min(begin + size, #text + 1)
            end
        end
        if name == "MESSAGE" then
            entry.line = number + count_lines(text, at, begin - 1)
        end
        if name then
            entry[name] = value
        end
        number = number + count_lines(text, at, stop)
        at = stop + 1
    end
    end_entry()
end

local ENCRYPTION = {
    ["3des"] = 3, null = 11, aes = 12, aes_ctr = 13, aes_gcm = 18, aes_gcm_8 = 18, aes_gcm_12 = 19, aes_gcm_16 = 20,
    aes_ccm_8 = 14, aes_ccm_12 = 15, aes_ccm_16 = 16, camellia = 23, camellia_ctr = 24, chacha20_poly1305 = 28,
}
local INTEGRITY = {
    md5 = 1, sha1 = 2, sha256 = 12, sha256_96 = 1027, sha384 = 13, sha512 = 14, aes_xcbc = 5, aes_cmac = 8, none = 0,
}
local LOGGED = 32 -- bytes of SK_ai and SK_ar that libreswan logs at most

--- A reader of libreswan's lines.
function keylog.new_libreswan(add, add_phase1, report)
    return { halves = {}, add = add, add_phase1 = add_phase1, report = report }
end

local function find_encryption(name)
    local bare, bits = name:match("^(.-)(%d%d%d)$")
    if not ENCRYPTION[name] and bare and ENCRYPTION[bare] then
        return ENCRYPTION[bare], tonumber(bits) / 8
    end
    local number = ENCRYPTION[name]
    return number, number and algorithms.encryption[number].keys[1]
end

local function parse_bytes(text)
    return compat.unhex((text:gsub("^0[xX]", "")))
end

-- Whether SK_a has the length of its algorithm, or is as much of it as libreswan logs.
local function has_length(sk_a, integrity)
    local expected = algorithms.integrity[integrity] and algorithms.integrity[integrity].key or 0
    return #sk_a == expected or #sk_a == LOGGED and LOGGED < expected
end

-- The keys of both directions, of which one may be missing.
local function pair_up(reader, number, spis, half, role)
    local known = reader.halves[spis]
    if not known then
        reader.halves[spis] = { [role] = half }
        return
    end
    known[role] = half
    if not known.I or not known.R then
        return
    end
    reader.halves[spis] = nil
    local logged = #known.I.sk_e > 0 and known.I or known.R
    local integrity = algorithms.integrity[logged.integrity]
    local cut = integrity and #logged.sk_a < integrity.key
    reader.add({
        spi_i = spis:sub(1, 8), spi_r = spis:sub(9), encryption = logged.encryption,
        integrity = not cut and logged.integrity or nil, icv = cut and integrity.icv or nil,
        ei = known.I.sk_e, er = known.R.sk_e, ai = known.I.sk_a, ar = known.R.sk_a,
    }, number)
end

--- Read a line; returns whether it has keys, usable or not.
function keylog.read_libreswan_line(reader, number, line)
    local version, role, spi_i, spi_r, integrity_name, sk_a, encryption_name, sk_e =
        line:match("ikev([12])%s+([IR])%s+(%S+)%s+(%S+)%s+([%w_]+):(%S*)%s+([%w_]+):(%S*)%s*$")
    if not version then
        return false
    end
    spi_i, spi_r, sk_a, sk_e = parse_bytes(spi_i), parse_bytes(spi_r), parse_bytes(sk_a), parse_bytes(sk_e)
    local encryption, size = find_encryption(encryption_name)
    local integrity = INTEGRITY[integrity_name]
    if not (spi_i and spi_r and sk_a and sk_e and encryption and integrity) or #spi_i ~= 8 or #spi_r ~= 8 then
        reader.report(number, "unusable keys; ignored")
    elseif not size then
        reader.report(number, "unknown length of the keys; ignored")
    elseif version == "1" then
        if role == "I" and #sk_e >= size then
            reader.add_phase1({ key = sk_e:sub(1, size), cookie_i = spi_i }, number)
        end
    elseif algorithms.encryption[encryption].salt > 0 and #sk_e == size then
        reader.report(number, "libreswan does not log the salt of " .. encryption_name .. "; ignored")
    elseif #sk_e ~= size and #sk_e ~= size + algorithms.encryption[encryption].salt then
        reader.report(number, "SK_e has the wrong length; ignored")
    elseif not has_length(sk_a, integrity) then
        reader.report(number, "SK_a has the wrong length; ignored")
    else
        local half = { encryption = encryption, integrity = integrity, sk_e = sk_e, sk_a = sk_a }
        pair_up(reader, number, spi_i .. spi_r, half, role)
    end
    return true
end

--- Add the keys of which the other direction is missing.
function keylog.finish_libreswan(reader)
    for spis, known in pairs(reader.halves) do
        local half = known.I or known.R
        local missing = { encryption = half.encryption, integrity = half.integrity, sk_e = "", sk_a = "" }
        pair_up(reader, 0, spis, missing, known.I and "R" or "I")
    end
end

return keylog
