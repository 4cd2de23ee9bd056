"""The four tables: what one row is, and every column with its type and unit.

This is the contract between the steps of the analysis, the renderers and whoever reads the Parquet files. Times are
integers in nanoseconds (`*_ns`; points in time count from 1970-01-01 UTC), except the lab's figures, which are
milliseconds as in its manifest (`*_ms`). Bytes are frame lengths on the wire with the link header, null means unknown.
SPIs are unsigned integers in `frames` and `messages` (a million rows) and 16 hex digits in `handshakes`.
"""

from typing import Final

import polars as pl

PROTOCOLS: Final = pl.Enum(["IKEv2", "IKEv1", "RADIUS", "HIP"])
ENCAPSULATIONS: Final = pl.Enum(["UDP 500", "UDP 4500", "TCP 4500", "UDP", "IP"])
SENDERS: Final = pl.Enum(["initiator", "responder", "aaa"])
KINDS: Final = pl.Enum(["request", "response"])
OUTCOMES: Final = pl.Enum(["established", "completed", "failed", "unanswered", "half-open", "cut"])
VANTAGES: Final = pl.Enum(["initiator", "responder", "unknown"])

Schema = dict[str, pl.DataType | type[pl.DataType]]

#: One row is one frame that carries (a part of) an IKE, RADIUS or HIP message. A TCP segment that carries parts of
#: several IKE messages has a row for each; its bytes are split between them, so that sums stay right.
FRAMES: Final[Schema] = {
    "capture": pl.Categorical,  # path of the capture as it was given
    "number": pl.UInt32,  # of the packet in its capture, from 1, as Wireshark counts
    "time_ns": pl.Int64,
    "interface": pl.UInt32,  # of the capture (pcapng: counted from 0 over all sections)
    "bytes": pl.UInt32,  # length on the wire, link header included
    "captured": pl.UInt32,  # bytes of it that are in the file
    "protocol": PROTOCOLS,
    "encapsulation": ENCAPSULATIONS,  # "UDP": another port that was asked for; "IP": HIP as IP protocol 139
    "source": pl.Categorical,
    "source_port": pl.UInt16,
    "destination": pl.Categorical,
    "destination_port": pl.UInt16,
    "tunnel": pl.Categorical,  # that the frame is in: "vxlan:42", "mpls:100/gre:7" (the outer one first); null: none
    "ttl": pl.UInt8,  # IPv4 time to live or IPv6 hop limit
    "ip_id": pl.UInt32,  # null in an unfragmented IPv6 packet
    "ip_fragment": pl.Boolean,  # the IP packet was fragmented: several frames are one datagram
    "capture_duplicate": pl.Boolean,  # the same frame, captured once more on its way through this machine
    "spi_i": pl.UInt64,  # IKE SPIs, IKEv1 cookies; null for RADIUS and HIP
    "spi_r": pl.UInt64,
    "next_payload": pl.UInt8,
    "exchange_type": pl.UInt8,  # IKE: exchange type; RADIUS: code; HIP: packet type
    "flags": pl.UInt8,
    "message_id": pl.UInt32,  # IKE: message ID; RADIUS: identifier
    "ike_bytes": pl.UInt32,  # length of the message by its own header, non-ESP marker and framing not included
    "fragment": pl.UInt16,  # RFC 7383 fragment number (or that of an IKEv1 fragment); null: not fragmented by IKE
    "fragments": pl.UInt16,  # RFC 7383 total; null where the protocol does not tell
    "digest": pl.UInt64,  # XXH3-64 of the message's bytes in this frame (all of the datagram where IP fragmented it)
    "message": pl.UInt32,  # row of `messages` that this frame belongs to
    "handshake": pl.UInt32,  # id in `handshakes`; null: belongs to none (RADIUS that fits no handshake or several)
}

