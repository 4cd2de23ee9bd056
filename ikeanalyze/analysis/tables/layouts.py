"""The four tables: what one row is, and every column with its type and unit.

This is the contract between the steps of the analysis, the renderers and whoever reads the Parquet files. Times are
integers in nanoseconds (`*_ns`; points in time count from 1970-01-01 UTC), except the lab's figures, which are
milliseconds as in its manifest (`*_ms`). Bytes are frame lengths on the wire with the link header, null means unknown.
A column without a meaning is one that its name describes.
SPIs are unsigned integers in `frames` and `messages` (a million rows) and 16 hex digits in `handshakes`.
"""

from typing import Final

from ikeanalyze.analysis.tables.column_types import (
    BOOLEAN,
    CATEGORY,
    FLOAT64,
    INT64,
    TEXT,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Column,
    EnumType,
    Layout,
    ListType,
    StructType,
    get_column_types,
)

PROTOCOLS: Final = EnumType(("IKEv2", "IKEv1", "RADIUS", "HIP"))
ENCAPSULATIONS: Final = EnumType(("UDP 500", "UDP 4500", "TCP 4500", "UDP", "IP"))
SENDERS: Final = EnumType(("initiator", "responder", "aaa"))
KINDS: Final = EnumType(("request", "response"))
OUTCOMES: Final = EnumType(("established", "completed", "failed", "unanswered", "half-open", "cut"))
#: Outcomes of handshakes that succeeded, as far as the capture shows.
SUCCESSES: Final = ("established", "completed")
#: Outcomes of those that did not. One that is cut may have succeeded.
FAILURES: Final = ("failed", "unanswered", "half-open")
VANTAGES: Final = EnumType(("initiator", "responder", "unknown"))

#: One row is one frame that carries (a part of) an IKE, RADIUS or HIP message. A TCP segment that carries parts of
#: several IKE messages has a row for each; its bytes are split between them, so that sums stay right.
FRAME_COLUMNS: Final[dict[str, Column]] = {
    "capture": Column(CATEGORY, "path of the capture as it was given"),
    "number": Column(UINT32, "of the packet in its capture, from 1, as Wireshark counts"),
    "time_ns": Column(INT64),
    "interface": Column(UINT32, "of the capture (pcapng: counted from 0 over all sections)"),
    "bytes": Column(UINT32, "length on the wire, link header included"),
    "captured": Column(UINT32, "bytes of it that are in the file"),
    "protocol": Column(PROTOCOLS),
    "encapsulation": Column(ENCAPSULATIONS, '"UDP": another port that was asked for; "IP": HIP as IP protocol 139'),
    "source": Column(CATEGORY),
    "source_port": Column(UINT16),
    "destination": Column(CATEGORY),
    "destination_port": Column(UINT16),
    "tunnel": Column(CATEGORY, 'that the frame is in: "vxlan:42", "mpls:100/gre:7" (the outer one first); null: none'),
    "ttl": Column(UINT8, "IPv4 time to live or IPv6 hop limit"),
    "ip_id": Column(UINT32, "null in an unfragmented IPv6 packet"),
    "ip_fragment": Column(BOOLEAN, "the IP packet was fragmented: several frames are one datagram"),
    "capture_duplicate": Column(BOOLEAN, "the same frame, captured once more on its way through this machine"),
    "spi_i": Column(UINT64, "IKE SPIs, IKEv1 cookies; null for RADIUS and HIP"),
    "spi_r": Column(UINT64),
    "next_payload": Column(UINT8),
    "exchange_type": Column(UINT8, "IKE: exchange type; RADIUS: code; HIP: packet type"),
    "flags": Column(UINT8),
    "message_id": Column(UINT32, "IKE: message ID; RADIUS: identifier"),
    "ike_bytes": Column(UINT32, "length of the message by its own header, non-ESP marker and framing not included"),
    "fragment": Column(UINT16, "RFC 7383 fragment number (or that of an IKEv1 fragment); null: not fragmented by IKE"),
    "fragments": Column(UINT16, "RFC 7383 total; null where the protocol does not tell"),
    "digest": Column(
        UINT64,
        "XXH3-64 of the message's bytes in this frame (all of the datagram where IP fragmented it)",
    ),
    "message": Column(UINT32, "row of `messages` that this frame belongs to"),
    "handshake": Column(UINT32, "id in `handshakes`; null: belongs to none (RADIUS that fits no handshake or several)"),
}

