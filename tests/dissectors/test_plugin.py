"""The plugin's files: how Wireshark loads them, and rules for all of them."""

import re
from dataclasses import replace
from random import Random

import pytest

from tests.craft import MS, SECOND, Handshake, Interface, Trace, ike, ip, link, pcapng, udp
from tests.dissectors.key_files import keys_of
from tests.dissectors.run_plugin import PLUGIN, fields, run_plugin
from tests.paths import CAPTURES

SCRIPTS = sorted(PLUGIN.rglob("*.lua"))
MODULES = [path.relative_to(PLUGIN / "ikex").as_posix() for path in SCRIPTS if path.is_relative_to(PLUGIN / "ikex")]


def test_the_plugin_loads_as_a_script_from_any_folder(tshark):
    """With -X lua_script, the modules are found in the folder of the script."""
    with tshark.room() as room:
        room.put("some/where", PLUGIN)
        options = ("-X", "lua_script:some/where/ikex.lua", "-Y", "ikex", "-Tfields", "-e", "ikex.kind")
        done = room.run(*options, capture=CAPTURES / "psk-classic.pcap")
    assert (done.stderr, done.lines) == ("", ["request", "response", "request", "response"])


def test_a_second_copy_says_that_there_is_another_one(tshark):
    """Wireshark's own message names neither the plugin nor the copy that it uses."""
    with tshark.room() as room:
        plugins = room.put("home/.local/lib/wireshark/plugins", PLUGIN)
        room.put("copy", PLUGIN)
        options = ("-X", "lua_script:copy/ikex.lua", "-Y", "ikex", "-Tfields", "-e", "ikex.kind")
        done = room.run(*options, capture=CAPTURES / "psk-classic.pcap", own_config=False)
    assert f"\nikex is installed twice, and the copy in {plugins} is used. Remove one of them.\n" in done.stderr
    assert done.lines == ["request", "response", "request", "response"]


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


HOUR = 3600 * SECOND
LINKS = {
    "Ethernet": (link.ethernet, link.ETHERNET),
    "VLAN": (lambda packet: link.ethernet(packet, vlans=[(0x8100, 5), (0x8100, 6)]), link.ETHERNET),
    "Linux cooked": (link.sll, link.SLL),
    "Linux cooked 2": (link.sll2, link.SLL2),
    "raw": (link.raw, link.RAW),
    "loopback": (link.null, link.NULL),
    "PPP over Ethernet": (link.pppoe, link.ETHERNET),
}


HOSTS = {4: ("192.0.2.1", "192.0.2.2"), 6: ("2001:db8::1", "2001:db8:0:1::2")}


def test_messages_are_complete_on_every_link_layer(tshark):
    """IPv4 and IPv6, with and without IP fragments: a handshake on each of several interfaces, one after the other."""
    cases = [(name, hosts) for name in LINKS for hosts in HOSTS.values()]
    packets, sizes = [], []
    for number, (name, hosts) in enumerate(cases):
        handshake = Handshake(Random(number), initiator=hosts[0], responder=hosts[1])
        trace = Trace(frame=LINKS[name][0])
        trace.play([*handshake.init(), *handshake.exchange(ike.IKE_AUTH, (2000, 300))], at=number * HOUR)
        packets += [replace(packet, interface=number) for packet in trace.packets]
        sizes.append(sum(len(packet.data) for packet in trace.packets))
    capture = pcapng(packets, interfaces=[Interface(LINKS[name][1]) for name, _ in cases])
    done = run_plugin(tshark, capture, "-q", "-z", "ikex,handshakes")
    lines = [line.split() for line in done.lines[2:] if line.strip()]
    for (name, hosts), size, line in zip(cases, sizes, lines, strict=True):
        assert line[3:5] == list(hosts), name
        assert [line[5], line[6], line[8], line[9]] == ["2", "3", "2", "2"], name
        assert int(line[7]) + int(line[10]) == size, name
        assert line[13] == "completed", name


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


def test_filters_take_names_and_seconds(tshark):
    """As with Wireshark's own fields, filters compare numbers with names, and times in seconds."""
    capture = CAPTURES / "pq-mlkem768-psk.pcap"
    by_name = fields(tshark, capture, "frame.number", only='ikex.exchange == "IKE_INTERMEDIATE"')
    assert by_name
    assert by_name == fields(tshark, capture, "frame.number", only="ikex.exchange == 43")
    assert by_name == fields(tshark, capture, "frame.number", only="isakmp.exchangetype == 43")
    with_notify = fields(tshark, capture, "frame.number", only='ikex.notify == "NAT_DETECTION_SOURCE_IP"')
    assert with_notify == fields(tshark, capture, "frame.number", only="isakmp.exchangetype == 34")
    answered = fields(tshark, capture, "ikex.response_time", only="ikex.response_time > 0.0015")
    assert answered
    assert answered == [
        [time] for [time] in fields(tshark, capture, "ikex.response_time") if time and float(time) > 1.5
    ]


