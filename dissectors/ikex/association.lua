--[[ Which IKE SA a message belongs to (RFC 7296, 2.6, 1.2, 2.11; RFC 5685, 3).

An IKE SA is known by its two SPIs, wherever its packets come from. Only IKE_SA_INIT, whose request has no SPI of the
responder yet, needs more: a request with another body is the same IKE SA if the responder asked for it (COOKIE,
INVALID_KE_PAYLOAD, REDIRECT) or if it keeps its nonce; it is another one if it comes from elsewhere, or after the
IKE SA had got its answer. A request that a REDIRECT led to continues the handshake that was redirected. ]]
local message = require("ikex.message")

local Association = {}
Association.__index = Association

local INITS = { [34] = true, [38] = true }
local INFORMATIONAL_V1 = 5
local NO_SPI = ("\0"):rep(8)
local COOKIE, REDIRECT, REDIRECTED_FROM = 16390, 16407, 16408
--- Notifies by which a responder asks for another request.
Association.ASKS_AGAIN = { [17] = "INVALID_KE_PAYLOAD", [16390] = "COOKIE", [16407] = "REDIRECT" }
local WITHIN = 60e6 -- us: an initiator goes to the new gateway at once

--- `new_sa`: called for a new IKE SA, with the message that is its first; gives the IKE SA.
function Association.new(new_sa)
    return setmetatable({
        new_sa = new_sa,
        groups = {}, -- by the initiator's SPI
        by_spis = {}, -- IKE SA by version and both SPIs
        alias = {}, -- endpoints that a NAT translated within the capture
        redirects = {}, -- the latest redirected IKE SA of each initiator's address
    }, Association)
end

--- Whether a message is of the kind whose request has no SPI of the responder.
function Association.is_init(head)
    if head.major == 2 then
        return INITS[head.exchange] == true
    end
    return head.spi_r == NO_SPI and head.exchange ~= INFORMATIONAL_V1
end

local function notifies(data)
    local found = {}
    local head = message.header(data)
    for _, payload in ipairs(message.payloads(data, head.next, message.HEADER + 1, head.length)) do
        if payload.type == message.NOTIFY then
            local notify = message.notify(data, payload)
            if notify then
                found[notify.type] = true
            end
        elseif payload.type == message.NONCE then
            found.nonce = message.body(data, payload)
        end
    end
    return found
end

local function endpoint(address, port)
    return address .. "|" .. string.format("%d", port)
end

function Association:represent(place)
    while self.alias[place] do
        place = self.alias[place]
    end
    return place
end

--- A capture duplicate of IKE_SA_INIT shows an initiator's endpoint under another address: both are one.
function Association:translated(view, original)
    local head = view.head
    if not original or head.exchange ~= 34 or head.major ~= 2 then
        return
    end
    local side = head.response and "destination" or "source"
    local one = self:represent(endpoint(view[side], view[side .. "_port"]))
    local other = self:represent(endpoint(original[side], original[side .. "_port"]))
    if one ~= other then
        if other < one then
            one, other = other, one
        end
        self.alias[other] = one
    end
end