#: One row is one IKE (RADIUS, HIP) message each time that it is sent: its first transmission or one of its
#: retransmissions.
MESSAGE_COLUMNS: Final[dict[str, Column]] = {
    "capture": Column(CATEGORY),
    "message": Column(UINT32, "id, unique in the report; in order of first_ns"),
    "handshake": Column(UINT32),
    "exchange": Column(UINT32, "id in `exchanges`"),
    "protocol": Column(PROTOCOLS),
    "type": Column(CATEGORY, "exchange type by name (RADIUS: code by name; HIP: packet type by name)"),
    "message_id": Column(UINT32, "HIP: the number of an UPDATE, a count of packets that are never answered, else 0"),
    "sender": Column(SENDERS, 'initiator and responder of the IKE SA; "aaa" answers the responder\'s RADIUS requests'),
    "kind": Column(KINDS),
    "set_up": Column(BOOLEAN, "belongs to what sets the IKE SA up"),
    "transmission": Column(UINT32, "1: first, 2...: retransmission"),
    "first_frame": Column(UINT32, "number of its first frame"),
    "first_ns": Column(INT64, "time of its first frame"),
    "last_ns": Column(INT64, "time of its last frame; not of IP fragments that the network doubled"),
    "frames": Column(UINT32),
    "bytes": Column(UINT64),
    "needed_bytes": Column(UINT64, "bytes of those of its fragments that no earlier transmission had already carried"),
    "fragments": Column(UINT16, "RFC 7383 total; null: not fragmented"),
    "fragments_seen": Column(UINT16, "fragments of this transmission that the capture has whole; null: not fragmented"),
    "ip_fragments": Column(UINT32, "frames that are IP fragments"),
    "digest": Column(UINT64, "equal digests, SPIs, message ID and direction: the same message"),
    "decrypted": Column(BOOLEAN, "null: no keys were given, or it was not encrypted"),
    "epoch": Column(UINT32, "of the keys that it was encrypted with; null: not decrypted, or IKEv1"),
    "verified": Column(BOOLEAN, "the ICV is correct; false: there was none to check; null: not decrypted"),
    "payloads": Column(ListType(TEXT), "in a few words each, in order (HIP: parameters); null: not decoded"),
    "same_eap": Column(UINT32, "id of the RADIUS packet or IKE message that has the same EAP message, byte by byte"),
    "matched_by": Column(TEXT, 'how a RADIUS packet was given to its exchange: "EAP" (byte by byte) or "time"'),
}

#: One row is one request and its response, all their transmissions included. A request repeated with another body
#: (COOKIE, INVALID_KE_PAYLOAD, REDIRECT) begins a row of its own. IKEv1 has no such pairs: main mode's six messages are
#: three rows, the third message of aggressive and quick mode and each informational message is a row without response.
#: HIP has I1-R1, I2-R2, UPDATE and CLOSE-CLOSE_ACK; the third UPDATE of three and each NOTIFY is a row without
#: response.
EXCHANGE_COLUMNS: Final[dict[str, Column]] = {
    "capture": Column(CATEGORY),
    "exchange": Column(UINT32, "id, unique in the report"),
    "handshake": Column(UINT32),
    "type": Column(CATEGORY),
    "message_id": Column(UINT32),
    "attempt": Column(UINT32, "1, or more where the request was repeated with another body"),
    "initiated_by": Column(SENDERS),
    "set_up": Column(BOOLEAN),
    "extra_round_trip": Column(
        TEXT, "notify by which the other side asked for another request: COOKIE, INVALID_KE_PAYLOAD, ..."
    ),
    "request_messages": Column(UINT32, "transmissions; null: no request in the capture"),
    "request_frames": Column(UINT32),
    "request_bytes": Column(UINT64),
    "request_ns": Column(INT64, "time of the first frame of the first transmission"),
    "response_messages": Column(UINT32, "null: no response in the capture"),
    "response_frames": Column(UINT32),
    "response_bytes": Column(UINT64),
    "response_ns": Column(INT64),
    "rtt_ns": Column(INT64, "from the answered transmission of the request to the response that ended the exchange"),
    "wait_ns": Column(INT64, "from the first transmission of the request to the one that was answered"),
    "end_ns": Column(INT64, "last frame of the response that ended the exchange; null: unanswered"),
    "epoch": Column(UINT32, "null: no keys were given"),
    "decrypted": Column(BOOLEAN, "null: no keys were given"),
}

