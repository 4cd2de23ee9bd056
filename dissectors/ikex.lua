--[[ ikex: IKEv2 analysis that Wireshark's own dissector lacks, above all for post-quantum key exchanges.

Purpose: a post-dissector that adds to the built-in `isakmp`. It links requests to responses, marks retransmissions,
numbers handshakes, reassembles fragmented messages, decrypts with the key set of each epoch of RFC 9370, and checks
ML-KEM key exchange data. Its fields can be used as filters and columns; README.md lists them.

How to run: copy this file and the folder `ikex` into the personal plugin folder (Help, About Wireshark, Folders), which
`ikeanalyze wireshark install` does; or `tshark -X lua_script:ikex.lua -r CAPTURE -O ikex`. Keys: preference ikex.keys.
Statistics: `tshark -q -z ikex,handshakes -r CAPTURE`, `-z ikex,exchanges`; in the window under Statistics, IKE.

Needs: Wireshark 4.0 or later. The plugin tests for the features of the running version: with GcryptCipher it decrypts
faster. Newer versions do not run Lua as root.
]]

-- The modules are in the folder of this file, wherever that is.
local folder = debug and debug.getinfo(1, "S").source:match("^@(.*[/\\])")
if folder and not package.path:find(folder .. "?.lua", 1, true) then
    package.path = folder .. "?.lua;" .. package.path
end

-- The protocol comes first: where another copy of the plugin has made it, the modules may be of another version.
local made, ikex = pcall(Proto, "ikex", "IKE analysis")
if not made then
    local other = package.loaded["ikex.capture"]
    local source = debug and type(other) == "table" and other.new and debug.getinfo(other.new, "S").source
    local place = source and source:match("^@(.*)[/\\]ikex[/\\][^/\\]*$")
    error(tostring(ikex):find("two protocols", 1, true) and string.format(
        "ikex is installed twice, and the copy in %s is used. Remove one of them.", place or "another folder"
    ) or ikex, 0)
end

local Capture = require("ikex.capture")
local Datagram = require("ikex.datagram")
local Keyring = require("ikex.keyring")
local Radius = require("ikex.radius")
local View = require("ikex.view")
local compat = require("ikex.compat")
local contents = require("ikex.contents")
local fields = require("ikex.fields")
local findings = require("ikex.findings")
local garbage = require("ikex.garbage")
local info = require("ikex.info")
local keyfile = require("ikex.keyfile")
local menus = require("ikex.menus")
local packet = require("ikex.packet")
local subdissect = require("ikex.subdissect")
local slots = require("ikex.slots")
local statistics = require("ikex.statistics")

local SLOT = Datagram.SLOT

ikex.prefs.keys = Pref.string(
    "Key files", "",
    "Key files, separated by semicolons: JSON from `ikeanalyze keys --to json`, logs of charon or libreswan with keys,"
        .. " or rows of Wireshark's IKEv1 and IKEv2 decryption tables. Empty: the file ikex_keys in Wireshark's"
        .. " personal configuration folder"
)
ikex.prefs.table_keys = Pref.bool(
    "Use the IKEv2 decryption table", true,
    "Also use the rows of Wireshark's IKEv2 decryption table"
)
ikex.prefs.dissect = Pref.bool(
    "Dissect decrypted messages", true,
    "Pass decrypted messages to the built-in dissector, so that filters on its fields match them"
)
ikex.prefs.info = Pref.bool(
    "Payloads in the Info column", true,
    "Show exchange, kind and payloads of each message in the Info column, with keys or columns of the plugin"
)
ikex.prefs.ports = Pref.range(
    "UDP ports", "",
    "UDP ports that carry IKE besides 500 and 4500; use `Decode As` to select the built-in dissector for them", 65535
)
-- Written by `ikeanalyze wireshark install`.
local is_installed, installed = pcall(require, "ikex.installed")
ikex.prefs.command = Pref.string(
    "Command of ikeanalyze", is_installed and type(installed) == "table" and installed.command or "ikeanalyze",
    "The command that writes decrypted captures (Statistics, IKE): a program in the search path, or its full path"
)

