"""Captures at both ends of a link of limited rate, as the lab records them."""

import json

from tests.analysis.analyse_captures import AROUND
from tests.craft import MS, Trace


def record_slow_link(folder, messages, *, up_kbps, down_kbps, delay_ms, work_ms):
    """Write the captures at both ends of a link of limited rate, with a manifest. Both hosts work for `work_ms`.

    The link is simulated here: frames of a message are sent at once, and leave the link one after another.
    """
    ends = {"initiator": Trace(), "responder": Trace()}
    time = 0  # ns
    for message in messages:
        sender, receiver = ("initiator", "responder")[:: 1 if message.from_initiator else -1]
        rate = up_kbps if message.from_initiator else down_kbps
        ends[sender].message(time, message, gap=0)
        for number, data in enumerate(message.datagrams, 1):
            time += round((AROUND + len(data)) * 8e6 / rate)
            ends[receiver].message(time + delay_ms * MS, message, gap=0, only=[number])
        time += (delay_ms + work_ms) * MS
    names = {"initiator": "slow.initiator.pcap", "responder": "slow.pcap"}
    for end, trace in ends.items():
        trace.write(folder / names[end])
    scenario = {"link.rtt_ms": 2 * delay_ms, "link.rate_up_kbps": up_kbps, "link.rate_down_kbps": down_kbps}
    files = {"capture": "slow.pcap", "captures": names}
    document = {"schema": "ikeanalyze.lab/1", "name": "slow", "scenario": scenario, "files": files}
    (folder / "slow.manifest.json").write_text(json.dumps(document))
    return [folder / name for name in names.values()]
