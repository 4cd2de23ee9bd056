--[[ Decrypted messages, shown by Wireshark's own dissector: the same message with its payloads in clear, in a tab and a tree of
its own. So its fields and filters work inside. ]]
local contents = require("ikex.contents")

local subdissect = {}

--- Show what is in an encrypted message under `tree`, if it was opened and this frame completed it.
function subdissect.show(tree, pinfo, unit)
    local content = unit.slot and contents.content(unit)
    if not content or not content.encrypted then
        return
    end
    if unit.fragment > 0 and content.frame ~= unit.number then
        return
    end
    local name = string.format("Decrypted IKE (epoch %d)", content.epoch)
    local tvb = ByteArray.new(content.data, true):tvb(name)
    -- the dissector writes into the columns, which have better to say
    local info, protocol = tostring(pinfo.cols.info), tostring(pinfo.cols.protocol)
    pcall(function()
        Dissector.get("isakmp"):call(tvb, pinfo, tree)
    end)
    pinfo.cols.info, pinfo.cols.protocol = info, protocol
end

return subdissect
