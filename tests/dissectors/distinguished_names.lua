-- Prints the text of each distinguished name in the file `names`, in which a line is a name in DER in hex digits.
package.path = "./?.lua;" .. package.path
local certificates = require("ikex.diagnosis.certificates")

for line in io.lines("names") do
    local der = line:gsub("%x%x", function(digits)
        return string.char(tonumber(digits, 16))
    end)
    print(certificates.format_name(der) or "invalid")
end
