--[[ Dissection of decrypted messages by Wireshark's own dissector, in a tab and a tree of their own, so that its fields
and filters match them. ]]
local contents = require("ikex.contents")

local subdissect = {}

--- Show the contents of an encrypted message under `tree`, if it was decrypted and this frame completed it.
function subdissect.show(tree, pinfo, datagram)
    local content = datagram.slot and contents.content(datagram)
    if not content or not content.encrypted then
        return
    end
    if datagram.fragment > 0 and content.frame ~= datagram.number then
        return
    end
    local name = content.epoch and string.format("Decrypted IKE (epoch %d)", content.epoch) or "Decrypted IKE"
    local tvb = ByteArray.new(content.data, true):tvb(name)
    -- the dissector overwrites the columns: restore them
    local info, protocol = tostring(pinfo.cols.info), tostring(pinfo.cols.protocol)
    pcall(function()
        Dissector.get("isakmp"):call(tvb, pinfo, tree)
    end)
    pinfo.cols.info, pinfo.cols.protocol = info, protocol
end

return subdissect
