--[[ SA payloads: proposals and their transforms (RFC 7296, 3.3; RFC 9370, 2.2.1). ]]
local Cursor = require("ikex.cursor")

local proposals = {}

local KEY_LENGTH = 14 -- transform attribute

--- The proposals in the body of an SA payload: a list of {number, protocol, spi, transforms = {{type, id, key_bits}}}.
-- Returns the proposals before the first problem, and a description of the problem.
function proposals.read(body)
    local list = {}
    local _, problem = Cursor.attempt(function()
        local cursor = Cursor.new(body)
        while cursor:remaining() > 0 do
            cursor:skip(2) -- whether it is the last one, which also follows from the length
            local size = cursor:u16()
            local within = cursor:within(size - 4)
            local proposal = { number = within:u8(), protocol = within:u8(), transforms = {} }
            local spi_size = within:u8()
            within:skip(1) -- number of transforms
            proposal.spi = within:bytes(spi_size)
            list[#list + 1] = proposal
            while within:remaining() > 0 do
                within:skip(2)
                local length = within:u16()
                local inner = within:within(length - 4)
                local transform = { type = inner:u8() }
                inner:skip(1)
                transform.id = inner:u16()
                proposal.transforms[#proposal.transforms + 1] = transform
                while inner:remaining() > 0 do
                    local kind, value = inner:u16(), inner:u16()
                    if kind >= 0x8000 then
                        if kind - 0x8000 == KEY_LENGTH then
                            transform.key_bits = value
                        end
                    else
                        inner:skip(value)
                    end
                end
            end
        end
    end)
    return list, problem
end

--- The additional key exchanges of a proposal: a list of {slot, method} in order of slots, 1 to 7.
function proposals.additional(proposal)
    local by_slot = {}
    for _, transform in ipairs(proposal and proposal.transforms or {}) do
        if transform.type >= 6 and transform.type <= 12 and transform.id ~= 0 then
            by_slot[transform.type - 5] = transform.id
        end
    end
    local list = {}
    for slot = 1, 7 do
        if by_slot[slot] then
            list[#list + 1] = { slot = slot, method = by_slot[slot] }
        end
    end
    return list
end

--- Whether any of the proposals has an additional key exchange other than NONE.
function proposals.offer_additional(list)
    for _, proposal in ipairs(list) do
        if #proposals.additional(proposal) > 0 then
            return true
        end
    end
    return false
end

--- The algorithms of a proposal that protect IKE messages: {encryption, key_bits, integrity}; nil if it has no cipher.
function proposals.suite(proposal)
    local suite = { integrity = 0 }
    for _, transform in ipairs(proposal and proposal.transforms or {}) do
        if transform.type == 1 and not suite.encryption then
            suite.encryption, suite.key_bits = transform.id, transform.key_bits
        elseif transform.type == 3 then
            suite.integrity = transform.id
        end
    end
    return suite.encryption and suite or nil
end

return proposals
