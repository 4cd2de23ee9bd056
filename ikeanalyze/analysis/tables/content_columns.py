"""Columns of the tables that come out of the messages' contents."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages
from ikeanalyze.analysis.decryption.handshake_contents import CaptureContents, HandshakeContents
from ikeanalyze.analysis.decryption.key_exchanges import KeyExchangeRow
from ikeanalyze.analysis.exchanges.radius import RadiusMessages
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.ikev1.describe import describe_ikev1_payloads
from ikeanalyze.wire.ikev2.describe import describe_payloads
from ikeanalyze.wire.ikev2.key_exchange import get_key_exchange_name
from ikeanalyze.wire.x509.certificates import ParsedCertificate


def build_match_column(count: int, extra: int, radius: RadiusMessages) -> pl.Series:
    """How each RADIUS packet was given to its exchange; null for the `count` messages of IKE before them."""
    words: list[str | None] = [None] * (count + extra)
    for pair in radius.pairs:
        for row in pair.requests + pair.responses:
            words[count + row] = pair.matched_by
    return pl.Series(words, dtype=pl.String)


def build_message_content_columns(
    ike: MessageColumns, extra: int, ids: Int64Array, insides: CaptureContents
) -> dict[str, Any]:
    """Columns of the messages table, those of IKE and HIP before the `extra` RADIUS packets; `ids` are theirs."""
    contents = insides.contents
    count = len(ike)
    nobody = np.zeros(extra, np.bool_)
    index = np.concatenate([contents.of_message, np.full(extra, -1)])
    opened = np.concatenate([contents.decrypted, nobody])
    epochs = np.array([*(-1 if one.epoch is None else one.epoch for one in contents.all), -1])[index]
    verified = np.array([*(bool(one.verified) for one in contents.all), False])[index]
    names = pl.Series([*map(list_payload_names, contents.all), None], dtype=schema.MESSAGES["payloads"])
    named = names.gather(np.where(index < 0, len(contents.all), index))
    if insides.parameters:
        lists = named.to_list()
        for row, parameters in insides.parameters.items():
            lists[row] = parameters
        named = pl.Series(lists, dtype=schema.MESSAGES["payloads"])
    same = np.full(count + extra, -1)
    for pair in insides.same_eap:
        same[pair.message], same[count + pair.unit] = ids[count + pair.unit], ids[pair.message]
    return {
        "decrypted": (opened, np.concatenate([contents.encrypted, nobody])),
        "epoch": (epochs, epochs >= 0),
        "verified": (verified, opened),
        "payloads": named,
        "same_eap": (same, same >= 0),
    }


def build_exchange_content_columns(
    count: int, exchange_of_message: Int64Array, contents: DecodedMessages
) -> dict[str, Any]:
    """Columns of the exchanges table: what could be decrypted, of all that the capture has of an exchange."""
    sealed = np.bincount(exchange_of_message[contents.encrypted], minlength=count)
    opened = np.bincount(exchange_of_message[contents.decrypted], minlength=count)
    epochs = np.full(count, -1)
    for one in contents.all:
        if one.epoch is not None:
            epochs[one.exchange] = one.epoch
    return {"epoch": (epochs, epochs >= 0), "decrypted": (sealed == opened, sealed > 0)}


def build_handshake_content_columns(
    count: int,
    inside: Mapping[int, HandshakeContents],
    replaces: Mapping[int, int],
    handshake_ids: Int64Array,
    exchange_ids: Int64Array,
) -> dict[str, Any]:
    """Columns of the handshakes table; the ids are those of each row."""
    some = [inside.get(row) for row in range(count)]
    before = np.array([replaces.get(row, -1) for row in range(count)], np.int64)

    def series(name: str, values: list[Any]) -> pl.Series:
        return pl.Series(values, dtype=schema.HANDSHAKES[name])

    return {
        "replaces": (handshake_ids[before], before >= 0),
        "child_error": series("child_error", [one and one.proof.child_error for one in some]),
        "payload_bytes": series(
            "payload_bytes",
            [one and [{"payload": part, "bytes": size} for part, size in one.payload_bytes.items()] for one in some],
        ),
        "key_exchanges": series(
            "key_exchanges",
            [one and [_key_exchange(row, exchange_ids) for row in one.key_exchanges] for one in some],
        ),
        "certificates": series(
            "certificates",
            [one and [_certificate(sent, view) for sent, view in one.certificates] for one in some],
        ),
    }


def list_payload_names(content: DecodedMessage) -> list[str]:
    """The payloads of a message in a few words each."""
    if content.protocol == Protocol.IKEV1:
        return describe_ikev1_payloads(content.payloads)
    return describe_payloads(content.payloads)


def _key_exchange(row: KeyExchangeRow, exchange_ids: Int64Array) -> dict[str, Any]:
    request, response = row.request, row.response
    return {
        "exchange": int(exchange_ids[row.exchange]),
        "purpose": row.purpose,
        "slot": row.slot,
        "method": get_key_exchange_name(row.method),
        "id": row.method,
        "linked_to": row.linked_to,
        "request": request and request.name,
        "request_bytes": request and request.bytes,
        "response": response and response.name,
        "response_bytes": response and response.bytes,
        "findings": [what for part in (request, response) if part is not None for what in part.findings],
    }


def _certificate(sent_by_initiator: bool, view: ParsedCertificate) -> dict[str, Any]:
    x509 = view.x509
    return {
        "side": "initiator" if sent_by_initiator else "responder",
        "name": view.name,
        "key": view.key and view.key.name,
        "signature": x509 and x509.signature.name,
        "bytes": view.size,
        "key_bytes": x509 and x509.key_bytes,
        "signature_bytes": x509 and x509.signature_bytes,
        "other_bytes": x509 and x509.other_bytes,
    }
