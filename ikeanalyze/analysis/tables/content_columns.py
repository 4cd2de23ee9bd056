"""Builds the columns of the tables that come from decoded messages."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages
from ikeanalyze.analysis.decryption.handshake_contents import CaptureContents, HandshakeContents
from ikeanalyze.analysis.decryption.key_exchanges import KeyExchangeRow
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.ikev1.describe import describe_ikev1_payloads
from ikeanalyze.wire.ikev2.describe import describe_payloads
from ikeanalyze.wire.ikev2.key_exchange import get_key_exchange_name
from ikeanalyze.wire.x509.certificates import ParsedCertificate


def build_message_content_columns(
    ike: MessageColumns, extra: int, ids: Int64Array, capture_contents: CaptureContents
) -> dict[str, Any]:
    """Columns of the messages table: IKE and HIP, then `extra` RADIUS packets; `ids` are the ids of all rows."""
    contents = capture_contents.contents
    count = len(ike)
    not_radius = np.zeros(extra, np.bool_)
    index = np.concatenate([contents.of_message, np.full(extra, -1)])
    decrypted = np.concatenate([contents.decrypted, not_radius])
    epochs = np.array([*(-1 if content.epoch is None else content.epoch for content in contents.all), -1])[index]
    verified = np.array([*(bool(content.verified) for content in contents.all), False])[index]
    distinct = pl.Series([*map(list_payload_names, contents.all), None], dtype=schema.MESSAGES["payloads"])
    payloads = distinct.gather(np.where(index < 0, len(contents.all), index))
    if capture_contents.parameters:
        lists = payloads.to_list()
        for row, parameters in capture_contents.parameters.items():
            lists[row] = parameters
        payloads = pl.Series(lists, dtype=schema.MESSAGES["payloads"])
    same = np.full(count + extra, -1)
    for pair in capture_contents.same_eap:
        same[pair.message], same[count + pair.unit] = ids[count + pair.unit], ids[pair.message]
    return {
        "decrypted": (decrypted, np.concatenate([contents.encrypted, not_radius])),
        "epoch": (epochs, epochs >= 0),
        "verified": (verified, decrypted),
        "payloads": payloads,
        "same_eap": (same, same >= 0),
    }


def build_exchange_content_columns(
    count: int, exchange_of_message: Int64Array, contents: DecodedMessages
) -> dict[str, Any]:
    """Columns of the exchanges table: the epoch, and whether all encrypted messages were decrypted."""
    encrypted = np.bincount(exchange_of_message[contents.encrypted], minlength=count)
    decrypted = np.bincount(exchange_of_message[contents.decrypted], minlength=count)
    epochs = np.full(count, -1)
    for content in contents.all:
        if content.epoch is not None:
            epochs[content.exchange] = content.epoch
    return {"epoch": (epochs, epochs >= 0), "decrypted": (encrypted == decrypted, encrypted > 0)}


def build_handshake_content_columns(
    count: int,
    contents: Mapping[int, HandshakeContents],
    replaces: Mapping[int, int],
    handshake_ids: Int64Array,
    exchange_ids: Int64Array,
) -> dict[str, Any]:
    """Columns of the handshakes table; `handshake_ids` and `exchange_ids` are the ids of rows."""
    all_facts = [contents.get(row) for row in range(count)]
    before = np.array([replaces.get(row, -1) for row in range(count)], np.int64)

    columns: dict[str, list[Any]] = {
        "child_error": [facts and facts.proof.child_error for facts in all_facts],
        "payload_bytes": [
            facts and [{"payload": part, "bytes": size} for part, size in facts.payload_bytes.items()]
            for facts in all_facts
        ],
        "key_exchanges": [
            facts and [_key_exchange(row, exchange_ids) for row in facts.key_exchanges] for facts in all_facts
        ],
        "certificates": [facts and [_certificate(*entry) for entry in facts.certificates] for facts in all_facts],
    }
    return {
        "replaces": (handshake_ids[before], before >= 0),
        **{name: pl.Series(values, dtype=schema.HANDSHAKES[name]) for name, values in columns.items()},
    }


def list_payload_names(content: DecodedMessage) -> list[str]:
    """A short description of each payload of a message."""
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
        "findings": [text for part in (request, response) if part is not None for text in part.findings],
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
