--[[ The menus and windows of the plugin in Wireshark: Statistics, IKE, and the menu of a packet (since 4.2). ]]
local ladder = require("ikex.ladder")
local statistics = require("ikex.statistics")
local decrypted_copy = require("ikex.decrypted_copy")

local menus = {}

-- A function that returns the text of a statistic; an error in the plugin becomes its text.
local function guard(name, make_text)
    return function(...)
        local ok, text = pcall(make_text, ...)
        return ok and text or string.format("ikex internal error in %s: %s", name, tostring(text))
    end
end

local function filter_handshake(number)
    set_filter(string.format("ikex.handshake == %d", number))
    apply_filter()
end

local function open_window(title, make_text)
    local window = TextWindow.new(title)
    window:set(make_text())
    window:add_button("Refresh", function()
        window:set(make_text())
    end)
    return window
end

-- The list of handshakes, with buttons that filter the packets of one.
local function open_list(get_capture)
    local selected
    local make_text = guard("the list of handshakes", function()
        return statistics.list(get_capture(), selected)
    end)
    local window = open_window("IKE handshakes", make_text)
    local function select(number)
        local count = #get_capture().conversation.sas
        if count > 0 then
            selected = math.max(1, math.min(number, count))
            filter_handshake(selected)
            window:set(make_text())
        end
    end
    window:add_button("Filter next", function()
        select((selected or 0) + 1)
    end)
    window:add_button("Filter previous", function()
        select((selected or 2) - 1)
    end)
    window:add_button("Filter number...", function()
        new_dialog("Filter an IKE handshake", function(text)
            if tonumber(text) then
                select(math.floor(tonumber(text)))
            end
        end, "Number of the handshake")
    end)
    window:add_button("Show messages", function()
        menus.show_handshake(get_capture, selected or 1)
    end)
end

--- Open a window with the messages of a handshake.
function menus.show_handshake(get_capture, number)
    open_window(string.format("IKE handshake %d", number), guard("the messages", function()
        local capture = get_capture()
        capture:finish()
        local sa = capture.conversation.sas[number]
        return sa and ladder.describe(capture, sa) or "The capture has no such handshake"
    end))
end

-- The handshake of the packet whose fields are given, nil if there is none.
local function find_handshake(...)
    for _, field in ipairs({ ... }) do
        if field.name == "ikex.handshake" then
            return tonumber(tostring(field.value))
        end
    end
    return nil
end

-- The menu of a packet, in versions that have one for Lua.
local function register_packet_menus(get_capture)
    if not register_packet_menu then
        return
    end
    register_packet_menu("IKE/Follow this IKE SA", function(...)
        local number = find_handshake(...)
        if number then
            filter_handshake(number)
        end
    end, "ikex.handshake")
    register_packet_menu("IKE/Show this handshake", function(...)
        local number = find_handshake(...)
        if number then
            menus.show_handshake(get_capture, number)
        end
    end, "ikex.handshake")
end

--- Register all menus. `get_capture`: returns the open capture; `get_key_files`: the paths of its key files;
-- `get_command`: the command that runs ikeanalyze.
function menus.register(get_capture, get_key_files, get_command)
    local group = MENU_STAT_UNSORTED or MENU_TOOLS_UNSORTED
    local function add_window(name, title, statistic)
        register_menu("IKE/" .. name, function()
            open_window(title, guard(title, function()
                return statistics[statistic](get_capture())
            end))
        end, group)
    end
    register_menu("IKE/Handshakes", function()
        open_list(get_capture)
    end, group)
    add_window("Handshakes in full", "IKE handshakes in full", "details")
    add_window("Handshakes with a diagnosis", "IKE diagnosis", "diagnosis")
    add_window("Messages of all handshakes", "IKE messages", "ladders")
    add_window("Round trips by exchange", "IKE exchanges", "exchanges")
    register_menu("IKE/Save decrypted capture...", function()
        decrypted_copy.open_dialog(get_key_files(), get_command())
    end, group)
    register_packet_menus(get_capture)
end

return menus
