--[[ Reading from a string of bytes, with every bounds check in this one place. ]]
local byte, sub = string.byte, string.sub

local Cursor = {}
Cursor.__index = Cursor

-- What a read past the end raises; `attempt` turns it into a result.
local SHORT = {}

--- A cursor over `data`, from position `first` (1 is the first byte) to `last`, which is included.
function Cursor.new(data, first, last)
    local size = #data
    if last == nil or last > size then
        last = size
    end
    return setmetatable({ data = data, at = first or 1, last = last }, Cursor)
end

--- Bytes that are left.
function Cursor:remaining()
    return self.last - self.at + 1
end

local function take(self, count)
    local at = self.at
    if count < 0 or at + count - 1 > self.last then
        error(SHORT, 0)
    end
    self.at = at + count
    return at
end

function Cursor:u8()
    local at = self.at
    if at > self.last then
        error(SHORT, 0)
    end
    self.at = at + 1
    return byte(self.data, at)
end

function Cursor:u16()
    local at = self.at
    if at >= self.last then
        error(SHORT, 0)
    end
    self.at = at + 2
    local a, b = byte(self.data, at, at + 1)
    return a * 256 + b
end

--- The generic header of a payload (RFC 7296, 3.2): type of the next one, flags, length.
function Cursor:payload_header()
    local at = take(self, 4)
    local following, flags, high, low = byte(self.data, at, at + 3)
    return following, flags, high * 256 + low
end

function Cursor:bytes(count)
    local at = take(self, count)
    return sub(self.data, at, at + count - 1)
end

function Cursor:skip(count)
    take(self, count)
end

--- A cursor over the next `count` bytes, which are behind this one afterwards.
function Cursor:within(count)
    local at = take(self, count)
    return Cursor.new(self.data, at, at + count - 1)
end

--- All that is left.
function Cursor:rest()
    return self:bytes(self:remaining())
end

--- Call `parse`; its result, or nil and what is wrong if the bytes ended too early.
function Cursor.attempt(parse, ...)
    local ok, result = pcall(parse, ...)
    if ok then
        return result
    end
    if result == SHORT then
        return nil, "it ends too early"
    end
    error(result, 0)
end

return Cursor
