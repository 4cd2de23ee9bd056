--[[ A reader for a string of bytes, which makes all bounds checks. ]]
local byte, sub = string.byte, string.sub

local Cursor = {}
Cursor.__index = Cursor

-- The error of a read past the end; `attempt` returns it as a result.
local TRUNCATED = {}

--- A cursor over `data`, from position `first` (1 is the first byte) to `last`, which is included.
function Cursor.new(data, first, last)
    local size = #data
    if last == nil or last > size then
        last = size
    end
    return setmetatable({ data = data, at = first or 1, last = last }, Cursor)
end

--- The number of remaining bytes.
function Cursor:remaining()
    return self.last - self.at + 1
end

local function take(self, count)
    local at = self.at
    if count < 0 or at + count - 1 > self.last then
        error(TRUNCATED, 0)
    end
    self.at = at + count
    return at
end

function Cursor:u8()
    local at = self.at
    if at > self.last then
        error(TRUNCATED, 0)
    end
    self.at = at + 1
    return byte(self.data, at)
end

function Cursor:u16()
    local at = self.at
    if at >= self.last then
        error(TRUNCATED, 0)
    end
    self.at = at + 2
    local a, b = byte(self.data, at, at + 1)
    return a * 256 + b
end

function Cursor:bytes(count)
    local at = take(self, count)
    return sub(self.data, at, at + count - 1)
end

function Cursor:skip(count)
    take(self, count)
end

--- A cursor over the next `count` bytes, which this cursor skips.
function Cursor:within(count)
    local at = take(self, count)
    return Cursor.new(self.data, at, at + count - 1)
end

--- All remaining bytes.
function Cursor:rest()
    return self:bytes(self:remaining())
end

--- Call `parse`. Returns its result, or nil and a description of the problem if the bytes ended too early.
function Cursor.attempt(parse, ...)
    local ok, result = pcall(parse, ...)
    if ok then
        return result
    end
    if result == TRUNCATED then
        return nil, "truncated"
    end
    error(result, 0)
end

return Cursor