#: One row is one IKE (RADIUS, HIP) message each time that it is sent: its first transmission or one of its
#: retransmissions.
MESSAGES: Final[Schema] = {
    "capture": pl.Categorical,
    "message": pl.UInt32,  # id, unique in the report; in order of first_ns
    "handshake": pl.UInt32,
    "exchange": pl.UInt32,  # id in `exchanges`
    "protocol": PROTOCOLS,
    "type": pl.Categorical,  # exchange type by name (RADIUS: code by name; HIP: packet type by name)
    "message_id": pl.UInt32,  # HIP: the number of an UPDATE, a count of packets that are never answered, else 0
    "sender": SENDERS,  # initiator and responder of the IKE SA; "aaa" answers the responder's RADIUS requests
    "kind": KINDS,
    "set_up": pl.Boolean,  # belongs to what sets the IKE SA up
    "transmission": pl.UInt32,  # 1: first, 2...: retransmission
    "first_frame": pl.UInt32,  # number of its first frame
    "first_ns": pl.Int64,  # time of its first frame
    "last_ns": pl.Int64,  # time of its last frame; not of IP fragments that the network doubled
    "frames": pl.UInt32,
    "bytes": pl.UInt64,
    "needed_bytes": pl.UInt64,  # bytes of those of its fragments that no earlier transmission had already carried
    "fragments": pl.UInt16,  # RFC 7383 total; null: not fragmented
    "fragments_seen": pl.UInt16,  # fragments of this transmission that the capture has whole; null: not fragmented
    "ip_fragments": pl.UInt32,  # frames that are IP fragments
    "digest": pl.UInt64,  # equal digests, SPIs, message ID and direction: the same message
    "decrypted": pl.Boolean,  # null: no keys were given, or it was not encrypted
    "epoch": pl.UInt32,  # of the keys that it was encrypted with; null: not decrypted, or IKEv1
    "verified": pl.Boolean,  # the ICV is correct; false: there was none to check; null: not decrypted
    "payloads": pl.List(pl.String),  # in a few words each, in order (HIP: parameters); null: not decoded
    "same_eap": pl.UInt32,  # id of the RADIUS packet or IKE message that has the same EAP message, byte by byte
    "matched_by": pl.String,  # how a RADIUS packet was given to its exchange: "EAP" (byte by byte) or "time"
}

#: One row is one request and its response, all their transmissions included. A request repeated with another body
#: (COOKIE, INVALID_KE_PAYLOAD, REDIRECT) begins a row of its own. IKEv1 has no such pairs: main mode's six messages are
#: three rows, the third message of aggressive and quick mode and each informational message is a row without response.
#: HIP has I1-R1, I2-R2, UPDATE and CLOSE-CLOSE_ACK; the third UPDATE of three and each NOTIFY is a row without
#: response.
EXCHANGES: Final[Schema] = {
    "capture": pl.Categorical,
    "exchange": pl.UInt32,  # id, unique in the report
    "handshake": pl.UInt32,
    "type": pl.Categorical,
    "message_id": pl.UInt32,
    "attempt": pl.UInt32,  # 1, or more where the request was repeated with another body
    "initiated_by": SENDERS,
    "set_up": pl.Boolean,
    "extra_round_trip": pl.String,  # notify by which the responder asked for another request: COOKIE, ...
    "request_messages": pl.UInt32,  # transmissions; null: no request in the capture
    "request_frames": pl.UInt32,
    "request_bytes": pl.UInt64,
    "request_ns": pl.Int64,  # time of the first frame of the first transmission
    "response_messages": pl.UInt32,  # null: no response in the capture
    "response_frames": pl.UInt32,
    "response_bytes": pl.UInt64,
    "response_ns": pl.Int64,
    "rtt_ns": pl.Int64,  # from the answered transmission of the request to the response that ended the exchange
    "wait_ns": pl.Int64,  # from the first transmission of the request to the one that was answered
    "end_ns": pl.Int64,  # last frame of the response that ended the exchange; null: unanswered
    "epoch": pl.UInt32,  # null: no keys were given
    "decrypted": pl.Boolean,  # null: no keys were given
}

