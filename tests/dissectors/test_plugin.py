"""The plugin's files: how they load, and what they have in common."""

import re

import pytest

from tests.dissectors.asked import CAPTURES, PLUGIN, ask, fields

SCRIPTS = sorted(PLUGIN.rglob("*.lua"))
MODULES = [path for path in SCRIPTS if path.parent.name == "ikex"]


def test_as_a_script_from_anywhere(tshark):
    """-X lua_script: the modules are found beside the script."""
    with tshark.room() as room:
        room.put("some/where", PLUGIN)
        words = ("-X", "lua_script:some/where/ikex.lua", "-Y", "ikex", "-Tfields", "-e", "ikex.exchange")
        done = room.run(*words, capture=CAPTURES / "psk-classic.pcap")
    assert (done.stderr, done.lines) == ("", ["IKE_SA_INIT", "IKE_SA_INIT", "IKE_AUTH", "IKE_AUTH"])


def test_in_one_pass(tshark):
    """What comes later is not known then, what was before is."""
    done = ask(
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


def test_nothing_for_other_traffic(tshark):
    assert fields(tshark, CAPTURES / "eap-md5-radius.pcapng", "frame.number", only="ikex && !isakmp") == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_habits(path):
    text = path.read_text()
    lines = text.splitlines()
    assert len(lines) <= 500
    assert max(map(len, lines)) <= 140
    assert not any(line.endswith(" ") or "\t" in line for line in lines)
    assert text.startswith("--")
    # features are asked for, not versions
    assert not re.search(r"get_version|\b_VERSION", text)
    # the common subset of Lua 5.2 and later
    code = re.sub(r'--\[\[.*?\]\]|--[^\n]*|"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'', "", text, flags=re.S)
    assert not re.search(r"//|>>|<<|\bgoto\b|bit32|string\.pack|utf8|\bsetfenv\b|loadstring", code)
    assert not re.search(r"(?<!~)[&|~](?!=)", code)


#: Loads each module and tells what it left behind.
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


def test_modules_do_nothing_by_themselves(tshark):
    """Wireshark runs every file of the folder when it starts: alone, each only gives a table."""
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
        *(f"ikex.expert.{one}" for one in experts),
        "ikex.keys",
        "ikex.table_keys",
        "ikex.dissect",
    ]:
        if not name.endswith("."):
            assert f"`{name}`" in readme, name


def test_documented_fields_exist(tshark):
    known = set(re.findall(r"`(ikex\.[a-z_.]+)`", (PLUGIN / "README.md").read_text()))
    done = tshark.run("-G", "fields", plugins=PLUGIN)
    there = {line.split("\t")[2] for line in done.lines if line.startswith("F\t")}
    preferences = {"ikex.keys", "ikex.table_keys", "ikex.dissect"}
    assert known - preferences - {"ikex.lua"} <= there
