"""Payloads of the messages in charon's log, in the notation of our tables.

A line is `generating IKE_AUTH request 1 [ IDi CERT N(INIT_CONTACT) ... ]`, once per message, not per transmission.
"""

import re
from collections import Counter
from collections.abc import Iterable

import polars as pl

Message = tuple[str, str, int, tuple[str, ...]]
"""Exchange type, request or response, message ID, payloads."""

_LINE = re.compile(r"(generating|parsed) (\S+) (request|response) (\d+) \[ ?(.*?) ?\]$")
#: A fragment of a message that a line of its own has told of.
_FRAGMENT = re.compile(r"(EF|FRAG)\(")
_EXCHANGES = {
    "ID_PROT": "Main Mode",
    "AGGRESSIVE": "Aggressive Mode",
    "QUICK_MODE": "Quick Mode",
    "INFORMATIONAL_V1": "Informational",
    "TRANSACTION": "Transaction",
}
#: charon's short names of notifies.
_NOTIFIES = {
    "NATD_S_IP": "NAT_DETECTION_SOURCE_IP",
    "NATD_D_IP": "NAT_DETECTION_DESTINATION_IP",
    "HASH_ALG": "SIGNATURE_HASH_ALGORITHMS",
    "MULT_AUTH": "MULTIPLE_AUTH_SUPPORTED",
    "FRAG_SUP": "IKEV2_FRAGMENTATION_SUPPORTED",
    "MOBIKE_SUP": "MOBIKE_SUPPORTED",
    "ADD_4_ADDR": "ADDITIONAL_IP4_ADDRESS",
    "ADD_6_ADDR": "ADDITIONAL_IP6_ADDRESS",
    "NO_ADD_ADDR": "NO_ADDITIONAL_ADDRESSES",
    "UPD_SA_ADDR": "UPDATE_SA_ADDRESSES",
    "COOKIE": "COOKIE",
    "COOKIE2": "COOKIE2",
    "REDIR_SUP": "REDIRECT_SUPPORTED",
    "CHDLESS_SUP": "CHILDLESS_IKEV2_SUPPORTED",
    "MSG_ID_SYN_SUP": "IKEV2_MESSAGE_ID_SYNC_SUPPORTED",
    "EAP_ONLY": "EAP_ONLY_AUTHENTICATION",
    "INIT_CONTACT": "INITIAL_CONTACT",
    "IKE_INT_SUP": "INTERMEDIATE_EXCHANGE_SUPPORTED",
    "(16438)": "INTERMEDIATE_EXCHANGE_SUPPORTED",
    "ADD_KE": "ADDITIONAL_KEY_EXCHANGE",
    "REKEY_SA": "REKEY_SA",
    "INVAL_KE": "INVALID_KE_PAYLOAD",
    "NO_PROP": "NO_PROPOSAL_CHOSEN",
    "AUTH_FAILED": "AUTHENTICATION_FAILED",
    "TS_UNACCEPT": "TS_UNACCEPTABLE",
    "INVAL_IKE_SPI": "INVALID_IKE_SPI",
}
_IKEV1_NOTIFIES = {
    "INITIAL_CONTACT": "INITIAL-CONTACT",
    "PLD_MAL": "PAYLOAD-MALFORMED",
    "NO_PROP": "NO-PROPOSAL-CHOSEN",
    "AUTH_FAILED": "AUTHENTICATION-FAILED",
    "DPD": "R-U-THERE",
    "DPD_ACK": "R-U-THERE-ACK",
}
_IKEV1_PAYLOADS = {"CERTREQ": "CR", "CPRQ": "ATTR", "CPRP": "ATTR", "CPS": "ATTR", "CPA": "ATTR"}
_EAP_CODES = {"REQ": "Request", "RES": "Response", "SUCC": "Success", "FAIL": "Failure"}
_EAP_METHODS = {"ID": "Identity", "MD5": "MD5-Challenge", "MSCHAPV2": "MSCHAPv2", "TLS": "TLS"}


def generated(text: str, *, also: str = "generating") -> Counter[Message]:
    """The messages that a daemon made; `also`: "parsed" for those that it read."""
    result: Counter[Message] = Counter()
    for line in text.splitlines():
        match = _LINE.search(line)
        if match is None or match[1] not in ("generating", also) or _FRAGMENT.match(match[5]):
            continue
        _, exchange, kind, ident, listed = match.groups()
        ikev1 = exchange in _EXCHANGES
        # attributes stand in their payload's brackets, with blanks between
        names = re.findall(r"[^\s(]+(?:\([^()]*(?:\([^()]*\))?[^()]*\))?", listed)
        payloads = tuple(_ikev1_payload(name) if ikev1 else _payload(name) for name in names)
        result[_EXCHANGES.get(exchange, exchange), kind, int(ident), payloads] += 1
    return result


def _payload(name: str) -> str:
    if name.startswith("N("):
        return f"N({_NOTIFIES[name[2:-1]]})"
    if name.startswith("EAP/"):
        _, code, *method = name.split("/")
        return f"EAP({' '.join([_EAP_CODES[code], *(_EAP_METHODS[item] for item in method)])})"
    return name.partition("(")[0]


def _ikev1_payload(name: str) -> str:
    if name.startswith("N("):
        return f"N({_IKEV1_NOTIFIES[name[2:-1]]})"
    kind = name.partition("(")[0]
    return _IKEV1_PAYLOADS.get(kind, kind)


def looked_into(messages: pl.DataFrame) -> Counter[Message]:
    """The same of the messages table: each message once, without what a few words tell of its payloads beyond that."""
    first = messages.filter(pl.col("transmission") == 1, pl.col("payloads").is_not_null())
    return Counter(
        (row["type"], row["kind"], row["message_id"], tuple(map(_short, row["payloads"])))
        for row in first.iter_rows(named=True)
    )


def _short(text: str) -> str:
    """N(COOKIE) of N(COOKIE 24 bytes), EAP(Response Identity) of EAP(Response Identity carol), SA of SA."""
    kind, _, inside = text.removesuffix(")").partition("(")
    words = inside.split(" ")
    if kind == "N":
        return f"N({words[0]})"
    if kind == "EAP":
        return f"EAP({' '.join(words[:2])})"
    return kind


def differences(ours: Counter[Message], theirs: Iterable[Message]) -> tuple[list[Message], list[Message]]:
    """What is in the one alone, and in the other."""
    expected = Counter(theirs) if not isinstance(theirs, Counter) else theirs
    return sorted((ours - expected).elements()), sorted((expected - ours).elements())
