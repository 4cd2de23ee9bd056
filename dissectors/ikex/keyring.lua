--[[ Selection of the key set that decrypts a message.

An IKE SA has one key set after IKE_SA_INIT and one more after each additional key exchange (RFC 9370, 2.2.2), all with
the same SPIs: its epochs. The key set whose authentication tag is correct is used. If there is no tag that Lua can
check, the key set is chosen by order, by the number of IKE_INTERMEDIATE exchanges before the message, and the plaintext
must be a chain of payloads. Key sets without SPIs belong to the IKE SA whose message they decrypt; they are tried with
AEAD ciphers only. ]]
local cipher = require("ikex.cipher")
local message = require("ikex.message")
local names = require("ikex.names")

local Keyring = {}
Keyring.__index = Keyring

-- Trials of key sets without SPIs, in total. They take some tenths of a second.
local TRIALS = 20000

--- `sets`: key sets from `keyfile.read`.
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
function Keyring:may_decrypt(spi_i, spi_r)
    return self.by_spis[spi_i .. spi_r] ~= nil or #self.free > 0
end

--- The number of key sets of an IKE SA.
function Keyring:count(spi_i, spi_r)
    local chain = self.by_spis[spi_i .. spi_r]
    return chain and #chain or 0
end

local function is_plausible(plaintext, first, fragment, total)
    if fragment > 1 then
        return #plaintext > 0 -- the middle of a chain cannot be checked
    end
    local payloads, problem = message.payloads(plaintext, first, 1, #plaintext)
    for _, payload in ipairs(payloads) do
        if not names.payload[payload.type] then
            return false
        end
    end
    return problem == nil or (total > 1 and #payloads > 0)
end

local function try_key_set(keys, encrypted, suite)
    local algorithm = cipher.algorithm(keys, suite)
    if not algorithm then
        return nil
    end
    local plaintext, verified, padding =
        cipher.decrypt(algorithm, keys, suite, encrypted.data, encrypted.start, encrypted.from_initiator)
    if not plaintext then
        return nil
    end
    local first, fragment, total = encrypted.first, encrypted.fragment, encrypted.total
    if not verified and (padding >= 256 or not is_plausible(plaintext, first, fragment, total)) then
        return nil
    end
    return { plaintext = plaintext, verified = verified, keys = keys, first = first }
end

--- Decrypt a message. `encrypted`: {data, start, first, fragment, total, from_initiator}; `suite`: the negotiated one;
-- `epoch`: the index of the key set by order, from 0.
-- Returns {plaintext, verified, keys, first, position, count}; nil if no key set fits. `position`: of the key set, from
-- 1.
function Keyring:decrypt(spi_i, spi_r, encrypted, suite, epoch)
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
        local decrypted = try_key_set(chain[position], encrypted, suite)
        if decrypted then
            decrypted.position, decrypted.count = position, #chain
            return decrypted
        end
    end
    for index, keys in ipairs(self.free) do
        local algorithm = cipher.algorithm(keys, suite)
        if algorithm and algorithm.icv > 0 then
            if self.trials <= 0 then
                break
            end
            self.trials = self.trials - 1
            local decrypted = try_key_set(keys, encrypted, suite)
            if decrypted then
                table.remove(self.free, index)
                chain[#chain + 1] = keys
                self.by_spis[spis] = chain
                table.sort(chain, function(a, b)
                    return a.number < b.number
                end)
                decrypted.position, decrypted.count = #chain, #chain
                return decrypted
            end
        end
    end
    return nil
end

return Keyring