#: One cause in `diagnosis` of handshakes.
DIAGNOSIS_FIELDS: Final[dict[str, Column]] = {
    "code": Column(TEXT, "see docs/diagnosis.md"),
    "effect": Column(TEXT, '"unreliable", "stopped", "refused", "disconnected", "slowed" or "weakened"'),
    "confidence": Column(TEXT, '"certain" or "consistent with"'),
    "message": Column(TEXT, "one sentence for people"),
    "exchange": Column(TEXT, "the IKE message that it concerns: exchange type"),
    "message_id": Column(UINT32),
    "sender": Column(TEXT),
    "kind": Column(TEXT, '"request" or "response"'),
    "frames": Column(ListType(UINT32), "numbers of the packets that are the evidence"),
    "remedy": Column(TEXT, "what to try"),
    "rfc": Column(TEXT),
}
#: One key exchange in `key_exchanges` of handshakes.
KEY_EXCHANGE_FIELDS: Final[dict[str, Column]] = {
    "exchange": Column(UINT32, "id"),
    "purpose": Column(TEXT, '"IKE SA", "CHILD_SA", "rekeying" (of the IKE SA), "not known"'),
    "slot": Column(UINT8, "0, or 1 to 7 of the additional ones"),
    "method": Column(TEXT),
    "id": Column(UINT16),
    "linked_to": Column(UINT32, "IKE_FOLLOWUP_KE: message ID of its CREATE_CHILD_SA"),
    "request": Column(TEXT, 'what the request\'s data are: "public value", "encapsulation key"'),
    "request_bytes": Column(UINT32),
    "response": Column(TEXT, '"public value", "ciphertext"'),
    "response_bytes": Column(UINT32),
    "findings": Column(ListType(TEXT), "problems that the checks found; empty: all checks passed"),
}
#: One certificate in `certificates` of handshakes.
CERTIFICATE_FIELDS: Final[dict[str, Column]] = {
    "side": Column(TEXT, "who sent it"),
    "name": Column(TEXT, "kind, subject, key"),
    "key": Column(TEXT, "algorithm and size"),
    "signature": Column(TEXT, "algorithm of the issuer's signature"),
    "bytes": Column(UINT32),
    "key_bytes": Column(UINT32, "the three add up to `bytes`"),
    "signature_bytes": Column(UINT32),
    "other_bytes": Column(UINT32),
}

