"""Replays made by hand, for the renderers."""

from collections import Counter
from dataclasses import replace

from ikeanalyze.replay.fuzz import FuzzResult
from ikeanalyze.replay.initiator.interface import ExchangeStats, IgnoredDatagrams, InitiatorResult
from ikeanalyze.replay.responses import ResponseSummary
from ikeanalyze.replay.session.result import (
    ComparedExchange,
    ExchangeCost,
    FuzzReport,
    LivenessCheck,
    ReplayComparison,
    ReplayReport,
    ReplayRun,
    ReportFigures,
    RunTraffic,
)
from ikeanalyze.replay.session.verbatim import ReceivedResponse, ReplayedMessage, VerbatimResult
from ikeanalyze.replay.transport.interface import LocalEndpoint, TransportCounts

MS = 1_000_000
BEGAN = 1_700_000_000_000_000_000
TRAFFIC = RunTraffic(3, 700, 1, 100, 4 / 3)
COOKIE = ResponseSummary("IKE_SA_INIT", 0, True, "COOKIE", None, None, ("COOKIE",), ("N(COOKIE)",), None, 60)
ACCEPTED = ResponseSummary(
    "IKE_SA_INIT", 0, True, "accepted", "AES-GCM-16-256", "X25519", (), ("SA", "KE(X25519)", "No"), None, 280
)
ENCRYPTED = ResponseSummary("IKE_AUTH", 1, True, "encrypted", None, None, (), ("SK",), None, 224)
NAT = ("NAT_DETECTION_SOURCE_IP", "NAT_DETECTION_DESTINATION_IP")


def base(**more) -> ReplayReport:
    given = {
        "mode": "verbatim",
        "capture": "a.pcap",
        "handshake": 1,
        "target": "192.0.2.2:500",
        "way": "layer 3",
        "local": LocalEndpoint("192.0.2.1", bytes((192, 0, 2, 1)), 500, 4500),
        "rate": 10.0,
        "began_ns": BEGAN,
        "ended_ns": BEGAN + 2_000 * MS,
        "counts": TransportCounts(sent=3, received=1),
    } | more
    return ReplayReport(**given)


def verbatim() -> ReplayReport:
    arrived = ReceivedResponse(COOKIE, 1_500_000, ("answer: accepted recorded, COOKIE now", "only now: COOKIE"))
    sent = (
        ReplayedMessage(34, 0, False, ("SPIi", "nonce", *NAT), 2, 2, 544, BEGAN, ACCEPTED, [arrived]),
        ReplayedMessage(35, 1, False, (), 1, 1, 272, BEGAN, ENCRYPTED),
    )
    verbatim_result = VerbatimResult(b"\1" * 8, sent, 2, 1, 0, BEGAN, BEGAN + 2_000 * MS)
    return base(runs=(ReplayRun(1, TRAFFIC, b"\1" * 8, verbatim=verbatim_result),))


def result(**more) -> InitiatorResult:
    exchanges = (
        ExchangeStats(34, 0, 1, 2, 2, 400, 1, 200, 1, 200, 1, 200, 5 * MS, None),
        ExchangeStats(35, 1, 1, 1, 1, 300, 1, 300, 1, 250, 1, 250, 4 * MS, None),
    )
    given = {
        "established": True,
        "reason": None,
        "child_error": None,
        "deleted": True,
        "exchanges": exchanges,
        "ignored": IgnoredDatagrams(),
        "spi_i": b"\1" * 8,
        "spi_r": b"\2" * 8,
        "chosen": "AES-GCM-16-256/HMAC-SHA2-256/X25519",
        "authentication": ("PSK", "PSK"),
        "began_ns": BEGAN,
        "ended_ns": BEGAN + 15 * MS,
    } | more
    return InitiatorResult(**given)


def reenact() -> ReplayReport:
    reported = ReportFigures(4 / 3, 12 * MS, {("IKE_SA_INIT", 0, 1): 3 * MS})
    found = result(child_error="TS_UNACCEPTABLE", ignored=IgnoredDatagrams(repeated=2))
    run = ReplayRun(1, TRAFFIC, b"\1" * 8, result=found, reported=reported)
    rows = (
        ComparedExchange("IKE_SA_INIT", 0, 1, ExchangeCost(2, 600, 2 * MS, True), ExchangeCost(3, 800, 3 * MS, True)),
        ComparedExchange("IKE_AUTH", 1, 1, ExchangeCost(2, 500, 3 * MS, True), None),
    )
    compared = ReplayComparison(
        1,
        rows,
        (ExchangeCost(4, 1100, 6 * MS, True), ExchangeCost(3, 800, 12 * MS, True)),
        ("completed", "established"),
        ("AES-GCM-16-256", None),
        (1.0, 4 / 3),
    )
    return base(
        mode="reenact",
        way="UDP",
        local=LocalEndpoint("192.0.2.1", bytes((192, 0, 2, 1)), 61000, 61001),
        policy="strongswan",
        notes=("defaults, since the capture does not tell: identity_i",),
        counts=TransportCounts(3, 1, 3, "192.0.2.9:500", 1, Counter({500: 1}), "Connection refused"),
        runs=(run,),
        recording="live.pcapng",
        keys="live.keys.json",
        compared=(compared,),
    )


def many() -> ReplayReport:
    replay_run = ReplayRun(
        1,
        TRAFFIC,
        b"\1" * 8,
        result=result(ended_ns=BEGAN + 12 * MS),
        met=Counter({"drop 0.2": 2, "delay any:5ms": 2}),
        seed=5,
    )
    failed = result(established=False, reason="no answer")
    runs = (
        replay_run,
        replace(replay_run, number=2, result=failed, met=Counter({"drop 0.2": 1}), seed=6),
        replace(replay_run, number=3, result=failed, broken_off="not over after 5 s", met=Counter(), seed=7),
    )
    return base(mode="impair", policy="strongswan", faults=("drop 0.2", "delay any:5ms"), seed=5, runs=runs)


def mutated() -> ReplayReport:
    barrage = FuzzResult(
        20, Counter(bit=12, cut=5), Counter({"INVALID_SYNTAX": 9, "accepted": 2}), 1, BEGAN, BEGAN + MS
    )
    before = LivenessCheck(ReceivedResponse(ACCEPTED, MS, ()), 1, 0.1)
    after = LivenessCheck(ReceivedResponse(COOKIE, MS, ()), 3, 4.0)
    return base(handshake=None, seed=7, mutated=FuzzReport(before, barrage, after, 7))
