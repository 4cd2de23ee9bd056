"""The four tables: what one row is, and every column with its type and unit.

This is the contract between the steps of the analysis, the renderers and whoever reads the Parquet files. Times are
integers in nanoseconds (`*_ns`; points in time count from 1970-01-01 UTC), except the lab's figures, which are
milliseconds as in its manifest (`*_ms`). Bytes are frame lengths on the wire with the link header, null means unknown.
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
    EnumType,
    Layout,
    ListType,
    StructType,
)

PROTOCOLS: Final = EnumType(("IKEv2", "IKEv1", "RADIUS", "HIP"))
ENCAPSULATIONS: Final = EnumType(("UDP 500", "UDP 4500", "TCP 4500", "UDP", "IP"))
SENDERS: Final = EnumType(("initiator", "responder", "aaa"))
KINDS: Final = EnumType(("request", "response"))
OUTCOMES: Final = EnumType(("established", "completed", "failed", "unanswered", "half-open", "cut"))
VANTAGES: Final = EnumType(("initiator", "responder", "unknown"))

#: One row is one frame that carries (a part of) an IKE, RADIUS or HIP message. A TCP segment that carries parts of
#: several IKE messages has a row for each; its bytes are split between them, so that sums stay right.
FRAMES: Final[Layout] = {
    "capture": CATEGORY,  # path of the capture as it was given
    "number": UINT32,  # of the packet in its capture, from 1, as Wireshark counts
    "time_ns": INT64,
    "interface": UINT32,  # of the capture (pcapng: counted from 0 over all sections)
    "bytes": UINT32,  # length on the wire, link header included
    "captured": UINT32,  # bytes of it that are in the file
    "protocol": PROTOCOLS,
    "encapsulation": ENCAPSULATIONS,  # "UDP": another port that was asked for; "IP": HIP as IP protocol 139
    "source": CATEGORY,
    "source_port": UINT16,
    "destination": CATEGORY,
    "destination_port": UINT16,
    "tunnel": CATEGORY,  # that the frame is in: "vxlan:42", "mpls:100/gre:7" (the outer one first); null: none
    "ttl": UINT8,  # IPv4 time to live or IPv6 hop limit
    "ip_id": UINT32,  # null in an unfragmented IPv6 packet
    "ip_fragment": BOOLEAN,  # the IP packet was fragmented: several frames are one datagram
    "capture_duplicate": BOOLEAN,  # the same frame, captured once more on its way through this machine
    "spi_i": UINT64,  # IKE SPIs, IKEv1 cookies; null for RADIUS and HIP
    "spi_r": UINT64,
    "next_payload": UINT8,
    "exchange_type": UINT8,  # IKE: exchange type; RADIUS: code; HIP: packet type
    "flags": UINT8,
    "message_id": UINT32,  # IKE: message ID; RADIUS: identifier
    "ike_bytes": UINT32,  # length of the message by its own header, non-ESP marker and framing not included
    "fragment": UINT16,  # RFC 7383 fragment number (or that of an IKEv1 fragment); null: not fragmented by IKE
    "fragments": UINT16,  # RFC 7383 total; null where the protocol does not tell
    "digest": UINT64,  # XXH3-64 of the message's bytes in this frame (all of the datagram where IP fragmented it)
    "message": UINT32,  # row of `messages` that this frame belongs to
    "handshake": UINT32,  # id in `handshakes`; null: belongs to none (RADIUS that fits no handshake or several)
}

#: One row is one IKE (RADIUS, HIP) message each time that it is sent: its first transmission or one of its
#: retransmissions.
MESSAGES: Final[Layout] = {
    "capture": CATEGORY,
    "message": UINT32,  # id, unique in the report; in order of first_ns
    "handshake": UINT32,
    "exchange": UINT32,  # id in `exchanges`
    "protocol": PROTOCOLS,
    "type": CATEGORY,  # exchange type by name (RADIUS: code by name; HIP: packet type by name)
    "message_id": UINT32,  # HIP: the number of an UPDATE, a count of packets that are never answered, else 0
    "sender": SENDERS,  # initiator and responder of the IKE SA; "aaa" answers the responder's RADIUS requests
    "kind": KINDS,
    "set_up": BOOLEAN,  # belongs to what sets the IKE SA up
    "transmission": UINT32,  # 1: first, 2...: retransmission
    "first_frame": UINT32,  # number of its first frame
    "first_ns": INT64,  # time of its first frame
    "last_ns": INT64,  # time of its last frame; not of IP fragments that the network doubled
    "frames": UINT32,
    "bytes": UINT64,
    "needed_bytes": UINT64,  # bytes of those of its fragments that no earlier transmission had already carried
    "fragments": UINT16,  # RFC 7383 total; null: not fragmented
    "fragments_seen": UINT16,  # fragments of this transmission that the capture has whole; null: not fragmented
    "ip_fragments": UINT32,  # frames that are IP fragments
    "digest": UINT64,  # equal digests, SPIs, message ID and direction: the same message
    "decrypted": BOOLEAN,  # null: no keys were given, or it was not encrypted
    "epoch": UINT32,  # of the keys that it was encrypted with; null: not decrypted, or IKEv1
    "verified": BOOLEAN,  # the ICV is correct; false: there was none to check; null: not decrypted
    "payloads": ListType(TEXT),  # in a few words each, in order (HIP: parameters); null: not decoded
    "same_eap": UINT32,  # id of the RADIUS packet or IKE message that has the same EAP message, byte by byte
    "matched_by": TEXT,  # how a RADIUS packet was given to its exchange: "EAP" (byte by byte) or "time"
}

#: One row is one request and its response, all their transmissions included. A request repeated with another body
#: (COOKIE, INVALID_KE_PAYLOAD, REDIRECT) begins a row of its own. IKEv1 has no such pairs: main mode's six messages are
#: three rows, the third message of aggressive and quick mode and each informational message is a row without response.
#: HIP has I1-R1, I2-R2, UPDATE and CLOSE-CLOSE_ACK; the third UPDATE of three and each NOTIFY is a row without
#: response.
EXCHANGES: Final[Layout] = {
    "capture": CATEGORY,
    "exchange": UINT32,  # id, unique in the report
    "handshake": UINT32,
    "type": CATEGORY,
    "message_id": UINT32,
    "attempt": UINT32,  # 1, or more where the request was repeated with another body
    "initiated_by": SENDERS,
    "set_up": BOOLEAN,
    "extra_round_trip": TEXT,  # notify by which the responder asked for another request: COOKIE, ...
    "request_messages": UINT32,  # transmissions; null: no request in the capture
    "request_frames": UINT32,
    "request_bytes": UINT64,
    "request_ns": INT64,  # time of the first frame of the first transmission
    "response_messages": UINT32,  # null: no response in the capture
    "response_frames": UINT32,
    "response_bytes": UINT64,
    "response_ns": INT64,
    "rtt_ns": INT64,  # from the answered transmission of the request to the response that ended the exchange
    "wait_ns": INT64,  # from the first transmission of the request to the one that was answered
    "end_ns": INT64,  # last frame of the response that ended the exchange; null: unanswered
    "epoch": UINT32,  # null: no keys were given
    "decrypted": BOOLEAN,  # null: no keys were given
}

#: One row is one IKE SA from its first IKE_SA_INIT to the last IKE_AUTH, or to its failure; phase 1 and the first quick
#: mode of IKEv1; one HIP host association, I1 to R2; or one IKE SA that replaced another one (`rekeyed`). Counts are of
#: the set-up alone unless the name of the column begins with `after_setup`.
HANDSHAKES: Final[Layout] = {
    "capture": CATEGORY,
    "handshake": UINT32,  # id, from 1, in order of start_ns within a capture
    "protocol": PROTOCOLS,
    "spi_i": TEXT,  # 16 hex digits; null: HIP has none
    "spi_r": TEXT,  # 16 hex digits; zeros: no responder SPI was seen; null: HIP
    "initiator_hit": TEXT,  # HIP: host identity tag, written as an IPv6 address; null: IKE
    "responder_hit": TEXT,  # null also: opportunistic mode that got no answer
    "initiator_address": TEXT,
    "initiator_port": UINT16,
    "responder_address": TEXT,
    "responder_port": UINT16,
    "nat": TEXT,  # "none", "initiator", "responder", "both": who is behind a NAT; null: the capture does not tell
    "tunnel": TEXT,  # that its frames are in, as in `frames`; several, as of both directions, are separated by commas
    "start_ns": INT64,
    "end_ns": INT64,
    "rekeyed": BOOLEAN,  # an IKE SA that replaced another one: not a handshake, not counted as one
    "outcome": OUTCOMES,  # null: an IKE SA that replaced another one, and its rekeying was not decrypted
    #: Error notify, "Access-Reject", "AAA server silent" (it never answered, and the responder gave up), "EAP failure"
    #: or "XAUTH_STATUS failure"; "COOKIE" or "INVALID_KE_PAYLOAD" where the initiator did not follow it; "REKEYED": the
    #: IKE SA replaced another one, so it had no IKE_SA_INIT.
    "reason": TEXT,
    "auth_initiator": TEXT,
    "auth_responder": TEXT,
    "auth_eap": TEXT,
    "auth_guessed": BOOLEAN,
    "encryption": TEXT,
    "prf": TEXT,
    "integrity": TEXT,
    "key_exchange": TEXT,
    "additional_key_exchanges": ListType(StructType({"slot": UINT8, "method": TEXT, "id": UINT16})),
    "offered": ListType(TEXT),  # proposals in the initiator's order
    "initiator_supports": ListType(TEXT),  # notifies and vendor IDs of IKE_SA_INIT, by name
    "responder_supports": ListType(TEXT),
    "initiator_messages": UINT32,  # link initiator-responder, sent by the initiator
    "initiator_frames": UINT32,
    "initiator_bytes": UINT64,
    "responder_messages": UINT32,
    "responder_frames": UINT32,
    "responder_bytes": UINT64,
    "nas_address": TEXT,  # link responder-aaa: the responder's address there; null: no RADIUS seen
    "aaa_address": TEXT,
    "aaa_request_messages": UINT32,
    "aaa_request_frames": UINT32,
    "aaa_request_bytes": UINT64,
    "aaa_response_messages": UINT32,
    "aaa_response_frames": UINT32,
    "aaa_response_bytes": UINT64,
    "aaa_retransmitted_messages": UINT32,  # both directions of the link responder-aaa
    "aaa_retransmitted_frames": UINT32,
    "aaa_retransmitted_bytes": UINT64,
    "phases": ListType(StructType({"type": TEXT, "messages": UINT32, "frames": UINT32, "bytes": UINT64})),
    "after_setup_initiator_messages": UINT32,
    "after_setup_initiator_frames": UINT32,
    "after_setup_initiator_bytes": UINT64,
    "after_setup_responder_messages": UINT32,
    "after_setup_responder_frames": UINT32,
    "after_setup_responder_bytes": UINT64,
    "setup_ns": INT64,  # null: the handshake did not end, or its beginning is missing
    "initiator_setup_ns": INT64,  # setup_ns as the initiator sees it; null: the round trip to it is not known
    "network_ns": INT64,  # the parts of setup_ns: those that are not null add up to it
    "initiator_ns": INT64,
    "initiator_and_network_ns": INT64,  # both, if the capture point is unknown; network_ns, initiator_ns are null
    "responder_ns": INT64,
    "aaa_ns": INT64,
    "retransmission_wait_ns": INT64,  # until the retransmission that was answered, of IKE or RADIUS
    "vantage": VANTAGES,  # the side that the capture was taken on
    "path_rtt_ns": INT64,  # round-trip time of the path that network_ns was computed with
    "path_rtt_source": TEXT,  # "given", "manifest" (of the lab), "smallest seen" (an estimate), null
    "uncertain": TEXT,  # why the times above, and those of the exchanges, may be wrong; null: they are not
    "retransmitted_messages": UINT32,  # both directions of the link initiator-responder
    "retransmitted_frames": UINT32,
    "retransmitted_bytes": UINT64,
    "blowup": FLOAT64,  # bytes sent / bytes that one transmission of each message needs
    "ike_messages_fragmented": UINT32,
    "ike_fragments": UINT32,
    "ip_fragments": UINT32,
    "extra_round_trips": ListType(TEXT),  # reasons, in order
    "capture_duplicates": UINT32,  # frames seen more than once by the capture, not counted anywhere above
    "one_sided": SENDERS,  # only this side's messages are in the capture; null: both
    "replaces": UINT32,  # id of the handshake whose IKE SA this one was made to replace, by decrypted payloads
    "child_error": TEXT,  # error notify, or REDIRECT, in place of the first CHILD_SA, though the IKE SA stands
    #: What stopped the handshake or made it slow, the most important first; null: no rule of the diagnosis applies.
    "diagnosis": ListType(
        StructType(
            {
                "code": TEXT,  # see docs/diagnosis.md
                "effect": TEXT,  # "stopped", "disconnected", "slowed" or "weakened"
                "confidence": TEXT,  # "certain" or "consistent with"
                "message": TEXT,  # one sentence for people
                "exchange": TEXT,  # the IKE message that it concerns: exchange type
                "message_id": UINT32,
                "sender": TEXT,
                "kind": TEXT,  # "request" or "response"
                "frames": ListType(UINT32),  # numbers of the packets that are the evidence
                "remedy": TEXT,  # what to try
                "rfc": TEXT,
            }
        )
    ),
    "payload_bytes": ListType(StructType({"payload": TEXT, "bytes": UINT64})),  # null: nothing was decrypted
    "key_exchanges": ListType(
        StructType(
            {
                "exchange": UINT32,  # id
                "purpose": TEXT,  # "IKE SA", "CHILD_SA", "rekeying" (of the IKE SA), "not known"
                "slot": UINT8,  # 0, or 1 to 7 of the additional ones
                "method": TEXT,
                "id": UINT16,
                "linked_to": UINT32,  # IKE_FOLLOWUP_KE: message ID of its CREATE_CHILD_SA
                "request": TEXT,  # what the request's data are: "public value", "encapsulation key"
                "request_bytes": UINT32,
                "response": TEXT,  # "public value", "ciphertext"
                "response_bytes": UINT32,
                "findings": ListType(TEXT),  # problems that the checks found; empty: all checks passed
            }
        )
    ),
    "certificates": ListType(
        StructType(
            {
                "side": TEXT,  # who sent it
                "name": TEXT,  # kind, subject, key
                "key": TEXT,  # algorithm and size
                "signature": TEXT,  # algorithm of the issuer's signature
                "bytes": UINT32,
                "key_bytes": UINT32,  # the three add up to `bytes`
                "signature_bytes": UINT32,
                "other_bytes": UINT32,
            }
        )
    ),
    # Figures of the lab's manifest for the handshake with these SPIs, in its units; `measure` and `jobs` are those of
    # the capture. null: no recording of the lab, or the manifest does not have this handshake.
    "measure": TEXT,  # "keys" or "costs": what the lab ran the case for
    "jobs": INT64,  # cases that ran at the same time on the same machine
    "warm_up": BOOLEAN,  # made before the handshakes that count
    "attempts": INT64,  # of the initiator, until the IKE SA was established
    "initiator_clock_ms": FLOAT64,  # set-up time by the clock of the initiator's host, CHILD_SA included
    "initiator_processor_ms": FLOAT64,  # processor time of the daemon
    "responder_processor_ms": FLOAT64,
    "aaa_processor_ms": FLOAT64,
    "initiator_rss_bytes": INT64,  # resident set size of the daemon after the handshake
    "responder_rss_bytes": INT64,
    "aaa_rss_bytes": INT64,
}
