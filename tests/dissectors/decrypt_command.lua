--[[ Prints the command line that the plugin runs to decrypt a capture; the file `words` has its words, one a line:
command, capture, output, and key files. ]]
package.path = "./?.lua;" .. package.path
local decrypted_copy = require("ikex.decrypted_copy")

local words = {}
for line in io.lines("words") do
    words[#words + 1] = line
end
print(decrypted_copy.make_command(words[1], words[2], { (table.unpack or unpack)(words, 4) }, words[3]))
