"""The table of processor times that `benchmarks.costs.table` prints."""

import json

from benchmarks.costs.table import format_table, read_costs


def write_case(folder, auth, exchange, measure, initiator_ms, responder_ms):
    """Write a manifest with a warm-up handshake, a failed one, and one with each of the times."""

    def handshake(first, second, *, warm_up=False, established=True):
        costs = {"initiator": {"processor_ms": first}, "responder": {"processor_ms": second}}
        return {"warm_up": warm_up, "established": established, "costs": costs}

    measured = [handshake(*times) for times in zip(initiator_ms, responder_ms, strict=True)]
    scenario = {"initiator.auth": auth, "ike.proposals": f"aes256gcm16-prfsha384-{exchange}", "measure": measure}
    handshakes = [handshake(99, 99, warm_up=True), handshake(88, 88, established=False), *measured]
    path = folder / f"{auth}-{measure}.manifest.json"
    path.write_text(json.dumps({"scenario": scenario, "handshakes": handshakes}))


def test_medians_and_ratios_of_two_runs(tmp_path):
    runs = []
    for number, ecdsa_ms in enumerate((6.0, 6.3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for measure, factor in (("keys", 2), ("costs", 1)):
            write_case(folder, "psk", "ecp256", measure, [2 * factor, 4 * factor, 3 * factor], [factor] * 3)
            write_case(folder, "ecdsa", "ecp384", measure, [ecdsa_ms * factor] * 3, [2.5 * factor] * 3)
        runs.append(read_costs(folder))
    rows = [[cell.strip() for cell in line.strip(" |\n").split("|")] for line in format_table(runs)]
    # the kind with the lower costs first; the interval of three values is not bounded, that of equal values is a point
    assert [row[:4] + row[5:6] + row[7:] for row in rows[1:]] == [
        ["psk, ecp256", "initiator", "3", "6.00", "3.00", "1.00", "1.00"],
        ["psk, ecp256", "responder", "3", "2.00", "1.00", "1.00", "1.00"],
        ["ecdsa, ecp384", "initiator", "3", "12.00", "6.00", "2.00", "2.10"],
        ["ecdsa, ecp384", "responder", "3", "5.00", "2.50", "2.50", "2.50"],
    ]
