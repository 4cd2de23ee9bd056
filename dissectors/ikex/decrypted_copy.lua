--[[ A decrypted copy of the open capture, written by `ikeanalyze decrypt`: it needs neither the plugin nor keys.

Lua does not know the file of the capture, and a capture that is running has none: the packets are first written to a
temporary file. ]]
local compat = require("ikex.compat")

local decrypted_copy = {}

local NO_COMMAND = { [127] = true, [9009] = true } -- exit statuses of sh and cmd.exe
local IS_WINDOWS = package.config:sub(1, 1) == "\\"

--- A word of a command line, quoted for the shell.
function decrypted_copy.quote(word)
    if IS_WINDOWS then
        return '"' .. word:gsub('"', "") .. '"'
    end
    return "'" .. word:gsub("'", "'\\''") .. "'"
end

--- The command line that decrypts `capture` with key files to the file `output`.
function decrypted_copy.make_command(command, capture, key_files, output)
    local words = { decrypted_copy.quote(command), "decrypt", decrypted_copy.quote(capture), "--quiet" }
    for _, path in ipairs(key_files) do
        words[#words + 1] = "--keys " .. decrypted_copy.quote(path)
    end
    words[#words + 1] = "-o " .. decrypted_copy.quote(output) .. " 2>&1"
    local line = table.concat(words, " ")
    -- cmd.exe removes the first and the last quote of a line
    return IS_WINDOWS and '"' .. line .. '"' or line
end

-- The type of file without which times would be rounded to microseconds: pcap with nanoseconds.
local NANOSECONDS = wtap_name_to_file_type_subtype and wtap_name_to_file_type_subtype("nsecpcap")

-- Write the packets of the open capture to a file; returns how many.
local function dump_packets(path)
    local count, dumper = 0, nil
    local tap = Listener.new("frame")
    function tap.reset()
        if dumper then
            dumper:close()
        end
        count, dumper = 0, nil
    end
    function tap.packet()
        dumper = dumper or Dumper.new_for_current(path, NANOSECONDS)
        dumper:dump_current()
        count = count + 1
    end
    function tap.draw() end
    retap_packets()
    if dumper then
        dumper:close()
        dumper = nil
    end
    tap:remove()
    return count
end

-- Write the decrypted copy and open it.
local function write(output, key_files, command)
    local packets = os.tmpname()
    if dump_packets(packets) == 0 then
        os.remove(packets)
        report_failure("The capture has no packets")
        return
    end
    local process = io.popen(decrypted_copy.make_command(command, packets, key_files, output))
    local messages = process:read("*a")
    local ok, _, status = process:close()
    os.remove(packets)
    if ok then
        open_capture_file(output, "")
    elseif NO_COMMAND[status] then
        report_failure(string.format(
            "The command %s was not found. Set its path in Edit, Preferences, Protocols, IKEX, Command of ikeanalyze.",
            command
        ))
    else
        report_failure(string.format("%s decrypt has written no decrypted capture: %s", command, messages))
    end
end

--- Ask for the name of the copy, and write it.
function decrypted_copy.open_dialog(key_files, command)
    if #key_files == 0 then
        report_failure("No key file: set the preference ikex.keys, or copy one to " .. persconffile_path("ikex_keys"))
        return
    end
    local home = os.getenv("HOME") or os.getenv("USERPROFILE") or "."
    new_dialog("Save decrypted capture", function(output)
        if output and output ~= "" then
            write(compat.expand_home(output), key_files, command)
        end
    end, { name = "File", value = home .. package.config:sub(1, 1) .. "decrypted.pcapng" })
end

return decrypted_copy
