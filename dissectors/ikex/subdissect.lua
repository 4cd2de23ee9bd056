--[[ The bytes of decrypted messages, in a tab of their own, and their dissection by Wireshark's own dissector, so that
its fields and filters match them. ]]
local subdissect = {}

--- A new tab with a decrypted message.
function subdissect.add_tab(content)
    local name = content.epoch and string.format("Decrypted IKE (epoch %d)", content.epoch) or "Decrypted IKE"
    return ByteArray.new(content.data, true):tvb(name)
end

--- The offset of a clear message in a frame; nil if the frame has only a part of it.
function subdissect.find_offset(tvb, content)
    local position = tvb:raw():find(content.data, 1, true)
    return position and position - 1
end

--- Show the bytes of a decrypted message, `tvb`, under `tree`.
function subdissect.show(tree, pinfo, tvb)
    -- the dissector overwrites the columns: restore them
    local info, protocol = tostring(pinfo.cols.info), tostring(pinfo.cols.protocol)
    pcall(function()
        Dissector.get("isakmp"):call(tvb, pinfo, tree)
    end)
    pinfo.cols.info, pinfo.cols.protocol = info, protocol
end

return subdissect
