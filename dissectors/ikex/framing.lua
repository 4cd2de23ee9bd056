-- How IKE and ESP are framed in a TCP stream (RFC 9329, 3 and 4).
local message = require("ikex.message")

local framing = {
    PREFIX = "IKETCP", -- which the originator of a connection sends once
    LENGTH = 2, -- bytes of the length before each message, which includes itself
    MARKER = "\0\0\0\0", -- before an IKE message, not before an ESP packet
    ESP_HEADER = 8, -- bytes of the shortest ESP packet
}
-- Bytes that identify an IKE message: length, marker and IKE header.
framing.CERTAIN = framing.LENGTH + #framing.MARKER + message.HEADER

return framing