def test_a_click_on_a_payload_shows_its_bytes(tshark):
    """The KE payload of ML-KEM-768 is in the decrypted message, that of ECP-384 in the frame (RFC 7296, 3.4)."""
    name = "pq-mlkem768-psk.pcap"
    output = run_plugin(tshark, CAPTURES / name, "-2", "-Y", "ikex.payload == KE", "-Tpdml", keys=keys_of(name)).stdout
    shown = re.findall(r'name="ikex.payload" .* size="(\d+)" pos="(\d+)" show="KE" value="(\w{16})', output)
    # the next payload, flags, length, method and two reserved bytes
    assert [(int(size), value[4:]) for size, _, value in shown] == [
        (104, "006800140000"),
        (104, "006800140000"),
        (1192, "04a800240000"),
        (1096, "044800240000"),
    ]
    # after Ethernet, IPv4, UDP, the header of IKE and the SA payload; first in the decrypted message
    assert [int(position) for _, position, _ in shown] == [14 + 20 + 8 + 28 + 48] * 2 + [28, 28]


def test_other_traffic_has_no_fields_of_the_plugin(tshark):
    assert fields(tshark, CAPTURES / "eap-md5-radius.pcapng", "frame.number", only="ikex && !isakmp") == []


@pytest.mark.turns
@pytest.mark.parametrize("statistic", ["handshakes", "list", "details", "exchanges", "ladders", "diagnosis"])
def test_statistics_without_a_handshake_name_the_ports(tshark, statistic):
    """IKE may use a port that the plugin does not read."""
    [request, *_] = Handshake(Random(14)).setup()
    trace = Trace()
    trace.send(0, request.datagrams[0], dport=5000, sport=5000)
    command = ("-q", "-z", f"ikex,{statistic}")
    for capture in (Trace().pcap(), trace.pcap()):
        lines = [line for line in run_plugin(tshark, capture, *command).lines if line]
        assert lines == [
            "no handshake found; if IKE uses another port, name it in the preference ikex.ports (UDP) or iketcp.ports (TCP)"
        ]
    lines = run_plugin(tshark, trace.pcap(), *command, options=["ikex.ports:5000"]).lines
    assert not any("no handshake" in line for line in lines)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_use_what_all_versions_have(path):
    text = path.read_text()
    lines = text.splitlines()
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
    files = {"ikex": PLUGIN / "ikex", "modules": "\n".join(MODULES) + "\n"}
    done = tshark.run("-q", capture=CAPTURES / "psk-classic.pcap", lua=[LOADER], files=files)
    assert done.lines == [f"{name}\ttable" for name in MODULES], done.stderr


def test_every_field_and_expert_info_is_documented():
    readme = (PLUGIN / "README.md").read_text()
    source = (PLUGIN / "ikex" / "fields.lua").read_text()
    names = re.findall(r'(?<!require\()"(ikex\.[a-z_.]+)"', source)
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
    assert lines[0] == "IKE handshakes, counts of the set-up; filter: ikex.handshake == 1"
    assert lines[1].split() == ["no.", "SPIi", "retx", "set-up", "ms", "outcome", "remark"]
    assert [lines[2].split()[0], *lines[2].split()[4:]] == ["1", "completed", "+INVALID_KE_PAYLOAD"]
    assert max(map(len, lines)) <= 70


def test_the_details_of_handshakes_are_as_narrow_as_a_window(tshark):
    """The SPIs, hosts and sums of the table, and its remark."""
    done = run_plugin(tshark, CAPTURES / "invalid-ke.pcap", "-q", "-z", "ikex,details", "-z", "ikex,handshakes")
    lines = [line for line in done.lines if line]
    start = lines.index("Handshake 1: completed")  # tshark prints the last statistics first
    assert lines[start - 1] == "IKE handshakes, counts of the set-up"
    values = dict(re.split(r" {2,}", line.strip()) for line in lines[start + 1 :])
    [row] = [line.split() for line in lines[: start - 1] if line.split()[0] == "1"]
    assert values["SPIi, SPIr"] == ", ".join(row[1:3])
    assert [values["initiator"], values["responder"]] == row[3:5]
    sent = [re.findall(r"\d+", values[f"from {side}"]) for side in ("initiator", "responder")]
    assert sent == [row[5:8], row[8:11]]
    assert [values["retransmitted"], values["set-up"]] == [f"{row[11]} messages", f"{row[12]} ms"]
    assert values["remark"] == "+INVALID_KE_PAYLOAD"
    assert max(map(len, lines[start:])) <= 70
