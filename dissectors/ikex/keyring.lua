--[[ Selection of the key set that decrypts a message.

An IKE SA has one key set after IKE_SA_INIT and one more after each IKE_INTERMEDIATE exchange with an additional key
exchange (RFC 9370, 2.2.2) or a PPK (RFC 9867), all with the same SPIs: its epochs. The key set whose ICV is correct is
used; the order only says which to try first. Key sets without SPIs belong to the IKE SA of their nonces or, without
nonces, to the IKE SA whose message they decrypt.

A key file may name the length of an ICV and not its algorithm. Such a key set is used if the plaintext is a chain of
payloads, and the message is not verified. ]]
local algorithms = require("ikex.algorithms")
local cipher = require("ikex.cipher")
local compat = require("ikex.compat")
local names = require("ikex.names")

local Keyring = {}
Keyring.__index = Keyring

-- Trials in total, which take some seconds: of key sets without SPIs and nonces, and of IKEv1 keys without a cookie for
-- IKE SAs that have another key.
local TRIALS = compat.has_ciphers and 20000 or 4000
local MAX_PADDING = 255 -- the pad length is one byte
local MIN_PADDING = 4 -- implementations pad to a multiple of this without need

local function add_phase1(self, cookie_i, keys)
    local list = self.phase1[cookie_i] or {}
    self.phase1[cookie_i] = list
    list[#list + 1] = keys
end

--- `sets`: key sets from `keyfile.read`; `phase1`: its IKEv1 keys.
function Keyring.new(sets, phase1)
    local self = setmetatable({
        by_spis = {}, by_nonces = {}, with_nonces = {}, free = {}, chains = {}, trials = TRIALS,
        phase1 = {}, free_phase1 = {}, size = #sets + #(phase1 or {}), has_unnamed = false,
        lacks_algorithms = false, -- whether a key set needs the negotiated ones
    }, Keyring)
    local known = {}
    for _, keys in ipairs(sets) do
        local spis = keys.spi_i and keys.spi_r and keys.spi_i .. keys.spi_r or ""
        local both = spis .. keys.ei .. keys.er .. (keys.ai or "") .. (keys.ar or "")
        if known[both] then
            self.size = self.size - 1 -- the same key set from two files
        elseif spis ~= "" then
            self.by_spis[spis] = self.by_spis[spis] or {}
            table.insert(self.by_spis[spis], keys)
        elseif keys.nonces then
            self.by_nonces[keys.nonces] = self.by_nonces[keys.nonces] or {}
            table.insert(self.by_nonces[keys.nonces], keys)
            self.with_nonces[#self.with_nonces + 1] = keys
            self.has_unnamed = true
        else
            self.free[#self.free + 1] = keys
            self.has_unnamed = true
        end
        known[both] = true
        self.lacks_algorithms = self.lacks_algorithms or not (keys.encryption and (keys.integrity or keys.icv))
    end
    for _, keys in ipairs(phase1 or {}) do
        local both = (keys.cookie_i or "") .. " " .. keys.key
        if known[both] then
            self.size = self.size - 1
        elseif keys.cookie_i then
            add_phase1(self, keys.cookie_i, keys)
        else
            self.free_phase1[#self.free_phase1 + 1] = keys
        end
        known[both] = true
    end
    return self
end

--- Whether there may be keys for an IKE SA.
function Keyring:may_decrypt(spi_i, spi_r)
    return self.has_unnamed or self.by_spis[spi_i .. spi_r] ~= nil
        or self.phase1[spi_i] ~= nil or #self.free_phase1 > 0
end

--- The number of key sets of an IKE SA, or of its keys of IKEv1, of those that are known to be its.
function Keyring:count(sa)
    if sa.version == 1 then
        return #(self.phase1[sa.spi_i] or {})
    end
    local spis = sa.spi_i .. sa.spi_r
    local chain = self.chains[spis]
    return chain and #chain.sets or #(self.by_spis[spis] or {})
end

--- Decrypt a message of IKEv1 with the first key that fits: peers with different pre-shared keys have different keys.
-- `try`: returns the plaintext for a key, nil if that does not fit. Returns the plaintext; nil if no key fits.
function Keyring:decrypt_phase1(sa, try)
    local own = self.phase1[sa.spi_i]
    for _, keys in ipairs(own or {}) do
        local plaintext = try(keys)
        if plaintext then
            return plaintext
        end
    end
    for index, keys in ipairs(self.free_phase1) do
        if own then
            if self.trials <= 0 then
                return nil
            end
            self.trials = self.trials - 1
        end
        local plaintext = try(keys)
        if plaintext then
            table.remove(self.free_phase1, index)
            add_phase1(self, sa.spi_i, keys)
            return plaintext
        end
    end
    return nil
end

-- The key sets of an IKE SA, in the order of their files.
local function get_chain(self, spis, nonces)
    local chain = self.chains[spis]
    if not chain then
        chain = { sets = {} }
        for _, keys in ipairs(self.by_spis[spis] or {}) do
            chain.sets[#chain.sets + 1] = keys
        end
        self.chains[spis] = chain
    end
    if nonces and not chain.has_nonces then
        chain.has_nonces = true
        for _, keys in ipairs(self.by_nonces[nonces] or {}) do
            chain.sets[#chain.sets + 1] = keys
        end
    end
    return chain.sets
end

-- Whether a plaintext is a chain of known payloads; `cut`: it may end within a payload.
local function is_chain(plaintext, first, cut)
    local at, kind = 1, first
    while kind ~= 0 do
        if at + 3 > #plaintext then
            return cut
        end
        local following, flags, high, low = plaintext:byte(at, at + 3)
        local size = high * 256 + low
        if not names.payload[kind] or flags % 128 ~= 0 or size < 4 then
            return false
        elseif at + size - 1 > #plaintext then
            return cut
        end
        at, kind = at + size, following
    end
    return at == #plaintext + 1
end

-- Whether the plaintext may be right, where no ICV is checked. Most of a fragment cannot be checked.
local function is_plausible(plaintext, padding, encrypted, block)
    if encrypted.total == 0 then
        return is_chain(plaintext, encrypted.first, false)
    end
    return padding < math.max(block, MIN_PADDING) and #plaintext > 0
        and (encrypted.fragment > 1 or is_chain(plaintext, encrypted.first, encrypted.total > 1))
end

-- Whether decrypted bytes do not begin with the header of a payload, as if SK_e were wrong, by the rule of `is_garbage`
-- in ikeanalyze/crypto/sk_payload.py: at least two of next payload, reserved flags and length are impossible.
local function is_garbage(plaintext, encrypted)
    if encrypted.fragment > 1 or encrypted.first == 0 or plaintext == "" then
        return false
    elseif #plaintext < 4 then
        return true
    end
    local following, flags, high, low = plaintext:byte(1, 4)
    local size, most = high * 256 + low, #plaintext
    if encrypted.total > 1 then
        most = (most + MAX_PADDING) * encrypted.total
    end
    local errors = 0
    local unknown = following ~= 0 and not names.payload[following]
    for _, wrong in ipairs({ unknown, flags % 128 ~= 0, size < 4 or size > most }) do
        errors = errors + (wrong and 1 or 0)
    end
    return errors > 1
end

-- What a key set decrypts; nil if it does not fit, and true if its SK_a fits, so that its SK_e is wrong.
local function try_key_set(keys, encrypted, suite)
    local algorithm = cipher.algorithm(keys, suite)
    if not algorithm then
        return nil
    end
    local plaintext, verified, padding =
        cipher.decrypt(algorithm, keys, suite, encrypted.data, encrypted.start, encrypted.from_initiator)
    if not plaintext then
        return nil, verified
    elseif verified and algorithm.icv == 0 and algorithm.mode ~= "NULL" and is_garbage(plaintext, encrypted) then
        return nil, true
    elseif not verified and not is_plausible(plaintext, padding, encrypted, algorithm.block) then
        return nil
    end
    return { plaintext = plaintext, verified = verified, keys = keys, first = encrypted.first }
end

-- Positions in the order in which they are tried: the expected one, and the others from the last one.
local function positions(count, expected)
    local order = {}
    if expected <= count then
        order[1] = expected
    end
    for position = count, 1, -1 do
        if position ~= expected then
            order[#order + 1] = position
        end
    end
    return order
end

-- Whether a key set is recognised by the ICV.
local function is_checked(keys, suite)
    local algorithm = cipher.algorithm(keys, suite)
    return algorithm and (algorithm.icv > 0
        or not keys.icv and algorithms.integrity[keys.integrity or (suite and suite.integrity) or -1] ~= nil)
end

-- Try key sets of unknown IKE SAs; the one that fits is moved from `list` to the chain.
local function try_unassigned(self, list, chain, encrypted, suite)
    for index, keys in ipairs(list) do
        if is_checked(keys, suite) then
            if self.trials <= 0 then
                return nil
            end
            self.trials = self.trials - 1
            local decrypted = try_key_set(keys, encrypted, suite)
            if decrypted then
                table.remove(list, index)
                chain[#chain + 1] = keys
                table.sort(chain, function(a, b)
                    return a.number < b.number
                end)
                return decrypted
            end
        end
    end
    return nil
end

--- Decrypt a message. `encrypted`: {data, start, first, fragment, total, from_initiator}; `suite`: the negotiated one;
-- `nonces`: of both sides, which created the IKE SA; `epoch`: the index of the key set by order, from 0.
-- Returns {plaintext, verified, keys, first, position, count}; nil if no key set fits, and true if the SK_a of one
-- does, so that its SK_e is wrong. `position`: of the key set among those of the IKE SA, from 1.
function Keyring:decrypt(spi_i, spi_r, encrypted, suite, nonces, epoch)
    local chain = get_chain(self, spi_i .. spi_r, nonces)
    local decrypted, wrong, has_wrong_key
    for _, position in ipairs(positions(#chain, epoch + 1)) do
        decrypted, wrong = try_key_set(chain[position], encrypted, suite)
        if decrypted then
            break
        end
        has_wrong_key = has_wrong_key or wrong
    end
    decrypted = decrypted or try_unassigned(self, self.free, chain, encrypted, suite)
    if not decrypted and not nonces then
        decrypted = try_unassigned(self, self.with_nonces, chain, encrypted, suite)
    end
    if not decrypted then
        return nil, has_wrong_key
    end
    for position, keys in ipairs(chain) do
        if keys == decrypted.keys then
            decrypted.position, decrypted.count = position, #chain
        end
    end
    return decrypted
end

return Keyring
