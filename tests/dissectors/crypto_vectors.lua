--[[ Computes the cases of the file `cases` with the plugin's own cryptography, and prints one line for each.

A case is a line of an operation, an algorithm, and arguments in hexadecimal digits. The result is hexadecimal as well;
`nil`: an invalid tag. ]]
package.path = "./?.lua;" .. package.path
local compat = require("ikex.compat")
local crypto = {
    AES = require("ikex.crypto.aes"), CAMELLIA = require("ikex.crypto.camellia"), DES = require("ikex.crypto.des"),
}
local chacha20poly1305 = require("ikex.crypto.chacha20poly1305")
local hashes = require("ikex.crypto.hashes")
local mac = require("ikex.crypto.mac")
local modes = require("ikex.crypto.modes")
local sha512 = require("ikex.crypto.sha512")
local words = require("ikex.crypto.words")

local function block(name, key, data, direction)
    local cipher = crypto[name].new(key)
    if cipher.size == 8 then
        return words.write2(cipher[direction](words.read2(data, 1)))
    end
    return words.write4(cipher[direction](words.read4(data, 1)))
end

local operations = {
    encrypt = function(name, key, data)
        return block(name, key, data, "encrypt")
    end,
    decrypt = function(name, key, data)
        return block(name, key, data, "decrypt")
    end,
    cbc = function(name, key, iv, data)
        return modes.decrypt_cbc(crypto[name].new(key), iv, data)
    end,
    ctr = function(name, key, prefix, data)
        return modes.xor_counter_stream(crypto[name].new(key), prefix, 1, data)
    end,
    gcm = function(name, key, nonce, associated, data, tag)
        return modes.decrypt_gcm(crypto[name].new(key), nonce, associated, data, tag)
    end,
    ccm = function(name, key, nonce, associated, data, tag)
        return modes.decrypt_ccm(crypto[name].new(key), nonce, associated, data, tag)
    end,
    poly = function(_, key, nonce, associated, data, tag)
        return chacha20poly1305.decrypt(key, nonce, associated, data, tag)
    end,
    poly1305 = function(_, key, data)
        return chacha20poly1305.authenticate(key, data)
    end,
    hash = function(name, data)
        return (hashes[name] or sha512[name])(data)
    end,
    mac = function(name, key, data)
        return mac.new[name](key)(data)
    end,
}

for line in io.lines("cases") do
    local operation, name, rest = line:match("^(%S+) (%S+) ?(.*)$")
    local arguments = {}
    for digits in (rest .. " "):gmatch("(%x*) ") do
        arguments[#arguments + 1] = compat.unhex(digits)
    end
    local result = operations[operation](name, compat.unpack(arguments))
    print(result and compat.hex(result))
end
