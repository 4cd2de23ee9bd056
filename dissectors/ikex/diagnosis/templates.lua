--[[ Templates of sentences, with names of values in braces: "sent {sent}, {bytes:,} bytes, {time:,.1f} s". ]]
local templates = {}

--- A number as text with commas between thousands; `text`: digits, which may have a sign and a fraction.
function templates.group_thousands(text)
    local sign, whole, rest = text:match("^(%-?)(%d+)(.*)$")
    return sign .. whole:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", "") .. rest
end

-- A value in a form: "" and "," are integers, ".1f" and ",.1f" have digits after the point; texts have no form.
local function format_value(value, form)
    if type(value) == "string" then
        return value
    end
    local digits = tonumber(form:match("%.(%d+)f$")) or 0
    local text = string.format("%." .. string.format("%d", digits) .. "f", value)
    return form:sub(1, 1) == "," and templates.group_thousands(text) or text
end

--- A template with the values that it names; nil if one of them is nil.
function templates.fill_in(template, values)
    local complete = true
    local text = template:gsub("{([%w_]+):?([^}]*)}", function(name, form)
        local value = values[name]
        complete = complete and value ~= nil
        return value ~= nil and format_value(value, form) or ""
    end)
    return complete and text or nil
end

return templates
