"""The formulas that a claim can name: functions of the project's models with numbers and names as arguments."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from ikeanalyze.model.esp.algorithms import EspError, parse_suite
from ikeanalyze.model.esp.operations import OPERATIONS_PER_BLOCK, T_MD5, count_hmac_md5_operations
from ikeanalyze.model.esp.overhead import EspProcessor, OverheadResult, compute_overhead, make_paper_query
from ikeanalyze.model.esp.packet_size import (
    EspConfig,
    EspEncapsulation,
    EspMode,
    compute_packet_size,
    compute_paper_ratio,
    compute_paper_size,
)
from ikeanalyze.model.esp.queue import make_pareto_sizes
from ikeanalyze.model.ranking.criteria import CriteriaError, load_criteria
from ikeanalyze.model.ranking.ranking import rank_alternatives
from ikeanalyze.papers import PaperError
from ikeanalyze.papers.certificates import compute_certificate_bytes, measure_signature_bytes
from ikeanalyze.papers.predictions import compute_prediction


def compute_formula(name: str, arguments: Mapping[str, Any], data: Path) -> float:
    """Return the value of a formula; `data` is the folder of the report's data.

    Raises:
        PaperError: there is no such formula, or it cannot be computed with these arguments.
    """
    formula = FORMULAS.get(name)
    if formula is None:
        raise PaperError(f"there is no formula {name}; there are: {', '.join(FORMULAS)}")
    signature = inspect.signature(formula)
    context = {"data": data} if "data" in signature.parameters else {}
    try:
        signature.bind(**arguments, **context)
    except TypeError as error:
        raise PaperError(f"the formula {name}: {error}") from None
    try:
        return float(formula(**arguments, **context))
    except (EspError, CriteriaError, LookupError) as error:
        raise PaperError(f"the formula {name}: {error}") from None


@cache
def _compute_paper_overhead() -> OverheadResult:
    return compute_overhead(make_paper_query())


def _get_processor(suite: str, mips: float) -> EspProcessor:
    return next(
        (each for each in _compute_paper_overhead().peers if (each.suite, each.mips) == (suite, mips)),
        None,
    ) or _fail(f"no {suite} at {mips:g} MIPS")


def _fail(text: str) -> Any:
    raise LookupError(text)


def _paper_size(suite: str, size: int) -> float:
    """Bytes of an IP packet with ESP, by the paper's formulas 9 to 11."""
    return compute_paper_size(suite, size)


def _paper_ratio(suite: str, size: int) -> float:
    """Payload divided by the bytes on the wire, by the paper's formula 12."""
    return compute_paper_ratio(suite, size)


def _tunnel_size(suite: str, size: int) -> float:
    """Bytes of an IP packet in ESP in UDP, tunnel mode, by RFC 4303 and RFC 3948."""
    return compute_packet_size(EspConfig(parse_suite(suite), EspMode.TUNNEL, EspEncapsulation.UDP), size).size


def _processor_ceiling(suite: str, mips: float) -> float:
    """Highest rate in kbit/s that a processor of the paper can protect."""
    return (_get_processor(suite, mips).ceiling_bps or _fail("unlimited")) / 1e3


def _saturating_mips(suite: str) -> float:
    """Speed of the processor, in MIPS, from which the channel of 2 Mbit/s limits the throughput and not the processor.

    Work per packet is constant, so the ceiling grows in proportion to the speed.
    """
    processor = _get_processor(suite, 500.0)
    channel_bps = _get_processor(suite, 500.0).throughput_bps or _fail("unlimited")
    return 500.0 * channel_bps / (processor.ceiling_bps or _fail("unlimited"))


def _mean_buffer(suite: str, mips: float, rate_kbps: float) -> float:
    """Mean kilobytes that wait for a processor of the paper at a rate of clear packets."""
    query = replace(make_paper_query(), sizes=(), mips=(mips,), rates=(rate_kbps * 1e3,))
    processor = next(each for each in compute_overhead(query).peers if each.suite == suite).waiting[0].processor
    if processor is None:
        raise LookupError("the processor is overloaded")
    return processor.waiting_packets * _mean_packet_size() / 1e3


def _mean_packet_size() -> float:
    """Mean bytes of the paper's Pareto distribution."""
    return make_pareto_sizes().mean


def _rate_growth(suite: str) -> float:
    """Mean packet size with ESP divided by that without."""
    return _compute_paper_overhead().grown[suite]


def _operations_per_block(cipher: str) -> float:
    """Operations of a block of DES, 3DES or MD5."""
    return {**OPERATIONS_PER_BLOCK, "md5": T_MD5}[cipher]


def _operations_of_md5(blocks: int) -> float:
    """Operations of HMAC-MD5 for a packet of this many blocks of 512 bits; 0: those that each packet needs."""
    return count_hmac_md5_operations(0) + T_MD5 * (blocks - 1)


def _paper_parts(suite: str, size: int, parts: str) -> float:
    """Bytes of parts of a packet in ESP in UDP, transport mode, joined by `+`: ip, carrier, esp, iv, trailer, icv..."""
    packet = compute_packet_size(EspConfig(parse_suite(suite), EspMode.TRANSPORT, EspEncapsulation.UDP), size)
    known = {field.name for field in fields(packet)}
    if unknown := set(parts.split("+")) - known:
        raise LookupError(f"a packet has no part {min(unknown)}")
    return float(sum(getattr(packet, part) for part in parts.split("+")))


def _rank_score(criteria: str, alternative: str) -> float:
    """Score of an alternative in a criteria file that `ikeanalyze rank` knows by name."""
    ranking = rank_alternatives(load_criteria(criteria), lambda values: _fail(f"{values.dataset} is not read here"))
    scores = {place.name: place.score for place in ranking.places}
    return scores[alternative]


#: The formulas by name. Those that begin with `esp-` are of Xenakis and Merakos, as `ikeanalyze overhead paper`.
FORMULAS: Final[Mapping[str, Callable[..., float]]] = {
    "esp-size": _paper_size,
    "esp-ratio": _paper_ratio,
    "esp-ceiling": _processor_ceiling,
    "esp-saturating-mips": _saturating_mips,
    "esp-buffer": _mean_buffer,
    "esp-mean-size": _mean_packet_size,
    "esp-growth": _rate_growth,
    "esp-block-operations": _operations_per_block,
    "esp-md5-operations": _operations_of_md5,
    "esp-parts": _paper_parts,
    "tunnel-size": _tunnel_size,
    "certificate-bytes": compute_certificate_bytes,
    "signature-bytes": measure_signature_bytes,
    "predict": compute_prediction,
    "rank-score": _rank_score,
}
