"""The plugin's files: how Wireshark loads them, and rules for all of them."""

import re
from random import Random

import pytest

from tests.craft import MS, Handshake, Trace, ike, ip, link, udp
from tests.dissectors.run_plugin import PLUGIN, fields, run_plugin
from tests.paths import CAPTURES

SCRIPTS = sorted(PLUGIN.rglob("*.lua"))
MODULES = [path for path in SCRIPTS if path.parent.name == "ikex"]


def test_the_plugin_loads_as_a_script_from_any_folder(tshark):
    """With -X lua_script, the modules are found in the folder of the script."""
    with tshark.room() as room:
        room.put("some/where", PLUGIN)
        options = ("-X", "lua_script:some/where/ikex.lua", "-Y", "ikex", "-Tfields", "-e", "ikex.exchange")
        done = room.run(*options, capture=CAPTURES / "psk-classic.pcap")
    assert (done.stderr, done.lines) == ("", ["IKE_SA_INIT", "IKE_SA_INIT", "IKE_AUTH", "IKE_AUTH"])


def test_one_pass_links_to_earlier_frames_only(tshark):
    """Links to earlier frames are filled in, links to later frames are not."""
    done = run_plugin(
        tshark,
        CAPTURES / "psk-classic.pcap",
        "-Y",
        "ikex",
        "-Tfields",
        "-e",
        "ikex.response_in",
        "-e",
        "ikex.request_in",
    )
    assert done.lines == ["\t", "\t1", "\t", "\t3"]


LINKS = {
    "Ethernet": (link.ethernet, link.ETHERNET),
    "VLAN": (lambda packet: link.ethernet(packet, vlans=[(0x8100, 5), (0x8100, 6)]), link.ETHERNET),
    "Linux cooked": (link.sll, link.SLL),
    "Linux cooked 2": (link.sll2, link.SLL2),
    "raw": (link.raw, link.RAW),
    "loopback": (link.null, link.NULL),
    "PPP over Ethernet": (link.pppoe, link.ETHERNET),
}


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("version", [4, 6])
def test_messages_are_complete_on_every_link_layer(tshark, name, version):
    """IPv4 and IPv6, with and without IP fragments."""
    frame, linktype = LINKS[name]
    hosts = ("192.0.2.1", "192.0.2.2") if version == 4 else ("2001:db8::1", "2001:db8:0:1::2")
    handshake = Handshake(Random(12), initiator=hosts[0], responder=hosts[1])
    messages = [*handshake.init(), *handshake.exchange(ike.IKE_AUTH, (2000, 300))]
    trace = Trace(frame=frame)
    trace.play(messages)
    capture = trace.pcap(linktype=linktype)
    done = run_plugin(tshark, capture, "-q", "-z", "ikex,handshakes")
    line = done.lines[2].split()
    assert line[3:5] == list(hosts)
    assert [line[5], line[6], line[8], line[9]] == ["2", "3", "2", "2"]
    assert int(line[7]) + int(line[10]) == sum(len(packet.data) for packet in trace.packets)
    assert line[13] == "completed"


def test_messages_after_extension_headers_and_on_configured_ports_are_found(tshark):
    """IPv6 with options before UDP; UDP ports of the preference."""
    [request, response, *_] = Handshake(Random(13)).setup()
    trace = Trace()
    options = ip.hop_by_hop()
    hosts = ("2001:db8::1", "2001:db8::2")
    trace.ip(0, ip.ipv6(udp(request.datagrams[0], 500, 500, *hosts), *hosts, extensions=[options]))
    trace.ip(MS, ip.ipv6(udp(response.datagrams[0], 500, 500, *hosts[::-1]), *hosts[::-1]))
    assert fields(tshark, trace.pcap(), "ikex.exchange") == [["IKE_SA_INIT"]] * 2
    trace = Trace()
    trace.send(0, request.datagrams[0], dport=5000, sport=6000)
    assert fields(tshark, trace.pcap(), "ikex.exchange") == []
    assert fields(tshark, trace.pcap(), "ikex.exchange", options=["ikex.ports:4999-5001"]) == [["IKE_SA_INIT"]]


