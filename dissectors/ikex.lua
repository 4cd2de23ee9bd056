--[[ ikex: what IKEv2 needs beyond Wireshark's own dissector, post-quantum above all.

Purpose: a post-dissector beside the built-in `isakmp`. It ties requests to responses, marks retransmissions, numbers handshakes, sees
fragmented messages as a whole, decrypts with the key set of each epoch of RFC 9370, and checks ML-KEM key exchange data.
Its fields can be used as filters and columns; README.md lists them.

How to run: copy this file and the folder `ikex` into the personal plugin folder (Help, About Wireshark, Folders), which
`ikeanalyze wireshark install` does; or `tshark -X lua_script:ikex.lua -r CAPTURE -O ikex`. Keys: preference ikex.keys.
Statistics: `tshark -q -z ikex,handshakes -r CAPTURE`, `-z ikex,exchanges`; in the window under Tools, IKE.

Needs: Wireshark 4.0 or later. What a version lacks is found by asking for it: without GcryptCipher nothing is decrypted here, and the
packet details say what to do. As root, newer versions run no Lua.
]]

-- The modules are beside this file, wherever it was loaded from.
local here = debug and debug.getinfo(1, "S").source:match("^@(.*[/\\])")
if here and not package.path:find(here .. "?.lua", 1, true) then
    package.path = here .. "?.lua;" .. package.path
end

local Capture = require("ikex.capture")
local Keyring = require("ikex.keyring")
local View = require("ikex.view")
local compat = require("ikex.compat")
local fields = require("ikex.fields")
local keyfile = require("ikex.keyfile")
local subdissect = require("ikex.subdissect")
local statistics = require("ikex.statistics")

local ikex = Proto("ikex", "IKE analysis")

ikex.prefs.keys = Pref.string(
    "Key files", "",
    "Key files, separated by semicolons: JSON from `ikeanalyze keys --to json`, or rows of Wireshark's IKEv2 decryption table,"
        .. " those of one IKE SA in the order of their epochs"
)
ikex.prefs.table_keys = Pref.bool(
    "Use the IKEv2 decryption table", true, "Use the rows of Wireshark's own table too, where this version tells them"
)
ikex.prefs.dissect = Pref.bool(
    "Dissect decrypted messages", true, "Hand decrypted messages to Wireshark's own dissector, so that its fields can be filtered by"
)

ikex.prefs.ports = Pref.range(
    "UDP ports", "", "UDP ports that carry IKE besides 500 and 4500; `Decode As` makes Wireshark show it as such", 65535
)

local all_fields = fields.make()
local experts = fields.experts()
local listed = {}
for _, field in pairs(all_fields) do
    listed[#listed + 1] = field
end
ikex.fields = listed
listed = {}
for _, expert_info in pairs(experts) do
    listed[#listed + 1] = expert_info
end
ikex.experts = listed

local view = View.new(ikex, all_fields, experts)
local capture = Capture.new(Keyring.new({}))
local itself = nil

-- What is wrong with key files is said once, where people look.
local told = {}
local function tell(text)
    if gui_enabled() then
        report_failure(text)
    else
        io.stderr:write(text, "\n")
    end
end

local function load_keys()
    local sets, problems = {}, {}
    for path in tostring(ikex.prefs.keys):gmatch("[^;]+") do
        path = path:match("^%s*(.-)%s*$")
        if path ~= "" then
            keyfile.read(path, sets, problems)
        end
    end
    local rows = ikex.prefs.table_keys and compat.preference("isakmp.ikev2_decryption_table")
    if type(rows) == "table" then
        for number, row in ipairs(rows) do
            keyfile.add_row(sets, row, string.format("IKEv2 decryption table, row %d", number), problems)
        end
    end
    for _, problem in ipairs(problems) do
        if not told[problem] then
            told[problem] = true
            tell("ikex: " .. problem)
        end
    end
    return Keyring.new(sets)
end

-- Packets on these ports may be IKE; the preference names more.
local ports = {}

local function set_ports()
    ports = { [500] = true, [4500] = true }
    for first, last in tostring(ikex.prefs.ports):gmatch("(%d+)%s*%-?%s*(%d*)") do
        for port = tonumber(first), tonumber(last) or tonumber(first) do
            ports[port] = true
        end
    end
end

function ikex.init()
    set_ports()
    capture = Capture.new(load_keys())
    itself = itself or Dissector.get("ikex")
end

local function show(pinfo, number, tree)
    capture:settle()
    for _, unit in ipairs(capture:units(number)) do
        if unit.slot then
            capture:look_into(unit.slot.pair.sa)
        end
        local root = view:unit(tree, capture, unit)
        if ikex.prefs.dissect then
            subdissect.show(root, pinfo, unit)
        end
    end
end

local function dissect(tvb, pinfo, tree)
    local number = pinfo.number
    local queue = capture.queue
    if number > queue.latest then -- for the first time
        queue.latest = number
        local time = pinfo.abs_ts
        if time > queue.last_time then
            queue.last_time = time
        end
        local source_port, destination_port = pinfo.src_port, pinfo.dst_port
        if ports[source_port] or ports[destination_port] then
            queue:packet(number, time, pinfo.len, tvb:raw(), source_port, destination_port)
        elseif source_port == 0 then
            queue:bare(number, time, pinfo.len, tvb:raw())
        end
    elseif pinfo.visited then
        capture:finish()
    end
    -- nobody looks, unless the details are shown or a filter or column asks for a field of ours
    if tree.visible or tree:referenced(itself) or capture.keyring.size > 0 then
        show(pinfo, number, tree)
    end
end

function ikex.dissector(tvb, pinfo, tree)
    local ok, problem = pcall(dissect, tvb, pinfo, tree)
    if not ok then
        tree:add_proto_expert_info(experts.internal, "ikex internal error: " .. tostring(problem))
    end
end

register_postdissector(ikex)

local function text_of(name)
    local ok, text = pcall(statistics[name], capture)
    return ok and text or "ikex internal error: " .. tostring(text)
end

local function report(name)
    register_stat_cmd_arg("ikex," .. name, function()
        local tap = Listener.new("frame")
        function tap.draw()
            print(text_of(name))
        end
        function tap.reset() end
    end)
end
report("handshakes")
report("exchanges")

if gui_enabled() then
    local function window(title, name)
        local text = TextWindow.new(title)
        text:set(text_of(name))
        text:add_button("Again", function()
            text:set(text_of(name))
        end)
    end
    register_menu("IKE/Handshakes", function()
        window("IKE handshakes", "handshakes")
    end, MENU_TOOLS_UNSORTED)
    register_menu("IKE/Round trips by exchange", function()
        window("IKE exchanges", "exchanges")
    end, MENU_TOOLS_UNSORTED)
end

-- IKE in TCP (RFC 9329)
local has_tcp, tcp = pcall(require, "ikex.tcp")
if has_tcp and type(tcp) == "table" and tcp.register then
    tcp.register(function(name, tvb, pinfo)
        if pinfo.number > capture.queue.latest then
            capture.queue:heard(
                pinfo.number, pinfo.abs_ts, pinfo.len, name == "isakmp" and tvb:raw() or nil,
                tostring(pinfo.src), tostring(pinfo.dst), pinfo.src_port, pinfo.dst_port
            )
        end
    end)
end
