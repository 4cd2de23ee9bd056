--[[ Rules of the diagnosis: patterns of packets of set-ups that stopped, from the most to the least specific one. See
the module `rules`. ]]
-- Every host accepts IP packets of 576 bytes (RFC 1122, 3.3.2), so a path MTU does not explain the loss of smaller
-- ones.
local SMALL_BYTES = 600
-- Requests with COOKIE in the response: one is normal, and another one after INVALID_KE_PAYLOAD.
local MANY_ROUND_TRIPS = 3
local MANY_IGNORED = 3 -- retransmissions of a request after its response
-- Least bytes of an identity, AUTH with the shortest hash, SA and traffic selectors: 9 + 24 + 36 + 2 * 24.
local CHILD_ROOM = 117
-- A request that proposes a CHILD_SA is longer than a response without one by at least this number of bytes.
local CHILD_BYTES = 60

local function has_no_response(f)
    return f.outcome == "unanswered" and f.responses == 0
end

-- The last request was repeated after each response, and the initiator never continued; earlier requests were not
-- repeated, so that neither random loss nor a slow path explains it.
local function is_ignored(f)
    return (f.ignored or 0) >= MANY_IGNORED and (f.passed_sent or 1) == 1 and f.after_setup_initiator_messages == 0
        and not f.uncertain
end

-- The receiver of the last request of IKEv1 sent Informational messages instead of a response: refusals and deletions
-- have no other message (RFC 2408, 4.8).
local function is_answered_by_informational(f)
    return has_no_response(f) and f.informationals > 0
end

local function is_not_received(f)
    return f.outcome == "unanswered" and f.responses > 0 or f.outcome ~= "failed" and is_ignored(f)
end

-- The message is larger than any that arrived in its direction, and than what every path carries.
local function is_large(bytes, passed)
    return bytes > SMALL_BYTES and bytes > (passed or 0)
end

-- The only IKE_AUTH response has room for fewer bytes.
local function has_short_response(f, room)
    return f.outcome == "completed" and f.auth_exchanges == 1 and f.response_room ~= nil and f.response_room < room
end

local function is_not_set_up(f)
    return f.outcome == "failed" or f.outcome == "unanswered" or f.outcome == "half-open" or f.outcome == "cut"
end

