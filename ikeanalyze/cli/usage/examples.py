"""The examples at the end of each help text."""

from collections.abc import Mapping
from typing import Final

#: Command lines by the name of the command, without `ikeanalyze`; "": all commands.
EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        "ikeanalyze odd.pcap                  the same as: ikeanalyze report odd.pcap",
        "ikeanalyze report odd.pcap --keys charon.log -o odd.html",
        "ikeanalyze ladder odd.pcap --handshake 3",
    ),
    "report": (
        "ikeanalyze report odd.pcap",
        "ikeanalyze report odd.pcap --keys charon.log -o odd.html",
        "ikeanalyze report *.pcap --filter 'outcome:failed' --format csv",
        "ikeanalyze report *.pcap --fail-on failed,unanswered,no-handshake",
        "tcpdump -w - -c 1000 | ikeanalyze report -",
    ),
    "ladder": (
        "ikeanalyze ladder odd.pcap",
        "ikeanalyze ladder odd.pcap --handshake 3 --keys charon.log",
        "ikeanalyze ladder odd.pcap --filter 'rtx>4'",
    ),
    "view": ("ikeanalyze view odd.pcap", "ikeanalyze view odd.pcap --keys charon.log"),
    "live": ("ikeanalyze live -i eth0", "dumpcap -i eth0 -w - | ikeanalyze live -"),
    "decrypt": ("ikeanalyze decrypt odd.pcap --keys charon.log -o clear.pcapng",),
    "extract": (
        "ikeanalyze extract odd.pcap --handshake 3 -o three.pcapng",
        "ikeanalyze extract odd.pcap --filter 'outcome:failed' --with radius --annotate -o failed.pcapng",
        "ikeanalyze extract odd.pcap --split -o handshakes",
    ),
    "anonymize": (
        "ikeanalyze anonymize odd.pcap -o share.pcapng",
        "ikeanalyze anonymize odd.pcap --keys charon.log -o share.pcapng --write-keys share.keys.json",
    ),
    "keys": (
        "ikeanalyze keys charon.log",
        "ikeanalyze keys charon.log --to wireshark -o tables",
        "ikeanalyze keys charon.log --to json -o odd.keys.json",
        "ikeanalyze keys charon.log --embed odd.pcap -o keyed.pcapng",
    ),
    "verify": (
        "ikeanalyze verify odd.pcap --keys charon.log",
        "ikeanalyze verify odd.pcap --keys charon.log -o odd.json",
    ),
    "batch": (
        "ikeanalyze batch runs -o data",
        "ikeanalyze batch runs -o data --label '{config}/loss{loss:float}/{run:int}.pcapng'",
        "ikeanalyze batch runs -o data --keys keys --workers 4",
    ),
    "compare": (
        "ikeanalyze compare data --by config",
        "ikeanalyze compare data --by config --by loss --baseline classic -o page.html",
        "ikeanalyze compare data --by version --fail-on 'setup_ms>10%'",
    ),
    "predict": (
        "ikeanalyze predict odd.pcap --rtt 50",
        "ikeanalyze predict odd.pcap --rtt 10,50,600 --loss 0:0.2:0.05 -o page.html",
        "ikeanalyze predict odd.pcap --link geostationary --kem ml-kem-1024 --keys charon.log",
    ),
    "overhead": ("ikeanalyze overhead compute --suite aes128-sha256", "ikeanalyze overhead measure esp.pcap"),
    "overhead compute": ("ikeanalyze overhead compute", "ikeanalyze overhead compute --mode tunnel -o table.csv"),
    "overhead paper": ("ikeanalyze overhead paper", "ikeanalyze overhead paper --figures figures"),
    "overhead measure": ("ikeanalyze overhead measure esp.pcap", "ikeanalyze overhead measure esp.pcap -o esp.json"),
    "rank": (
        "ikeanalyze rank epc-authentication",
        "ikeanalyze rank epc-aka --print-example -o mine.toml",
        "ikeanalyze rank mine.toml --figures figures",
    ),
    "replay": (
        "ikeanalyze replay odd.pcap --target 192.0.2.1",
        "ikeanalyze replay odd.pcap --target 192.0.2.1 --mode reenact --credentials psk.toml",
    ),
    "doctor": ("ikeanalyze doctor", "ikeanalyze doctor --format json"),
    "wireshark": ("ikeanalyze wireshark install", "ikeanalyze wireshark status"),
    "wireshark install": ("ikeanalyze wireshark install", "ikeanalyze wireshark install --dry-run"),
    "wireshark uninstall": ("ikeanalyze wireshark uninstall",),
    "wireshark status": ("ikeanalyze wireshark status",),
    "paper": ("ikeanalyze paper list", "ikeanalyze paper check 004"),
    "paper list": ("ikeanalyze paper list",),
    "paper run": ("sudo ikeanalyze paper run 004 -n 20",),
    "paper render": ("ikeanalyze paper render 004",),
    "paper check": ("ikeanalyze paper check", "ikeanalyze paper check 004"),
    "paper compare": ("ikeanalyze paper compare ../other/reports 004",),
    "lab": ("sudo ikeanalyze lab doctor", "sudo ikeanalyze lab run scenario.toml -n 20 -o out"),
    "lab run": (
        "sudo ikeanalyze lab run scenario.toml -n 20 -o out",
        "sudo ikeanalyze lab run scenario.toml -o out --jobs 8 --resume",
        "sudo ikeanalyze lab run scenario.toml -o out --set responder.stack=libreswan",
    ),
    "lab doctor": ("sudo ikeanalyze lab doctor", "sudo ikeanalyze lab doctor scenario.toml"),
    "lab prepare": ("sudo ikeanalyze lab prepare",),
    "lab matrix": ("sudo ikeanalyze lab matrix -o matrix",),
}