#: One row is one IKE SA from its first IKE_SA_INIT to the last IKE_AUTH, or to its failure; phase 1 and the first quick
#: mode of IKEv1; one HIP host association, I1 to R2; or one IKE SA that replaced another one (`rekeyed`). Counts are of
#: the set-up alone unless the name of the column begins with `after_setup`.
HANDSHAKE_COLUMNS: Final[dict[str, Column]] = {
    "capture": Column(CATEGORY),
    "handshake": Column(UINT32, "id, from 1, in order of start_ns within a capture"),
    "protocol": Column(PROTOCOLS),
    "spi_i": Column(TEXT, "16 hex digits; null: HIP has none"),
    "spi_r": Column(TEXT, "16 hex digits; zeros: no responder SPI was seen; null: HIP"),
    "initiator_hit": Column(TEXT, "HIP: host identity tag, written as an IPv6 address; null: IKE"),
    "responder_hit": Column(TEXT, "null also: opportunistic mode that got no answer"),
    "initiator_address": Column(TEXT),
    "initiator_port": Column(UINT16),
    "responder_address": Column(TEXT),
    "responder_port": Column(UINT16),
    "nat": Column(
        TEXT,
        '"none", "initiator", "responder", "both": who is behind a NAT; null: the capture does not tell',
    ),
    "tunnel": Column(
        TEXT,
        "that its frames are in, as in `frames`; several, as of both directions, are separated by commas",
    ),
    "start_ns": Column(INT64),
    "end_ns": Column(INT64),
    "rekeyed": Column(BOOLEAN, "an IKE SA that replaced another one: not a handshake, not counted as one"),
    "outcome": Column(OUTCOMES, "null: an IKE SA that replaced another one, and its rekeying was not decrypted"),
    "reason": Column(
        TEXT,
        'Error notify, "Access-Reject", "AAA server silent" (it never answered, and the responder gave up), "EAP '
        'failure" or "XAUTH_STATUS failure"; "COOKIE" or "INVALID_KE_PAYLOAD" where the initiator did not follow '
        'it; "REKEYED": the IKE SA replaced another one, so it had no IKE_SA_INIT.',
    ),
    "auth_initiator": Column(TEXT),
    "auth_responder": Column(TEXT),
    "auth_eap": Column(TEXT),
    "auth_guessed": Column(BOOLEAN),
    "encryption": Column(TEXT),
    "prf": Column(TEXT),
    "integrity": Column(TEXT),
    "key_exchange": Column(TEXT),
    "additional_key_exchanges": Column(ListType(StructType({"slot": UINT8, "method": TEXT, "id": UINT16}))),
    "offered": Column(ListType(TEXT), "proposals in the initiator's order"),
    "initiator_supports": Column(ListType(TEXT), "notifies and vendor IDs of IKE_SA_INIT, by name"),
    "responder_supports": Column(ListType(TEXT)),
    "initiator_init_truncated": Column(
        BOOLEAN,
        "The capture has only the beginning of this side's IKE_SA_INIT message (of IKEv1: of a clear message of phase 1): "
        "*_supports may lack some, and lists of which nothing was read are null; null: not in the capture, or HIP.",
    ),
    "responder_init_truncated": Column(BOOLEAN),
    "initiator_messages": Column(UINT32, "link initiator-responder, sent by the initiator"),
    "initiator_frames": Column(UINT32),
    "initiator_bytes": Column(UINT64),
    "responder_messages": Column(UINT32),
    "responder_frames": Column(UINT32),
    "responder_bytes": Column(UINT64),
    "nas_address": Column(TEXT, "link responder-aaa: the responder's address there; null: no RADIUS seen"),
    "aaa_address": Column(TEXT),
    "aaa_request_messages": Column(UINT32),
    "aaa_request_frames": Column(UINT32),
    "aaa_request_bytes": Column(UINT64),
    "aaa_response_messages": Column(UINT32),
    "aaa_response_frames": Column(UINT32),
    "aaa_response_bytes": Column(UINT64),
    "aaa_retransmitted_messages": Column(UINT32, "both directions of the link responder-aaa"),
    "aaa_retransmitted_frames": Column(UINT32),
    "aaa_retransmitted_bytes": Column(UINT64),
    "phases": Column(ListType(StructType({"type": TEXT, "messages": UINT32, "frames": UINT32, "bytes": UINT64}))),
    "after_setup_initiator_messages": Column(UINT32),
    "after_setup_initiator_frames": Column(UINT32),
    "after_setup_initiator_bytes": Column(UINT64),
    "after_setup_responder_messages": Column(UINT32),
    "after_setup_responder_frames": Column(UINT32),
    "after_setup_responder_bytes": Column(UINT64),
    "setup_ns": Column(INT64, "null: the handshake did not end, or its beginning is missing"),
    "initiator_setup_ns": Column(INT64, "setup_ns as the initiator sees it; null: the round trip to it is not known"),
    "network_ns": Column(INT64, "the parts of setup_ns: those that are not null add up to it"),
    "initiator_ns": Column(INT64),
    "initiator_and_network_ns": Column(
        INT64,
        "both, if the capture point is unknown; network_ns, initiator_ns are null",
    ),
    "responder_ns": Column(INT64),
    "aaa_ns": Column(INT64),
    "retransmission_wait_ns": Column(INT64, "until the retransmission that was answered, of IKE or RADIUS"),
    "vantage": Column(VANTAGES, "the side that the capture was taken on"),
    "path_rtt_ns": Column(INT64, "round-trip time of the path that network_ns was computed with"),
    "path_rtt_source": Column(TEXT, '"given", "manifest" (of the lab), "smallest seen" (an estimate), null'),
    "uncertain": Column(TEXT, "why the times above, and those of the exchanges, may be wrong; null: they are not"),
    "retransmitted_messages": Column(UINT32, "both directions of the link initiator-responder"),
    "retransmitted_frames": Column(UINT32),
    "retransmitted_bytes": Column(UINT64),
    "blowup": Column(FLOAT64, "bytes sent / bytes that one transmission of each message needs"),
    "ike_messages_fragmented": Column(UINT32),
    "ike_fragments": Column(UINT32),
    "ip_fragments": Column(UINT32),
    "extra_round_trips": Column(ListType(TEXT), "reasons, in order"),
    "capture_duplicates": Column(UINT32, "frames seen more than once by the capture, not counted anywhere above"),
    "one_sided": Column(SENDERS, "only this side's messages are in the capture; null: both"),
    "replaces": Column(UINT32, "id of the handshake whose IKE SA this one was made to replace, by decrypted payloads"),
    "child_error": Column(TEXT, "error notify, or REDIRECT, in place of the first CHILD_SA, though the IKE SA stands"),
    "diagnosis": Column(
        ListType(StructType(get_column_types(DIAGNOSIS_FIELDS))),
        "What stopped the handshake or made it slow, the most important first; null: no rule of the diagnosis applies.",
    ),
    "payload_bytes": Column(ListType(StructType({"payload": TEXT, "bytes": UINT64})), "null: nothing was decrypted"),
    "key_exchanges": Column(ListType(StructType(get_column_types(KEY_EXCHANGE_FIELDS)))),
    "certificates": Column(ListType(StructType(get_column_types(CERTIFICATE_FIELDS)))),
    # Figures of the lab's manifest for the handshake with these SPIs, in its units; `measure` and `jobs` are those of
    # the capture. null: no recording of the lab, or the manifest does not have this handshake.
    "measure": Column(TEXT, '"keys" or "costs": what the lab ran the case for'),
    "jobs": Column(INT64, "cases that ran at the same time on the same machine"),
    "warm_up": Column(BOOLEAN, "made before the handshakes that count"),
    "attempts": Column(INT64, "of the initiator, until the IKE SA was established"),
    "initiator_clock_ms": Column(FLOAT64, "set-up time by the clock of the initiator's host, CHILD_SA included"),
    "initiator_processor_ms": Column(FLOAT64, "processor time of the daemon"),
    "responder_processor_ms": Column(FLOAT64),
    "aaa_processor_ms": Column(FLOAT64),
    "initiator_rss_bytes": Column(INT64, "resident set size of the daemon after the handshake"),
    "responder_rss_bytes": Column(INT64),
    "aaa_rss_bytes": Column(INT64),
}

FRAMES: Final[Layout] = get_column_types(FRAME_COLUMNS)
MESSAGES: Final[Layout] = get_column_types(MESSAGE_COLUMNS)
EXCHANGES: Final[Layout] = get_column_types(EXCHANGE_COLUMNS)
HANDSHAKES: Final[Layout] = get_column_types(HANDSHAKE_COLUMNS)