#: One row is one IKE SA from its first IKE_SA_INIT to the last IKE_AUTH, or to its failure; phase 1 and the first quick
#: mode of IKEv1; one HIP host association, I1 to R2; or one IKE SA that replaced another one (`rekeyed`). Counts are of
#: the set-up alone unless the name of the column begins with `after_setup`.
HANDSHAKES: Final[Schema] = {
    "capture": pl.Categorical,
    "handshake": pl.UInt32,  # id, from 1, in order of start_ns within a capture
    "protocol": PROTOCOLS,
    "spi_i": pl.String,  # 16 hex digits; null: HIP has none
    "spi_r": pl.String,  # 16 hex digits; zeros: no responder SPI was seen; null: HIP
    "initiator_hit": pl.String,  # HIP: host identity tag, written as an IPv6 address; null: IKE
    "responder_hit": pl.String,  # null also: opportunistic mode that got no answer
    "initiator_address": pl.String,
    "initiator_port": pl.UInt16,
    "responder_address": pl.String,
    "responder_port": pl.UInt16,
    "nat": pl.String,  # "none", "initiator", "responder", "both": who is behind a NAT; null: the capture does not tell
    "tunnel": pl.String,  # that its frames are in, as in `frames`; several, as of both directions, are separated by commas
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "rekeyed": pl.Boolean,  # an IKE SA that replaced another one: not a handshake, not counted as one
    "outcome": OUTCOMES,  # null: an IKE SA that replaced another one, and its rekeying was not decrypted
    #: Error notify, "Access-Reject", "AAA server silent" (it never answered, and the responder gave up), "EAP failure"
    #: or "XAUTH_STATUS failure"; "COOKIE" or "INVALID_KE_PAYLOAD" where the initiator did not follow it; "REKEYED": the
    #: IKE SA replaced another one, so it had no IKE_SA_INIT.
    "reason": pl.String,
    "auth_initiator": pl.String,
    "auth_responder": pl.String,
    "auth_eap": pl.String,
    "auth_guessed": pl.Boolean,
    "encryption": pl.String,
    "prf": pl.String,
    "integrity": pl.String,
    "key_exchange": pl.String,
    "additional_key_exchanges": pl.List(pl.Struct({"slot": pl.UInt8, "method": pl.String, "id": pl.UInt16})),
    "offered": pl.List(pl.String),  # proposals in the initiator's order
    "initiator_supports": pl.List(pl.String),  # notifies and vendor IDs of IKE_SA_INIT, by name
    "responder_supports": pl.List(pl.String),
    "initiator_messages": pl.UInt32,  # link initiator-responder, sent by the initiator
    "initiator_frames": pl.UInt32,
    "initiator_bytes": pl.UInt64,
    "responder_messages": pl.UInt32,
    "responder_frames": pl.UInt32,
    "responder_bytes": pl.UInt64,
    "nas_address": pl.String,  # link responder-aaa: the responder's address there; null: no RADIUS seen
    "aaa_address": pl.String,
    "aaa_request_messages": pl.UInt32,
    "aaa_request_frames": pl.UInt32,
    "aaa_request_bytes": pl.UInt64,
    "aaa_response_messages": pl.UInt32,
    "aaa_response_frames": pl.UInt32,
    "aaa_response_bytes": pl.UInt64,
    "aaa_retransmitted_messages": pl.UInt32,  # both directions of the link responder-aaa
    "aaa_retransmitted_frames": pl.UInt32,
    "aaa_retransmitted_bytes": pl.UInt64,
    "phases": pl.List(pl.Struct({"type": pl.String, "messages": pl.UInt32, "frames": pl.UInt32, "bytes": pl.UInt64})),
    "after_setup_initiator_messages": pl.UInt32,
    "after_setup_initiator_frames": pl.UInt32,
    "after_setup_initiator_bytes": pl.UInt64,
    "after_setup_responder_messages": pl.UInt32,
    "after_setup_responder_frames": pl.UInt32,
    "after_setup_responder_bytes": pl.UInt64,
    "setup_ns": pl.Int64,  # null: the handshake did not end, or its beginning is missing
    "initiator_setup_ns": pl.Int64,  # setup_ns as the initiator sees it; null: the round trip to it is not known
    "network_ns": pl.Int64,  # the parts of setup_ns: those that are not null add up to it
    "initiator_ns": pl.Int64,
    "initiator_and_network_ns": pl.Int64,  # both, if the capture point is unknown; network_ns, initiator_ns are null
    "responder_ns": pl.Int64,
    "aaa_ns": pl.Int64,
    "retransmission_wait_ns": pl.Int64,  # until the retransmission that was answered, of IKE or RADIUS
    "vantage": VANTAGES,  # the side that the capture was taken on
    "path_rtt_ns": pl.Int64,  # round-trip time of the path that network_ns was computed with
    "path_rtt_source": pl.String,  # "given", "manifest" (of the lab), "smallest seen" (an estimate), null
    "uncertain": pl.String,  # why the times above, and those of the exchanges, may be wrong; null: they are not
    "retransmitted_messages": pl.UInt32,  # both directions of the link initiator-responder
    "retransmitted_frames": pl.UInt32,
    "retransmitted_bytes": pl.UInt64,
    "blowup": pl.Float64,  # bytes sent / bytes that one transmission of each message needs
    "ike_messages_fragmented": pl.UInt32,
    "ike_fragments": pl.UInt32,
    "ip_fragments": pl.UInt32,
    "extra_round_trips": pl.List(pl.String),  # reasons, in order
    "capture_duplicates": pl.UInt32,  # frames seen more than once by the capture, not counted anywhere above
    "one_sided": SENDERS,  # only this side's messages are in the capture; null: both
    "replaces": pl.UInt32,  # id of the handshake whose IKE SA this one was made to replace, by decrypted payloads
    "child_error": pl.String,  # error notify by which the first CHILD_SA was refused, though the IKE SA stands
    #: What stopped the handshake or made it slow, the most important first; null: no rule of the diagnosis applies.
    "diagnosis": pl.List(
        pl.Struct(
            {
                "code": pl.String,  # see docs/diagnosis.md
                "effect": pl.String,  # "stopped", "disconnected", "slowed" or "weakened"
                "confidence": pl.String,  # "certain" or "consistent with"
                "message": pl.String,  # one sentence for people
                "exchange": pl.String,  # the IKE message that it concerns: exchange type
                "message_id": pl.UInt32,
                "sender": pl.String,
                "kind": pl.String,  # "request" or "response"
                "frames": pl.List(pl.UInt32),  # numbers of the packets that are the evidence
                "remedy": pl.String,  # what to try
                "rfc": pl.String,
            }
        )
    ),
    "payload_bytes": pl.List(pl.Struct({"payload": pl.String, "bytes": pl.UInt64})),  # null: nothing was decrypted
    "key_exchanges": pl.List(
        pl.Struct(
            {
                "exchange": pl.UInt32,  # id
                "purpose": pl.String,  # "IKE SA", "CHILD_SA", "rekeying" (of the IKE SA), "not known"
                "slot": pl.UInt8,  # 0, or 1 to 7 of the additional ones
                "method": pl.String,
                "id": pl.UInt16,
                "linked_to": pl.UInt32,  # IKE_FOLLOWUP_KE: message ID of its CREATE_CHILD_SA
                "request": pl.String,  # what the request's data are: "public value", "encapsulation key"
                "request_bytes": pl.UInt32,
                "response": pl.String,  # "public value", "ciphertext"
                "response_bytes": pl.UInt32,
                "findings": pl.List(pl.String),  # problems that the checks found; empty: all checks passed
            }
        )
    ),
    "certificates": pl.List(
        pl.Struct(
            {
                "side": pl.String,  # who sent it
                "name": pl.String,  # kind, subject, key
                "key": pl.String,  # algorithm and size
                "signature": pl.String,  # algorithm of the issuer's signature
                "bytes": pl.UInt32,
                "key_bytes": pl.UInt32,  # the three add up to `bytes`
                "signature_bytes": pl.UInt32,
                "other_bytes": pl.UInt32,
            }
        )
    ),
    # Figures of the lab's manifest for the handshake with these SPIs, in its units; `measure` and `jobs` are those of
    # the capture. null: no recording of the lab, or the manifest does not have this handshake.
    "measure": pl.String,  # "keys" or "costs": what the lab ran the case for
    "jobs": pl.Int64,  # cases that ran at the same time on the same machine
    "warm_up": pl.Boolean,  # made before the handshakes that count
    "attempts": pl.Int64,  # of the initiator, until the IKE SA was established
    "initiator_clock_ms": pl.Float64,  # set-up time by the clock of the initiator's host, CHILD_SA included
    "initiator_processor_ms": pl.Float64,  # processor time of the daemon
    "responder_processor_ms": pl.Float64,
    "aaa_processor_ms": pl.Float64,
    "initiator_rss_bytes": pl.Int64,  # resident set size of the daemon after the handshake
    "responder_rss_bytes": pl.Int64,
    "aaa_rss_bytes": pl.Int64,
}