return {
    {
        code = "redirected", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 5685, 6", subject = "RESPONSE",
        when = function(f)
            return has_short_response(f, CHILD_ROOM) and f.redirected
        end,
        sentence = "The encrypted IKE_AUTH response of {response_ike_bytes} bytes has no room for a CHILD_SA, and the "
            .. "initiator then set up an IKE SA with another gateway, to which {responder_address} had redirected it: "
            .. "consistent with REDIRECT in the response.",
        remedy =
            "Nothing is wrong if the set-up with the other gateway succeeded, which is a handshake of its own. Give "
                .. "the keys (--keys with a log of the daemon) to read the response.",
    },
    {
        code = "auth-failed", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 2.21.2", subject = "RESPONSE",
        when = function(f)
            return has_short_response(f, f.auth_room)
        end,
        sentence =
            "IKE_AUTH was refused: its encrypted response of {response_ike_bytes} bytes has no room for an identity "
                .. "and an AUTH payload, but for a notify: consistent with AUTHENTICATION_FAILED.",
        remedy =
            "Give the keys (--keys with a log of the daemon) to read the notify. Compare both sides' identities and "
                .. "credentials: the pre-shared key, or the certificate, its validity, its chain and the trusted CAs. "
                .. "Some responders (OpenIKED) end IKE_AUTH likewise if they refuse the CHILD_SA: compare the ESP "
                .. "proposals, too.",
    },
    {
        code = "aaa-rejected", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 2.16; RFC 3748, 4.2", subject = "RESPONSE",
        -- an EAP-Success, which is as short as an EAP-Failure, is followed by another IKE_AUTH request
        when = function(f)
            return f.outcome == "completed" and f.auth_exchanges > 1 and f.next_message_id == f.last_message_id + 1
                and f.response_room ~= nil and f.response_room < f.auth_payload_room
        end,
        sentence =
            "The last of {auth_exchanges} IKE_AUTH responses has {response_ike_bytes} encrypted bytes, no room for an "
                .. "AUTH payload, and the next request of the initiator was not IKE_AUTH: consistent with an EAP "
                .. "failure, or with an initiator that gave up.",
        remedy =
            "Give the keys (--keys with a log of the daemon) to read the messages. Check user name, password or "
                .. "certificate, and the EAP methods that both allow. The logs of the responder and of the AAA server "
                .. "have the reason.",
    },
    {
        code = "childless", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 1.2 and 2.21.2; RFC 6023", subject = "RESPONSE",
        when = function(f)
            return has_short_response(f, CHILD_ROOM) and f.request_bytes > f.response_bytes + CHILD_BYTES
        end,
        sentence = "The encrypted IKE_AUTH response of {response_ike_bytes} bytes has room for an identity and an AUTH "
            .. "payload, but not for a CHILD_SA as well: consistent with an IKE SA whose CHILD_SA was refused.",
        remedy =
            "Give the keys (--keys with a log of the daemon) to read the reason. Compare the ESP proposals and the "
                .. "traffic selectors of both configurations.",
    },
    {
        code = "cookie-loop", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 2.6; RFC 8019, 7", subject = "RESPONSE",
        when = function(f)
            return is_not_set_up(f) and f.cookies >= MANY_ROUND_TRIPS
        end,
        sentence =
            "The responder asked for a cookie again and again and never accepted the one that it got: {cookies} "
                .. "times in a row.",
        remedy =
            "The initiator must return the cookie unchanged, from the same address and port, with the same nonce and "
                .. "SPI. Look for a NAT or a load balancer that changes the address or sends requests to several "
                .. "gateways.",
    },
    {
        code = "invalid-ke-loop", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 1.2 and 2.7", subject = "RESPONSE",
        when = function(f)
            return is_not_set_up(f) and f.refused_methods >= 2
        end,
        sentence =
            "The responder refused the key exchange method of the IKE_SA_INIT request with INVALID_KE_PAYLOAD and "
                .. "asked for another one{wants_method}, {refused_methods} times.",
        remedy = "The initiator does not send the method that the responder asks for. Set one key exchange method that "
            .. "both support as the first one on both sides.",
    },
    {
        code = "unprotected-response", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 1.5 and 2.4", subject = "RESPONSE",
        when = function(f)
            return f.outcome == "unanswered" and f.unprotected
        end,
        sentence =
            "The {last_type} request, which was sent {sent}, got only unencrypted responses. The initiator must not "
                .. "rely on them, because anyone can send them.",
        remedy =
            "Look at the notify in this packet. INVALID_IKE_SPI means that its sender does not know the IKE SA: it has "
                .. "restarted, or the request reached another gateway of a cluster.",
    },
    {
        code = "quick-mode-refused", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 2409, 5.5; RFC 2408, 4.8", subject = "REQUEST",
        when = function(f)
            return is_answered_by_informational(f) and f.last_type == "Quick Mode"
        end,
        sentence =
            "The quick mode of the {last_by} was sent {sent} and got no response, but {informational_messages} of the "
                .. "{request_receiver} followed: consistent with an error notify that refuses the IPsec SA, whose "
                .. "networks or proposals were not accepted.",
        remedy =
            "Give the keys (--keys with a log of the daemon) to read the notify. Compare the networks and the ESP "
                .. "proposals of both configurations, with the key exchange method (PFS group). The log of the side "
                .. "that refused has the reason; some initiators ignore the notify and repeat the quick mode.",
    },
    {
        code = "auth-failed", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 2408, 4.8", subject = "REQUEST",
        when = function(f)
            return is_answered_by_informational(f) and f.last_type == "Transaction" and f.last_by == "responder"
        end,
        sentence =
            "The last Transaction request of the responder was sent {sent} and got no response, but "
                .. "{informational_messages} of the initiator followed: consistent with a refused user name or "
                .. "password (XAuth), after which the initiator deletes the IKE SA.",
        remedy = "Check user name and password (XAuth) on both sides. Their logs have the reason.",
    },
    {
        code = "fragment-lost-each-time", effect = "stopped", confidence = "certain",
        rfc = "RFC 7383, 2.6", subject = "RESPONSE",
        when = function(f)
            return is_not_received(f) and f.response_missing ~= nil and f.responses > 1
        end,
        sentence = "The {last_type} response never became complete: none of its {responses:,} transmissions has "
            .. "{response_missing}.",
        remedy = "Something between the responder and the capture point drops this packet each time: a firewall or "
            .. "intrusion prevention system that inspects it, or a path MTU that it exceeds. Try a smaller "
            .. "fragment size.",
    },
    {
        code = "fragment-lost-each-time", effect = "stopped", confidence = "certain",
        rfc = "RFC 7383, 2.6", subject = "REQUEST",
        when = function(f)
            return has_no_response(f) and f.request_missing ~= nil and (f.again or 0) > 0
        end,
        sentence = "The {last_type} request, which was sent {sent}, never became complete: no transmission has "
            .. "{request_missing}.",
        remedy = "Something between the initiator and the capture point drops this packet each time: a firewall or "
            .. "intrusion prevention system that inspects it, or a path MTU that it exceeds. Try a smaller "
            .. "fragment size.",
    },
    {
        code = "intermediate-not-supported", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 9242, 3.1", subject = "REQUEST",
        -- without a choice of the responder, the capture lacks the response that may have announced it, or its end; a
        -- second IKE_INTERMEDIATE follows one that was answered
        when = function(f)
            return has_no_response(f) and f.last_type == "IKE_INTERMEDIATE" and f.last_message_id == 1
                and f.key_exchange ~= nil and f.responder_lacks_intermediate
        end,
        sentence =
            "The IKE_INTERMEDIATE request was sent {sent} and never answered, and the responder had not announced "
                .. "INTERMEDIATE_EXCHANGE_SUPPORTED in IKE_SA_INIT: consistent with a responder that does not support "
                .. "the exchange.",
        remedy =
            "An initiator must not use IKE_INTERMEDIATE without the announcement of the responder. Update the "
                .. "responder, or enable the exchange there; if it chose an additional key exchange without the "
                .. "announcement, report that to its vendor.",
    },
    {
        code = "path-drops-fragments", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7383, 1; RFC 8900, 3", subject = "REQUEST",
        when = function(f)
            return has_no_response(f) and f.request_ip_fragmented
        end,
        sentence = "The {last_type} request ({request_bytes:,} bytes in IP fragments) was sent {sent} and never "
            .. "answered{but_smaller}: consistent with a path that drops IP fragments{behind_responder}.",
        remedy = "Use IKE fragmentation on both sides (RFC 7383; strongSwan: fragmentation = yes) with a fragment size "
            .. "below the path MTU, or let firewalls and NATs pass IP fragments. IKE_SA_INIT cannot be fragmented "
            .. "by IKE: move large key exchange methods to IKE_INTERMEDIATE (RFC 9370).",
    },
    {
        code = "path-drops-fragments", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7383, 1; RFC 8900, 3", subject = "RESPONSE",
        when = function(f)
            return is_not_received(f) and f.response_ip_fragmented
        end,
        sentence = "The responder answered the {last_type} request ({response_bytes:,} bytes in IP fragments), but the "
            .. "initiator sent the request {sent}, as if no answer had arrived: consistent with a path that drops "
            .. "IP fragments{behind_initiator}.",
        remedy = "Use IKE fragmentation on both sides (RFC 7383; strongSwan: fragmentation = yes) with a fragment size "
            .. "below the path MTU, or let firewalls and NATs pass IP fragments.",
    },
    {
        code = "large-packets-lost", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7383, 2.5.2; RFC 4821, 1", subject = "REQUEST",
        when = function(f)
            return has_no_response(f) and f.answered > 0 and is_large(f.request_bytes, f.request_passed_bytes)
        end,
        sentence = "Only small requests were answered: the {last_type} request (packets of up to {request_bytes:,} "
            .. "bytes) was sent {sent} and never answered, while requests of up to {request_passed_bytes:,} bytes "
            .. "were: consistent with a path that drops large packets{behind_responder}.",
        remedy =
            "The path may carry only smaller packets than the hosts believe (path MTU) and drop the others, often "
                .. "without an ICMP message. Try a smaller IKE fragment size, such as 576 or 1,000 bytes (strongSwan: "
                .. "fragment_size), and test the path with ping -M do -s SIZE.",
    },
    {
        code = "large-packets-lost", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7383, 2.5.2; RFC 4821, 1", subject = "RESPONSE",
        when = function(f)
            return is_not_received(f) and f.answered > 0 and is_large(f.response_bytes, f.response_passed_bytes)
        end,
        sentence = "Only small responses seem to arrive: the responder answered {last_type} with packets of up to "
            .. "{response_bytes:,} bytes, but the initiator sent its request {sent}, as if no answer had arrived. "
            .. "Responses of up to {response_passed_bytes:,} bytes did arrive: consistent with a path that drops "
            .. "large packets{behind_initiator}.",
        remedy =
            "The path may carry only smaller packets than the hosts believe (path MTU) and drop the others, often "
                .. "without an ICMP message. Try a smaller IKE fragment size, such as 576 or 1,000 bytes (strongSwan: "
                .. "fragment_size), and test the path with ping -M do -s SIZE.",
    },
    {
        code = "udp-4500-blocked", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 2.23; RFC 3948, 2", subject = "REQUEST", also = true,
        when = function(f)
            -- a responder that cannot decrypt the request may send an error notify, from UDP port 500, for each one
            return has_no_response(f) and f.on_4500 and not f.passed_4500 and f.answered > 0
                and f.after_setup_responder_messages == 0
        end,
        sentence =
            "The handshake stops where it changes to UDP port 4500: the {last_type} request was sent {sent} on that "
                .. "port and never answered, and the responder sent nothing from it in the whole capture: consistent "
                .. "with a firewall that blocks the port{behind_responder}.",
        remedy =
            "Let UDP port 4500 pass in both directions, on firewalls and NATs, and check that the responder listens "
                .. "on it. A responder that restarted after IKE_SA_INIT does not know the IKE SA, and may ignore the "
                .. "request without a message in its log (strongSwan).",
    },
    {
        code = "one-way", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 2.1", subject = "RESPONSE",
        when = function(f)
            return is_not_received(f)
        end,
        sentence =
            "The responder answered the {last_type} request, but the initiator sent it {sent}, as if no answer had "
                .. "arrived: consistent with packets that pass in one direction only, and are lost{behind_initiator} "
                .. "in the other.",
        remedy =
            "Check the way back: the responder's route and source address, firewall state, NAT, and filters for the "
                .. "source port. Capture on the initiator's side to see whether the responses arrive there.",
    },
    {
        code = "responder-silent", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 2.1 and 2.4", subject = "REQUEST",
        when = function(f)
            return has_no_response(f) and f.answered == 0
        end,
        sentence =
            "No IKE response of {responder_address} is in the capture: the {last_type} request was sent {sent}.",
        remedy =
            "Check the address, that an IKE daemon listens on UDP port {responder_port}, and that firewalls pass it "
                .. "in both directions; an ICMP error in the capture comes from the host that refuses the packets. "
                .. "Some responders do not answer addresses that they have no configuration for.",
    },
    {
        code = "auth-failed", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 2409, 5.4", subject = "REQUEST",
        when = function(f)
            return has_no_response(f) and f.begins_to_encrypt
        end,
        sentence =
            "The responder stopped answering at the first encrypted message of IKEv1's main mode, which was sent "
                .. "{sent}: consistent with different pre-shared keys, because it cannot decrypt the message then.",
        remedy =
            "Compare the pre-shared keys of both sides, and the addresses that they belong to. The responder's log "
                .. "has an error about the message's payloads.",
    },
    {
        code = "request-unanswered", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 2.1 and 2.4", subject = "REQUEST",
        when = function(f)
            return has_no_response(f) and f.again == 0
        end,
        sentence =
            "The {last_type} request has no response in the capture, after {answered_exchanges}, and was sent once, "
                .. "although {a_last_by} repeats a request until it is answered: consistent with a response that the "
                .. "capture lost, or {a_last_by} that was stopped.{skipped_ids}",
        remedy =
            "Check whether the capture lost packets: the capturing program reports those that it dropped, and a "
                .. "mirror port drops some under load. A response with other SPIs is listed as a handshake of its own. "
                .. "Then look for this time in the logs of both sides.",
    },
    {
        code = "request-unanswered", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 2.1 and 2.4", subject = "REQUEST",
        when = function(f)
            return has_no_response(f) and f.again ~= nil
        end,
        sentence =
            "The {request_receiver} stopped answering: the {last_type} request was sent {sent} without any response, "
                .. "after {answered_exchanges}.{skipped_ids}",
        remedy =
            "Look for this time in the {request_receiver}'s log: it may have dropped the request (as one that it "
                .. "cannot decrypt), waited for another system, or not received it.",
    },
    {
        code = "request-unanswered", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 2.1 and 2.4", subject = "REQUEST",
        when = function(f)
            return has_no_response(f)
        end,
        sentence =
            "The {last_type} request, which was sent {sent}, has no response in the capture, after "
                .. "{answered_exchanges}: consistent with a {request_receiver} that stopped answering. The snapshot "
                .. "length truncates the IKE fragments of the request before their numbers, so that its transmissions "
                .. "cannot be counted.",
        remedy =
            "Capture whole packets (tcpdump -s 0). Look for this time in the {request_receiver}'s log: it may have "
                .. "dropped the request (as one that it cannot decrypt), waited for another system, or not "
                .. "received it.",
    },
    {
        code = "cookie-not-returned", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 2.6", subject = "RESPONSE",
        when = function(f)
            return f.outcome == "half-open" and f.reason == "COOKIE"
        end,
        sentence = "The responder asked for a cookie, and the initiator did not send its request again with it.",
        remedy =
            "This is what scanners and floods with forged addresses look like. If the initiator is real, check that "
                .. "the response reaches it.",
    },
    {
        code = "invalid-ke-abandoned", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 1.2", subject = "RESPONSE",
        when = function(f)
            return f.outcome == "half-open" and f.reason == "INVALID_KE_PAYLOAD"
        end,
        sentence =
            "The responder asked for another key exchange method{wants_method}, and the initiator did not send this "
                .. "request again with it.",
        remedy =
            "Look at the next handshake of the initiator: some begin again with another SPI, which counts as a "
                .. "handshake of its own. If there is none, the initiator may not support or allow that method. Set a "
                .. "method that both support as the first one.",
    },
    {
        code = "port-4500-missing", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 2.23", subject = "RESPONSE",
        -- with a NAT, all that continue use port 4500: if no message has it, it was most likely not captured
        when = function(f)
            return f.outcome == "half-open" and f.last_type == "IKE_SA_INIT" and not f.has_port_4500
                and f.is_behind_nat
        end,
        sentence =
            "The set-up stops after IKE_SA_INIT, where NAT detection found a NAT, so that the initiator continues on "
                .. "UDP port 4500. The capture has no IKE message on that port: consistent with a capture filter that "
                .. "leaves it out.",
        remedy =
            'Capture both ports, as with the filter "port 500 or port 4500". If the capture has all packets of both '
                .. "ports, the initiator did not continue: look for this time in its log. It may have refused the "
                .. "response, given up, or not received it.",
    },
    {
        code = "ppk-not-supported", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 8784, 3", subject = "RESPONSE", also = true,
        when = function(f)
            return f.outcome == "half-open" and f.last_type == "IKE_SA_INIT" and f.initiator_offers_ppk
                and f.responder_declines_ppk
        end,
        sentence =
            "The initiator offered a post-quantum pre-shared key (PPK), which the responder did not accept, and "
                .. "did not continue the set-up: consistent with an initiator that requires the PPK.",
        remedy =
            "Configure the PPK on the responder, or make it optional on the initiator (strongSwan: ppk_required; "
                .. "libreswan: ppk). If it is optional already, check that the capture has UDP ports 500 and 4500, "
                .. "and look for this time in the initiator's log.",
    },
    {
        code = "initiator-silent", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 2.1; RFC 9867", subject = "RESPONSE",
        when = function(f)
            return f.outcome == "half-open" and f.last_type == "IKE_INTERMEDIATE" and f.uses_ppk_in_intermediate
        end,
        sentence =
            "The initiator did not continue the set-up after the response to {last_type} {last_message_id}, "
                .. "although the capture goes on. Both sides announced a post-quantum pre-shared key (PPK) for this "
                .. "exchange: consistent with PPKs that differ, or with an initiator that refused the response for "
                .. "another reason, gave up, or did not receive it.",
        remedy = "Compare the PPKs of both sides and their identities (PPK_ID), and look for this time in the "
            .. "initiator's log. Give the keys (--keys with a log of the daemon) to read the response.",
    },
    {
        code = "initiator-silent", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 2.1", subject = "RESPONSE",
        when = function(f)
            return f.outcome == "half-open"
        end,
        sentence =
            "The initiator did not continue the set-up after the response to {last_type} {last_message_id}, "
                .. "although the capture goes on: consistent with one that refused the response, gave up, or did not "
                .. "receive it.",
        remedy =
            "Check first that the capture has UDP ports 500 and 4500: many initiators change to 4500 after "
                .. "IKE_SA_INIT, and messages there without the non-ESP marker (RFC 3948, 2.2) count as ESP. Then look "
                .. "for this time in the initiator's log: it may have refused the response (and then deleted the IKE "
                .. "SA), given up, or not received it. If the capture was taken at the responder, its next request "
                .. "may also have been lost on the way, as large packets are on a path that drops them.",
    },
}