local function new_candidate(self, group, view, place, address)
    local candidate = { protocol = view.head.major, address = address }
    local before = group.by_endpoint[place]
    if before then
        before.closed = true -- the SPI is used again
    end
    group.by_endpoint[place] = candidate
    group.by_address[address] = candidate
    local waiting = group.waiting[address] or { first = 1 }
    group.waiting[address] = waiting
    waiting[#waiting + 1] = candidate
    group.count = group.count + 1
    group.only = candidate
    return candidate
end

local function know_spi(self, group, candidate, view)
    local key = view.head.major .. view.head.spi_i .. view.head.spi_r
    if not group.by_spi[key] then
        group.by_spi[key] = candidate
        candidate.spi_known = true
        if candidate.sa then
            self.by_spis[key] = candidate.sa
        end
    end
end

-- The IKE SA whose request had this nonce. Nonces are read when a second request with the same SPI comes, which is rare.
local function by_nonce(group, nonce)
    for _, one in ipairs(group.unread) do
        local known = notifies(one.data).nonce
        if known then
            group.by_nonce[known] = one.candidate
            one.candidate.has_nonce = true
        end
    end
    group.unread = {}
    return nonce and group.by_nonce[nonce]
end

local function continues(candidate, told, protocol)
    if candidate.protocol ~= protocol then
        return false
    end
    if candidate.asked_again or not candidate.has_nonce then
        return true
    end
    return told[COOKIE] and not candidate.answered
end

local function request(self, group, view, place, address)
    local candidate = group.by_digest[view.digest]
    if not candidate and group.count > 0 then
        local told = notifies(view.data)
        candidate = by_nonce(group, told.nonce)
        if not candidate then
            candidate = group.by_endpoint[place]
            if candidate and not continues(candidate, told, view.head.major) then
                candidate = nil
            end
        end
    end
    if not candidate then
        candidate = new_candidate(self, group, view, place, address)
        -- where a REDIRECT led to another gateway it is the same handshake
        local redirected = self.redirects[view.source]
        if redirected and view.time - redirected.time <= WITHIN and notifies(view.data)[REDIRECTED_FROM] then
            candidate.sa = redirected.sa
        end
    end
    if not group.by_digest[view.digest] then
        group.by_digest[view.digest] = candidate
        group.unread[#group.unread + 1] = { data = view.data, candidate = candidate }
    end
    group.by_endpoint[place] = candidate
    candidate.asked_again = false
    return candidate
end

-- The IKE SA of the only request with this SPI, if it has no answer yet: it is it, whatever a NAT made of the addresses.
local function the_only(group, head)
    local only = group.only
    return group.count == 1 and not only.spi_known and only.protocol == head.major and only or nil
end

local function response(self, group, view, place, address)
    local head = view.head
    local candidate
    if head.spi_r ~= NO_SPI then
        candidate = group.by_spi[head.major .. head.spi_i .. head.spi_r]
    end
    candidate = candidate or group.by_endpoint[place] or group.by_address[address] or the_only(group, head)
    if not candidate then
        candidate = new_candidate(self, group, view, place, address)
    end
    candidate.asked_again = false
    if head.next == message.NOTIFY then -- one that takes the request begins with SA
        local told = notifies(view.data)
        for kind in pairs(Association.ASKS_AGAIN) do
            candidate.asked_again = candidate.asked_again or told[kind] or false
        end
        if told[REDIRECT] then
            candidate.redirected = view.time
        end
    end
    candidate.answered = candidate.answered or not candidate.asked_again
    return candidate
end

local function without_spi(group, address, protocol)
    if protocol == 1 then
        local latest = group.by_address[address]
        return latest and latest.protocol == protocol and latest or nil
    end
    local waiting = group.waiting[address]
    if not waiting then
        return nil
    end
    local candidate = waiting[waiting.first]
    while candidate and (candidate.closed or candidate.answered or candidate.protocol ~= protocol) do
        waiting.first = waiting.first + 1
        candidate = waiting[waiting.first]
    end
    return candidate
end

--- The IKE SA of a message, given as
-- {head, data, digest, time, source, source_port, destination, destination_port}.
function Association:of(view)
    local head = view.head
    local init = Association.is_init(head)
    if not init then
        local sa = self.by_spis[head.major .. head.spi_i .. head.spi_r]
        if sa then
            return sa
        end
    end
    local group = self.groups[head.spi_i]
    if not group then
        group = {
            by_digest = {}, by_endpoint = {}, by_address = {}, by_spi = {}, by_nonce = {},
            waiting = {}, unread = {}, sas = {}, count = 0,
        }
        self.groups[head.spi_i] = group
    end
    local asks
    if head.major == 1 then
        asks = init
    else
        asks = not head.response
    end
    local initiators = asks
    if head.major == 2 and not init then
        initiators = head.from_initiator
    end
    local side = initiators and "source" or "destination"
    local address = view[side]
    local place = self:represent(endpoint(address, view[side .. "_port"]))
    address = place:match("^[^|]*")
    local candidate
    if not init then
        candidate = group.by_spi[head.major .. head.spi_i .. head.spi_r]
        if not candidate then
            -- the response that brought this SPI is not in the capture
            candidate = the_only(group, head)
                or without_spi(group, address, head.major)
                or new_candidate(self, group, view, place, address)
            candidate.closed = head.major == 2
        end
    elseif asks then
        candidate = request(self, group, view, place, address)
    else
        candidate = response(self, group, view, place, address)
    end
    if not candidate.sa then
        candidate.sa = self.new_sa(view)
        group.sas[#group.sas + 1] = candidate.sa
    end
    if head.spi_r ~= NO_SPI or (not init and head.major == 2) then
        know_spi(self, group, candidate, view)
    end
    if candidate.redirected == view.time and not asks then
        self.redirects[view.destination] = { sa = candidate.sa, time = view.time }
    end
    return candidate.sa
end

return Association