local all_fields = fields.make()
local experts = fields.experts()
local list = {}
for _, field in pairs(all_fields) do
    list[#list + 1] = field
end
ikex.fields = list
list = {}
for _, expert_info in pairs(experts) do
    list[#list + 1] = expert_info
end
ikex.experts = list

local TABLE = "isakmp.ikev2_decryption_table"
local DEFAULT_KEYS = "ikex_keys" -- in the personal configuration folder

local has_window = gui_enabled()
local view = View.new(ikex, all_fields, experts, has_window)
-- Ports of IKE in TCP, the preference iketcp.ports.
local tcp_ports = {}
local capture = Capture.new(Keyring.new({}), has_window, tcp_ports)
local own_dissector = nil

-- The problems of the key files when they were last read: each is reported once, and again if it comes back.
local reported = {}
local MOST_PROBLEMS = 5 -- in one window; a file that is no key file may have one in each line

local function report_problems(problems)
    local known, new = reported, {}
    reported = {}
    for _, problem in ipairs(problems) do
        if not known[problem] and not reported[problem] then
            new[#new + 1] = "ikex: " .. problem
        end
        reported[problem] = true
    end
    if #new > 0 and has_window then
        local text = table.concat(new, "\n", 1, math.min(#new, MOST_PROBLEMS))
        local more = #new > MOST_PROBLEMS and string.format("\nand %d more problems", #new - MOST_PROBLEMS) or ""
        report_failure(text .. more)
    elseif #new > 0 then
        io.stderr:write(table.concat(new, "\n"), "\n")
    end
end

-- The path of a file in Wireshark's personal folder, if it is there.
local function find_personal(name)
    local path = persconffile_path(name)
    local file = io.open(path, "rb")
    if file then
        file:close()
        return path
    end
    return nil
end

-- The files to read: those of the preference, or else the one in Wireshark's personal folder.
local function key_paths()
    local paths = {}
    for path in tostring(ikex.prefs.keys):gmatch("[^;]+") do
        path = compat.expand_home(path:match("^%s*(.-)%s*$"))
        if path ~= "" then
            paths[#paths + 1] = path
        end
    end
    if #paths == 0 then
        paths[1] = find_personal(DEFAULT_KEYS)
    end
    return paths
end

-- The keys are loaded whenever a capture is opened or reloaded.
local function load_keys()
    local loaded = keyfile.new()
    for _, path in ipairs(key_paths()) do
        keyfile.read(path, loaded)
    end
    local rows = ikex.prefs.table_keys and compat.preference(TABLE)
    if type(rows) == "table" then
        for number, row in ipairs(rows) do
            keyfile.add_row(loaded, row, string.format("IKEv2 decryption table, row %d", number))
        end
    elseif ikex.prefs.table_keys then -- older versions show Lua no tables: read the file
        local path = find_personal("ikev2_decryption_table")
        if path then
            keyfile.read(path, loaded)
        end
    end
    report_problems(loaded.problems)
    return Keyring.new(loaded.sets, loaded.phase1)
end

-- Packets on these ports may be IKE; a preference adds more.
local ports = {}
-- Preferences that each packet needs: Wireshark takes long to look one up.
local preferences = { info = true, dissect = true }

-- Add the ports of a range such as "500,4500-4501" to `numbers`, as keys.
local function add_ports(numbers, range)
    for first, last in tostring(range):gmatch("(%d+)%s*%-?%s*(%d*)") do
        for port = tonumber(first), tonumber(last) or tonumber(first) do
            numbers[port] = true
        end
    end
end

local function read_preferences()
    preferences = { info = ikex.prefs.info, dissect = ikex.prefs.dissect }
    ports = { [500] = true, [4500] = true }
    add_ports(ports, ikex.prefs.ports)
end

-- The protocol "iketcp", which is registered at the end of this file.
local iketcp = nil

local function read_tcp_ports()
    tcp_ports = {}
    if iketcp then
        add_ports(tcp_ports, iketcp.prefs.ports)
    end
end

-- Whether the time of the last packet is needed, which ends the capture; nil before the first packet.
local needs_last_time = nil
-- The same for statistics, whose packets tshark may list too.
local has_statistics = false

-- Only tshark lists packets while it reads them for the first time: it reads them once then, and does not ask for what
-- depends on the end of the capture.
local function is_read_once(pinfo)
    return not has_window and not has_statistics and View.has_columns(pinfo)
end

-- What a pass of tshark needs, the same for all of its packets: {visible, shown}; nil before it.
local first_pass, second_pass = nil, nil

function ikex.init()
    needs_last_time, first_pass, second_pass = nil, nil, nil
    read_preferences()
    read_tcp_ports()
    capture = Capture.new(load_keys(), has_window, tcp_ports)
    own_dissector = own_dissector or Dissector.get("ikex")
end

-- Show a datagram; returns the text for the Info column, nil if there is none.
local function show_datagram(tvb, pinfo, tree, datagram)
    if view.needs_exceptional_only and findings.is_unremarkable(capture, datagram) then
        view:plain_datagram(tree)
        return view.builds_columns and preferences.info and info.describe(datagram, slots.FIRST) or nil
    end
    local slot, tab, source, offset = datagram[SLOT], nil, nil, nil
    if slot then
        local has_keys = capture.keyring.size > 0
        if view.visible or has_keys or view.needed.any_of_payloads then
            capture:decode(slot.pair.sa)
        else
            capture:decode_for_findings(slot.pair)
        end
        local content = (view.visible or has_keys) and contents.shown(datagram)
        if content and content.encrypted and (view.visible or preferences.dissect) then
            tab = subdissect.add_tab(content)
            source, offset = tab, 0
        elseif content and not content.encrypted and view.visible then
            source, offset = tvb, subdissect.find_offset(tvb, content)
        end
    end
    local root, transmission = view:datagram(tree, capture, datagram, source, offset)
    if tab and preferences.dissect then
        subdissect.show(root, pinfo, tab)
    end
    return slot and view.builds_columns and preferences.info and info.describe(datagram, transmission) or nil
end

local function show_packet(tvb, pinfo, tree, number, visible, visited)
    local capture = capture
    capture:process_queue()
    local datagram = capture.by_frame[number]
    if datagram == nil then
        return
    end
    view:begin(tree, pinfo, number, visible, visited)
    local text
    if not datagram then
        local texts = {}
        for _, each in ipairs(capture.lists[number]) do
            texts[#texts + 1] = show_datagram(tvb, pinfo, tree, each)
        end
        text = #texts > 0 and table.concat(texts, "; ")
    else
        text = show_datagram(tvb, pinfo, tree, datagram)
    end
    if text then
        pinfo.cols.info = text
    end
end

ikex.prefs_changed = read_preferences

-- Methods of Wireshark's objects, which are looked up once: of Tvb, and of TreeItem.
local methods = {}
local raw, referenced

-- Whether anything of the plugin is needed for a packet: its details are shown, or a filter or column uses a field.
local function is_needed(tree, visible)
    return visible or referenced(tree, own_dissector) or capture.keyring.size > 0
end

-- What is needed of a packet.
local function find_needs(tree)
    local visible = tree.visible
    return { visible = visible, shown = is_needed(tree, visible) }
end

-- Dissect a packet again in tshark, which has read all packets.
local function dissect_again(tvb, pinfo, tree, number)
    second_pass = second_pass or find_needs(tree)
    if second_pass.shown then
        show_packet(tvb, pinfo, tree, number, second_pass.visible, true)
    end
end

-- The ports are nil if they are not known yet; `at`: see `packet.find_ports`.
local function dissect(tvb, pinfo, tree, number, source_port, destination_port, at)
    local capture = capture
    local queue, visited = capture.queue, false
    if number > queue.latest then -- the first pass
        queue.latest = number
        local time = pinfo.abs_ts
        queue:see_time(time)
        if not source_port then
            source_port, destination_port = pinfo.src_port, pinfo.dst_port
        end
        if ports[source_port] or ports[destination_port] then
            queue:from_tvb(number, time, pinfo.len, tvb, methods, source_port, destination_port, at)
        elseif tcp_ports[source_port] or tcp_ports[destination_port] then
            queue:segment(number, time, pinfo.len, raw(tvb), source_port, destination_port)
        elseif Radius.PORTS[source_port] or Radius.PORTS[destination_port] then
            capture:add_radius(number, time, raw(tvb), source_port, destination_port)
        elseif source_port == 0 or packet.TUNNEL_PORTS[destination_port] then
            queue:without_ports(number, time, pinfo.len, raw(tvb))
        end
        if not has_window then
            first_pass = first_pass or find_needs(tree)
            if first_pass.shown then
                show_packet(tvb, pinfo, tree, number, first_pass.visible, false)
            end
            return
        end
    else
        visited = pinfo.visited
        if visited and (capture.finished or has_window) then
            capture:finish()
            if capture.by_frame[number] == nil then
                return
            end
        end
    end
    -- needed only if the details are shown, if a filter or column uses a field of the plugin, or for the window of
    -- expert infos, which uses none of them: it reads a capture again that has been read
    local visible = tree.visible
    if not (is_needed(tree, visible) or (visited and has_window)) then
        return
    end
    if visited then
        capture:finish()
    end
    show_packet(tvb, pinfo, tree, number, visible, visited)
end

local count_call = garbage.count_call

local function guarded(dissect_packet, tvb, pinfo, tree, number, source_port, destination_port, at)
    count_call()
    local ok, problem = pcall(dissect_packet, tvb, pinfo, tree, number, source_port, destination_port, at)
    if not ok then
        tree:add_proto_expert_info(experts.internal, "ikex internal error: " .. tostring(problem))
    end
end

local find_ports, START, START_SIZE = packet.find_ports, packet.START, packet.START_SIZE

function ikex.dissector(tvb, pinfo, tree)
    if not raw then
        raw, referenced = tvb.raw, tree.referenced
        methods.raw, methods.len = raw, tvb.len
    end
    if capture.finished then
        local number = pinfo.number
        if number <= capture.queue.latest then -- it has been dissected before
            if has_window then
                guarded(dissect, tvb, pinfo, tree, number)
            elseif capture.by_frame[number] ~= nil then
                guarded(dissect_again, tvb, pinfo, tree, number)
            end
            return
        end
    end
    -- most packets of a gateway end here: each further value of Wireshark's would take as long as all of this
    local whole, start = pcall(raw, tvb, START, START_SIZE)
    local source_port, destination_port, at
    if whole then
        source_port, destination_port, at = find_ports(start, ports, tcp_ports)
        if source_port == false then
            if needs_last_time == nil then
                needs_last_time = not is_read_once(pinfo)
            end
            if needs_last_time then
                local queue, time = capture.queue, pinfo.abs_ts
                if time > queue.last_time then
                    queue.last_time = time
                end
            end
            return
        end
    end
    guarded(dissect, tvb, pinfo, tree, pinfo.number, source_port, destination_port, at)
end

garbage.adjust() -- all modules have been loaded

register_postdissector(ikex)

local function statistics_text(name)
    local ok, text = pcall(statistics[name], capture)
    return ok and text or "ikex internal error: " .. tostring(text)
end

local function register_statistics(name)
    register_stat_cmd_arg("ikex," .. name, function()
        has_statistics = true
        local tap = Listener.new("frame")
        function tap.draw()
            print(statistics_text(name))
        end
        function tap.reset() end
    end)
end
register_statistics("handshakes")
register_statistics("list")
register_statistics("details")
register_statistics("exchanges")
register_statistics("ladders")
register_statistics("diagnosis")

if has_window then
    menus.register(function()
        return capture
    end, key_paths, function()
        return compat.expand_home(ikex.prefs.command)
    end)
end

-- IKE in TCP (RFC 9329)
local has_tcp, tcp = pcall(require, "ikex.tcp")
if has_tcp and type(tcp) == "table" and tcp.register then
    iketcp = tcp.register()
end
