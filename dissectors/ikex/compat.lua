--[[ What differs between the Lua of Wireshark's versions, found by looking for it and not by version numbers.

Wireshark 4.0 has Lua 5.2, later ones 5.4. All modules keep to what both have: Lua 5.2 syntax, `bit`, and numbers that
are whole wherever they are printed.
]]
local compat = {}

compat.unpack = table.unpack or unpack

--- Whether ciphers can be used from Lua: without them nothing is decrypted here.
compat.has_ciphers = type(GcryptCipher) == "table" or type(GcryptCipher) == "userdata"

--- The value of a preference of Wireshark's own; nil where it cannot be asked for.
function compat.preference(name)
    local ok, value = pcall(get_preference, name)
    if ok then
        return value
    end
    return nil
end

--- A whole number as text, whether Lua holds it as an integer or not.
function compat.whole(number)
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

--- Bytes out of hexadecimal digits; nil if they are no whole bytes.
function compat.unhex(text)
    if #text % 2 == 1 or text:find("[^0-9A-Fa-f]") then
        return nil
    end
    return (text:gsub("..", function(digits)
        return string.char(tonumber(digits, 16))
    end))
end

return compat
