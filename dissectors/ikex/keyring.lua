--[[ Which key set opens which message.

An IKE SA has one key set after IKE_SA_INIT and one more after each additional key exchange (RFC 9370, 2.2.2), all with
the same SPIs: its epochs. The right one is that whose tag fits. Where no tag can be checked it is taken by order: that
of IKE_INTERMEDIATE exchanges before the message, if what comes out is a chain of payloads. Key sets without SPIs
belong to the IKE SA that they open a message of, and are tried with AEAD ciphers alone. ]]
local cipher = require("ikex.cipher")
local message = require("ikex.message")
local names = require("ikex.names")

local Keyring = {}
Keyring.__index = Keyring

-- Trials of key sets of no SA, before no more are made: some tenths of a second.
local TRIALS = 20000

--- `sets`: what keyfile read.
function Keyring.new(sets)
    local self = setmetatable({ by_spis = {}, free = {}, size = #sets, trials = TRIALS }, Keyring)
    local known = {}
    for _, keys in ipairs(sets) do
        local spis = keys.spi_i and keys.spi_r and keys.spi_i .. keys.spi_r or ""
        local both = spis .. keys.ei .. keys.er
        if known[both] then
            self.size = self.size - 1 -- the same key set from two files
        elseif spis ~= "" then
            local chain = self.by_spis[spis] or {}
            self.by_spis[spis] = chain
            chain[#chain + 1] = keys
        else
            self.free[#self.free + 1] = keys
        end
        known[both] = true
    end
    return self
end

--- Whether there may be keys for an IKE SA.
function Keyring:may_open(spi_i, spi_r)
    return self.by_spis[spi_i .. spi_r] ~= nil or #self.free > 0
end

--- How many key sets an IKE SA is known to have.
function Keyring:count(spi_i, spi_r)
    local chain = self.by_spis[spi_i .. spi_r]
    return chain and #chain or 0
end

local function plausible(clear, first, fragment, total)
    if fragment > 1 then
        return #clear > 0 -- a part of a chain tells little
    end
    local payloads, problem = message.payloads(clear, first, 1, #clear)
    for _, payload in ipairs(payloads) do
        if not names.payload[payload.type] then
            return false
        end
    end
    return problem == nil or (total > 1 and #payloads > 0)
end

local function try(keys, sealed, suite)
    local algorithm = cipher.algorithm(keys, suite)
    if not algorithm then
        return nil
    end
    local clear, checked, padding =
        cipher.open(algorithm, keys, suite, sealed.data, sealed.start, sealed.from_initiator)
    if not clear then
        return nil
    end
    if not checked and (padding >= 256 or not plausible(clear, sealed.first, sealed.fragment, sealed.total)) then
        return nil
    end
    return { clear = clear, verified = checked, keys = keys, first = sealed.first }
end

--- Open a message. `sealed`: {data, start, first, fragment, total, from_initiator}; `suite`: what was negotiated; `epoch`: which of the
-- key sets it should be by order, from 0.
-- {clear, verified, keys, first, position, count}; nil if no key fits. `position` counts the IKE SA's key sets from 1.
function Keyring:open(spi_i, spi_r, sealed, suite, epoch)
    local spis = spi_i .. spi_r
    local chain = self.by_spis[spis] or {}
    local order = {}
    if chain[epoch + 1] then
        order[1] = epoch + 1
    end
    for position = #chain, 1, -1 do
        if position ~= epoch + 1 then
            order[#order + 1] = position
        end
    end
    for _, position in ipairs(order) do
        local opened = try(chain[position], sealed, suite)
        if opened then
            opened.position, opened.count = position, #chain
            return opened
        end
    end
    for index, keys in ipairs(self.free) do
        local algorithm = cipher.algorithm(keys, suite)
        if algorithm and algorithm.icv > 0 then
            if self.trials <= 0 then
                break
            end
            self.trials = self.trials - 1
            local opened = try(keys, sealed, suite)
            if opened then
                table.remove(self.free, index)
                chain[#chain + 1] = keys
                self.by_spis[spis] = chain
                table.sort(chain, function(one, other)
                    return one.number < other.number
                end)
                opened.position, opened.count = #chain, #chain
                return opened
            end
        end
    end
    return nil
end

return Keyring
