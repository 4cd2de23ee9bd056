--[[ Which IKE_INTERMEDIATE exchanges of an IKE SA change its keys, and so which epoch protects each message.

The keys change after each additional key exchange (RFC 9370, 2.2.2), and after the exchange in which the peers agree on
a PPK (RFC 9867), which may be that of an additional key exchange. The exchanges have the message IDs from 1 on (RFC
9242, 3).

IKE_SA_INIT shows how many additional key exchanges there are, and whether the responder accepts a PPK. The decrypted
responses to IKE_INTERMEDIATE show the rest. Exchanges whose response is not decrypted are assumed to have what the
others lack: first the additional key exchanges, then the PPK, or both in one if they are too few. ]]
local Conversation = require("ikex.conversation")

local key_changes = {}

local IKE_AUTH, IKE_INTERMEDIATE = 35, 43
local MAX_EXCHANGES = 32 -- more than an IKE SA has

-- The number of IKE_INTERMEDIATE exchanges. IKE_AUTH follows the last one and has the next message ID: so those that
-- the capture lacks count, too. 1 if the capture has neither.
local function count_exchanges(sa)
    local last = 1
    for message_id = 0, MAX_EXCHANGES + 1 do
        if Conversation.find_pair(sa, IKE_AUTH, message_id, true) then
            return math.max(message_id - 1, 0)
        elseif Conversation.find_pair(sa, IKE_INTERMEDIATE, message_id, true) then
            last = math.max(message_id, 1)
        end
    end
    return math.min(last, MAX_EXCHANGES)
end

-- Of an IKE SA with a PPK: how often the keys change up to the exchange with the message ID `last`.
local function count_changes_with_ppk(sa, last)
    local exchanges = math.max(count_exchanges(sa), sa.additional)
    local key_exchanges, ppks, read = sa.additional, 1, {}
    for message_id = 1, MAX_EXCHANGES do
        local pair = Conversation.find_pair(sa, IKE_INTERMEDIATE, message_id, true)
        local contains = pair and pair.intermediate
        if contains then
            key_exchanges = key_exchanges - (contains.key_exchange and 1 or 0)
            ppks = contains.ppk and 0 or ppks
            read[message_id] = contains
        end
    end
    local left, changes = math.max(key_exchanges, 0) + ppks, 0
    for message_id = 1, math.min(last, MAX_EXCHANGES) do
        if read[message_id] then
            changes = changes + ((read[message_id].key_exchange or read[message_id].ppk) and 1 or 0)
        elseif message_id <= exchanges and left > 0 then
            changes, left = changes + 1, left - 1
        end
    end
    return changes
end

local function count_changes(sa, last)
    if not sa.additional then
        return 0 -- the capture lacks IKE_SA_INIT
    elseif sa.accepts_ppk then
        return count_changes_with_ppk(sa, last)
    end
    return math.max(math.min(last, sa.additional), 0)
end

--- The epoch of the keys that protect the messages of a pair.
function key_changes.epoch(sa, pair)
    return count_changes(sa, pair.exchange == IKE_INTERMEDIATE and pair.message_id - 1 or MAX_EXCHANGES)
end

--- The epoch of the keys after the last change.
function key_changes.last_epoch(sa)
    return count_changes(sa, MAX_EXCHANGES)
end

return key_changes
