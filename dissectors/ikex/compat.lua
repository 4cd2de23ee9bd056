--[[ Differences between the Lua of Wireshark's versions, detected by feature and not by version number.

Wireshark 4.0 has Lua 5.2, later versions have 5.4. All modules use the common subset: Lua 5.2 syntax, `bit`, and
integral numbers wherever numbers are printed.
]]
local compat = {}

compat.unpack = table.unpack or unpack

--- Whether Lua has ciphers; the plugin's own take longer.
compat.has_ciphers = type(GcryptCipher) == "table" or type(GcryptCipher) == "userdata"

--- The value of a preference of Wireshark itself; nil if this version does not expose it to Lua.
function compat.preference(name)
    local ok, value = pcall(get_preference, name)
    if ok then
        return value
    end
    return nil
end

--- An integral number as text, whether Lua stores it as an integer or as a float.
function compat.format_integer(number)
    return string.format("%.0f", number)
end

--- Microseconds as milliseconds, as text.
function compat.ms(us)
    return string.format("%.3f", us / 1000)
end

--- Bytes as hexadecimal digits.
function compat.hex(data)
    return (data:gsub(".", function(byte)
        return string.format("%02x", byte:byte())
    end))
end

--- Bytes from hexadecimal digits; nil if the text contains anything else or half a byte.
function compat.unhex(text)
    if #text % 2 == 1 or text:find("[^0-9A-Fa-f]") then
        return nil
    end
    return (text:gsub("..", function(digits)
        return string.char(tonumber(digits, 16))
    end))
end

--- A path that a user has typed: "~" is the home folder, as in a shell.
function compat.expand_home(path)
    local home = os.getenv("HOME") or os.getenv("USERPROFILE")
    return home and path:find("^~[/\\]") and home .. path:sub(2) or path
end

return compat
