--[[ What the other handshakes of a capture show about a responder: the proposal that it accepted, and whether it has
redirected the initiator to another gateway. ]]
local contents = require("ikex.contents")
local nat = require("ikex.diagnosis.nat")
local proposals = require("ikex.proposals")

local responders = {}

local REDIRECTED_FROM = 16408
local REDIRECT_WITHIN = 60e6 -- us after the begin of the set-up that redirects an initiator

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

-- The handshakes that redirected initiators began (RFC 5685, section 7.3), by the initiator's address: when, and the
-- address of the gateway that redirected it, as bytes.
local function find_redirected_set_ups(capture)
    local by_initiator = {}
    for _, sa in ipairs(capture.conversation.sas) do
        if sa.begun_init and sa.version == 2 then
            capture:decode(sa)
            local notify = sa.init_request and contents.notify(sa.init_request, REDIRECTED_FROM)
            if notify then
                local list = by_initiator[sa.initiator] or {}
                by_initiator[sa.initiator] = list
                list[#list + 1] = { start = sa.start, gateway = notify.data:sub(3) } -- after its type and length
            end
        end
    end
    return by_initiator
end

--- Whether the initiator of an IKE SA told another gateway afterwards that the responder had redirected it.
function responders.has_redirected(capture, sa)
    local known = capture.redirected
    if not known or known.added ~= capture.conversation.added then
        known = { added = capture.conversation.added, by_initiator = find_redirected_set_ups(capture) }
        capture.redirected = known
    end
    for _, set_up in ipairs(known.by_initiator[sa.initiator] or {}) do
        local since = set_up.start - sa.start
        if since > 0 and since <= REDIRECT_WITHIN and set_up.gateway == nat.encode_address(sa.responder) then
            return true
        end
    end
    return false
end

return responders
