--[[ What the other handshakes of a capture show about a responder: the proposal that it accepted. ]]
local contents = require("ikex.contents")
local proposals = require("ikex.proposals")

local responders = {}

-- The proposal that each responder accepted first, as text by address.
local function find_all(capture)
    local accepted = {}
    for _, sa in ipairs(capture.conversation.sas) do
        if not accepted[sa.responder] and sa.begun_init and sa.version == 2 then
            capture:decode(sa)
            local chosen = sa.init_response and contents.proposals(sa.init_response)[1]
            accepted[sa.responder] = chosen and proposals.describe_chosen(chosen)
        end
    end
    return accepted
end

--- The proposal that the responder at an address accepted first in the capture; nil if it accepted none.
function responders.find_accepted(capture, address)
    local known = capture.accepted
    if not known or known.added ~= capture.conversation.added then
        known = { added = capture.conversation.added, by_address = find_all(capture) }
        capture.accepted = known
    end
    return known.by_address[address]
end

return responders