def test_other_traffic_has_no_fields_of_the_plugin(tshark):
    assert fields(tshark, CAPTURES / "eap-md5-radius.pcapng", "frame.number", only="ikex && !isakmp") == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_use_what_all_versions_have(path):
    text = path.read_text()
    lines = text.splitlines()
    assert len(lines) <= 500
    assert max(map(len, lines)) <= 120
    assert not any(line.endswith(" ") or "\t" in line for line in lines)
    assert text.startswith("--")
    # tests for features, not for versions
    assert not re.search(r"get_version|\b_VERSION", text)
    # the common subset of Lua 5.2 and later
    code = re.sub(r'--\[\[.*?\]\]|--[^\n]*|"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'', "", text, flags=re.S)
    assert not re.search(r"//|>>|<<|\bgoto\b|bit32|string\.pack|utf8|\bsetfenv\b|loadstring", code)
    assert not re.search(r"(?<!~)[&|~](?!=)", code)


#: Loads each module, and prints its type and the globals that it defines.
LOADER = """
package.path = "./?.lua;" .. package.path
local before = {}
for name in pairs(_G) do before[name] = true end
for name in io.lines("modules") do
    print(name, type(dofile("ikex/" .. name)))
end
for name in pairs(_G) do
    if not before[name] and name ~= "before" then print("global", name) end
end
"""


def test_loading_a_module_has_no_side_effects(tshark):
    """Wireshark runs every file of the plugin folder when it starts: each module only returns a table."""
    names = [path.name for path in MODULES]
    files = {"ikex": PLUGIN / "ikex", "modules": "\n".join(names) + "\n"}
    done = tshark.run("-q", capture=CAPTURES / "psk-classic.pcap", lua=[LOADER], files=files)
    assert done.lines == [f"{name}\ttable" for name in names], done.stderr


def test_every_field_and_expert_info_is_documented():
    readme = (PLUGIN / "README.md").read_text()
    source = (PLUGIN / "ikex" / "fields.lua").read_text()
    names = re.findall(r'"(ikex\.[a-z_.]+)"', source)
    experts = re.findall(r'= expert\("([a-z_]+)"', source)
    assert len(names) > 30
    assert len(experts) > 10
    for name in [
        *names,
        *(f"ikex.expert.{name}" for name in experts),
        "ikex.keys",
        "ikex.table_keys",
        "ikex.dissect",
        "ikex.command",
    ]:
        if not name.endswith("."):
            assert f"`{name}`" in readme, name


def test_documented_fields_exist(tshark):
    documented = set(re.findall(r"`(ikex\.[a-z_.]+)`", (PLUGIN / "README.md").read_text()))
    done = tshark.run("-G", "fields", plugins=PLUGIN)
    existing = {line.split("\t")[2] for line in done.lines if line.startswith("F\t")}
    preferences = {"ikex.keys", "ikex.table_keys", "ikex.dissect", "ikex.ports", "ikex.info", "ikex.command"}
    assert documented - preferences - {"ikex.lua"} <= existing


def test_the_list_of_handshakes_is_as_narrow_as_a_window(tshark):
    """The window opens with 500 pixels; a row names the handshake by its number."""
    done = run_plugin(tshark, CAPTURES / "invalid-ke.pcap", "-q", "-z", "ikex,list")
    lines = [line for line in done.lines if line.strip()]
    assert lines[1].split() == ["no.", "SPIi", "retrans.", "set-up", "ms", "outcome", "remark"]
    assert [lines[2].split()[0], *lines[2].split()[4:]] == ["1", "completed", "+INVALID_KE_PAYLOAD"]
    assert max(map(len, lines)) <= 70
