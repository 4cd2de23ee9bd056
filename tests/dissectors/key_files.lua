--[[ Reads the key files that the file `cases` names with the plugin, and prints a line for each: the keys of its key
sets, in hexadecimal digits, and how many problems it has. ]]
package.path = "./?.lua;" .. package.path
local compat = require("ikex.compat")
local keyfile = require("ikex.keyfile")

for path in io.lines("cases") do
    local loaded = keyfile.new()
    keyfile.read(path, loaded)
    local values = {}
    for _, keys in ipairs(loaded.sets) do
        for _, name in ipairs({ "ei", "er", "ai", "ar" }) do
            values[#values + 1] = compat.hex(keys[name])
        end
    end
    for _, keys in ipairs(loaded.phase1) do
        values[#values + 1] = compat.hex(keys.key)
    end
    print(table.concat(values, " ") .. ";" .. #loaded.problems)
end
