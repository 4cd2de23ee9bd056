--[[ Names from the IANA registries, some of which the running Wireshark may lack or have wrong. ]]
local names = {}

--- Exchange types (RFC 7296, 3.1; RFC 9242; RFC 9370).
names.exchange = {
    [34] = "IKE_SA_INIT", [35] = "IKE_AUTH", [36] = "CREATE_CHILD_SA", [37] = "INFORMATIONAL",
    [38] = "IKE_SESSION_RESUME", [39] = "GSA_AUTH", [40] = "GSA_REGISTRATION", [41] = "GSA_REKEY",
    [42] = "GSA_INBAND_REKEY", [43] = "IKE_INTERMEDIATE", [44] = "IKE_FOLLOWUP_KE",
}

--- Exchange types of IKEv1 (RFC 2408, 3.1; RFC 2409).
names.exchange1 = {
    [1] = "Base", [2] = "Main Mode", [3] = "Authentication Only", [4] = "Aggressive Mode", [5] = "Informational",
    [6] = "Transaction", [32] = "Quick Mode", [33] = "New Group Mode",
}

--- Payload types by their notation (RFC 7296, 3.2).
names.payload = {
    [33] = "SA", [34] = "KE", [35] = "IDi", [36] = "IDr", [37] = "CERT", [38] = "CERTREQ", [39] = "AUTH", [40] = "No",
    [41] = "N", [42] = "D", [43] = "V", [44] = "TSi", [45] = "TSr", [46] = "SK", [47] = "CP", [48] = "EAP",
    [49] = "GSPM", [50] = "IDg", [51] = "GSA", [52] = "KD", [53] = "SKF", [54] = "PS",
}

--- Payload types of IKEv1, in the notation of RFC 2409 (RFC 2408, 3.1; RFC 3947).
names.payload1 = {
    [1] = "SA", [4] = "KE", [5] = "ID", [6] = "CERT", [7] = "CR", [8] = "HASH", [9] = "SIG", [10] = "No", [11] = "N",
    [12] = "D", [13] = "V", [14] = "ATTR", [20] = "NAT-D", [21] = "NAT-OA", [132] = "FRAGMENT",
}

--- Transform types (RFC 7296, 3.3.2; RFC 9370, 2.2.1).
names.transform_type = {
    [1] = "ENCR", [2] = "PRF", [3] = "INTEG", [4] = "KE", [5] = "SN", [6] = "ADDKE1", [7] = "ADDKE2", [8] = "ADDKE3",
    [9] = "ADDKE4", [10] = "ADDKE5", [11] = "ADDKE6", [12] = "ADDKE7", [13] = "KWA", [14] = "GCAUTH",
}

--- Key exchange methods: transform types 4 and 6 to 12, and the KE payload.
names.method = {
    [0] = "NONE", [1] = "MODP-768", [2] = "MODP-1024", [5] = "MODP-1536", [14] = "MODP-2048", [15] = "MODP-3072",
    [16] = "MODP-4096", [17] = "MODP-6144", [18] = "MODP-8192", [19] = "ECP-256", [20] = "ECP-384", [21] = "ECP-521",
    [22] = "MODP-1024-160", [23] = "MODP-2048-224", [24] = "MODP-2048-256", [25] = "ECP-192", [26] = "ECP-224",
    [27] = "BRAINPOOL-P224R1", [28] = "BRAINPOOL-P256R1", [29] = "BRAINPOOL-P384R1", [30] = "BRAINPOOL-P512R1",
    [31] = "X25519", [32] = "X448", [33] = "GOST3410-2012-256", [34] = "GOST3410-2012-512", [35] = "ML-KEM-512",
    [36] = "ML-KEM-768", [37] = "ML-KEM-1024",
}

names.encryption = {
    [1] = "DES-IV64", [2] = "DES", [3] = "3DES", [4] = "RC5", [5] = "IDEA", [6] = "CAST", [7] = "BLOWFISH",
    [8] = "3IDEA", [9] = "DES-IV32", [11] = "NULL", [12] = "AES-CBC", [13] = "AES-CTR", [14] = "AES-CCM-8",
    [15] = "AES-CCM-12",
    [16] = "AES-CCM-16", [18] = "AES-GCM-8", [19] = "AES-GCM-12", [20] = "AES-GCM-16",
    [21] = "NULL-AUTH-AES-GMAC", [23] = "CAMELLIA-CBC",
    [24] = "CAMELLIA-CTR", [25] = "CAMELLIA-CCM-8", [26] = "CAMELLIA-CCM-12", [27] = "CAMELLIA-CCM-16",
    [28] = "CHACHA20-POLY1305", [29] = "AES-CCM-8-IIV", [30] = "AES-GCM-16-IIV", [31] = "CHACHA20-POLY1305-IIV",
    [32] = "KUZNYECHIK-MGM-KTREE", [33] = "MAGMA-MGM-KTREE", [34] = "KUZNYECHIK-MGM-MAC-KTREE",
    [35] = "MAGMA-MGM-MAC-KTREE",
}

names.prf = {
    [1] = "HMAC-MD5", [2] = "HMAC-SHA1", [3] = "HMAC-TIGER", [4] = "AES128-XCBC", [5] = "HMAC-SHA2-256",
    [6] = "HMAC-SHA2-384", [7] = "HMAC-SHA2-512", [8] = "AES128-CMAC", [9] = "HMAC-STREEBOG-512",
}

names.integrity = {
    [0] = "NONE", [1] = "HMAC-MD5-96", [2] = "HMAC-SHA1-96", [3] = "DES-MAC", [4] = "KPDK-MD5", [5] = "AES-XCBC-96",
    [6] = "HMAC-MD5-128", [7] = "HMAC-SHA1-160", [8] = "AES-CMAC-96", [9] = "AES-128-GMAC", [10] = "AES-192-GMAC",
    [11] = "AES-256-GMAC",
    [12] = "HMAC-SHA2-256-128", [13] = "HMAC-SHA2-384-192",
    [14] = "HMAC-SHA2-512-256", [1027] = "HMAC-SHA2-256-96",
}

names.sequence_numbers = { [0] = "NO-ESN", [1] = "ESN", [2] = "UNSPECIFIED-32" }
names.key_wrap = { [1] = "KW-5649-128", [2] = "KW-5649-192", [3] = "KW-5649-256", [4] = "KW-ARX" }
names.group_controller_authentication = { [1] = "IMPLICIT", [2] = "DIGITAL-SIGNATURE" }

--- Values of the attributes of IKEv1's phase 1 (RFC 2409, appendix A, and others), by attribute.
names.phase1 = {
    [1] = {
        [1] = "DES-CBC", [2] = "IDEA-CBC", [3] = "BLOWFISH-CBC", [4] = "RC5-R16-B64-CBC", [5] = "3DES-CBC",
        [6] = "CAST-CBC", [7] = "AES-CBC", [8] = "CAMELLIA-CBC",
    },
    [2] = {
        [1] = "MD5", [2] = "SHA1", [3] = "TIGER", [4] = "SHA2-256", [5] = "SHA2-384", [6] = "SHA2-512",
    },
    [3] = {
        [1] = "PSK", [2] = "DSS-SIG", [3] = "RSA-SIG", [4] = "RSA-ENC", [5] = "RSA-ENC-REVISED", [9] = "ECDSA-256",
        [10] = "ECDSA-384", [11] = "ECDSA-521", [64221] = "HybridInitRSA", [64222] = "HybridRespRSA",
        [64223] = "HybridInitDSS", [64224] = "HybridRespDSS", [65001] = "XAuthInitPSK", [65002] = "XAuthRespPSK",
        [65003] = "XAuthInitDSS", [65004] = "XAuthRespDSS", [65005] = "XAuthInitRSA", [65006] = "XAuthRespRSA",
        [65007] = "XAuthInitRSAEnc", [65008] = "XAuthRespRSAEnc", [65009] = "XAuthInitRSAEncRevised",
        [65010] = "XAuthRespRSAEncRevised",
    },
    [4] = {
        [3] = "EC2N-155", [4] = "EC2N-185", [6] = "EC2N-163-6", [7] = "EC2N-163-7", [8] = "EC2N-283-8",
        [9] = "EC2N-283-9", [10] = "EC2N-409-10", [11] = "EC2N-409-11", [12] = "EC2N-571-12", [13] = "EC2N-571-13",
    },
}

--- Notify message types (RFC 7296, 3.10.1).
names.notify = {
    [1] = "UNSUPPORTED_CRITICAL_PAYLOAD", [4] = "INVALID_IKE_SPI", [5] = "INVALID_MAJOR_VERSION",
    [7] = "INVALID_SYNTAX",
    [9] = "INVALID_MESSAGE_ID", [11] = "INVALID_SPI", [14] = "NO_PROPOSAL_CHOSEN", [17] = "INVALID_KE_PAYLOAD",
    [24] = "AUTHENTICATION_FAILED", [34] = "SINGLE_PAIR_REQUIRED", [35] = "NO_ADDITIONAL_SAS",
    [36] = "INTERNAL_ADDRESS_FAILURE", [37] = "FAILED_CP_REQUIRED", [38] = "TS_UNACCEPTABLE",
    [39] = "INVALID_SELECTORS",
    [40] = "UNACCEPTABLE_ADDRESSES", [41] = "UNEXPECTED_NAT_DETECTED", [42] = "USE_ASSIGNED_HoA",
    [43] = "TEMPORARY_FAILURE", [44] = "CHILD_SA_NOT_FOUND", [45] = "INVALID_GROUP_ID", [46] = "AUTHORIZATION_FAILED",
    [47] = "STATE_NOT_FOUND", [48] = "TS_MAX_QUEUE", [49] = "REGISTRATION_FAILED",
    [16384] = "INITIAL_CONTACT", [16385] = "SET_WINDOW_SIZE", [16386] = "ADDITIONAL_TS_POSSIBLE",
    [16387] = "IPCOMP_SUPPORTED", [16388] = "NAT_DETECTION_SOURCE_IP", [16389] = "NAT_DETECTION_DESTINATION_IP",
    [16390] = "COOKIE", [16391] = "USE_TRANSPORT_MODE", [16392] = "HTTP_CERT_LOOKUP_SUPPORTED", [16393] = "REKEY_SA",
    [16394] = "ESP_TFC_PADDING_NOT_SUPPORTED", [16395] = "NON_FIRST_FRAGMENTS_ALSO", [16396] = "MOBIKE_SUPPORTED",
    [16397] = "ADDITIONAL_IP4_ADDRESS", [16398] = "ADDITIONAL_IP6_ADDRESS", [16399] = "NO_ADDITIONAL_ADDRESSES",
    [16400] = "UPDATE_SA_ADDRESSES", [16401] = "COOKIE2", [16402] = "NO_NATS_ALLOWED", [16403] = "AUTH_LIFETIME",
    [16404] = "MULTIPLE_AUTH_SUPPORTED", [16405] = "ANOTHER_AUTH_FOLLOWS", [16406] = "REDIRECT_SUPPORTED",
    [16407] = "REDIRECT", [16408] = "REDIRECTED_FROM", [16409] = "TICKET_LT_OPAQUE", [16410] = "TICKET_REQUEST",
    [16411] = "TICKET_ACK", [16412] = "TICKET_NACK", [16413] = "TICKET_OPAQUE", [16414] = "LINK_ID",
    [16415] = "USE_WESP_MODE", [16416] = "ROHC_SUPPORTED", [16417] = "EAP_ONLY_AUTHENTICATION",
    [16418] = "CHILDLESS_IKEV2_SUPPORTED", [16419] = "QUICK_CRASH_DETECTION",
    [16420] = "IKEV2_MESSAGE_ID_SYNC_SUPPORTED", [16421] = "IPSEC_REPLAY_COUNTER_SYNC_SUPPORTED",
    [16422] = "IKEV2_MESSAGE_ID_SYNC", [16423] = "IPSEC_REPLAY_COUNTER_SYNC", [16424] = "SECURE_PASSWORD_METHODS",
    [16425] = "PSK_PERSIST", [16426] = "PSK_CONFIRM", [16427] = "ERX_SUPPORTED", [16428] = "IFOM_CAPABILITY",
    [16429] = "GROUP_SENDER", [16430] = "IKEV2_FRAGMENTATION_SUPPORTED", [16431] = "SIGNATURE_HASH_ALGORITHMS",
    [16432] = "CLONE_IKE_SA_SUPPORTED", [16433] = "CLONE_IKE_SA", [16434] = "PUZZLE", [16435] = "USE_PPK",
    [16436] = "PPK_IDENTITY", [16437] = "NO_PPK_AUTH", [16438] = "INTERMEDIATE_EXCHANGE_SUPPORTED",
    [16439] = "IP4_ALLOWED", [16440] = "IP6_ALLOWED", [16441] = "ADDITIONAL_KEY_EXCHANGE", [16442] = "USE_AGGFRAG",
    [16443] = "SUPPORTED_AUTH_METHODS", [16444] = "SA_RESOURCE_INFO", [16445] = "USE_PPK_INT",
    [16446] = "PPK_IDENTITY_KEY", [16447] = "IKE_SA_INIT_FULL_TRANSCRIPT_AUTH",
}

--- Error notifies of IKEv1 (RFC 2408, 3.14.1).
names.notify1 = {
    [1] = "INVALID-PAYLOAD-TYPE", [2] = "DOI-NOT-SUPPORTED", [3] = "SITUATION-NOT-SUPPORTED", [4] = "INVALID-COOKIE",
    [5] = "INVALID-MAJOR-VERSION", [6] = "INVALID-MINOR-VERSION", [7] = "INVALID-EXCHANGE-TYPE", [8] = "INVALID-FLAGS",
    [9] = "INVALID-MESSAGE-ID", [10] = "INVALID-PROTOCOL-ID", [11] = "INVALID-SPI", [12] = "INVALID-TRANSFORM-ID",
    [13] = "ATTRIBUTES-NOT-SUPPORTED", [14] = "NO-PROPOSAL-CHOSEN", [15] = "BAD-PROPOSAL-SYNTAX",
    [16] = "PAYLOAD-MALFORMED", [17] = "INVALID-KEY-INFORMATION", [18] = "INVALID-ID-INFORMATION",
    [19] = "INVALID-CERT-ENCODING", [20] = "INVALID-CERTIFICATE", [21] = "CERT-TYPE-UNSUPPORTED",
    [22] = "INVALID-CERT-AUTHORITY", [23] = "INVALID-HASH-INFORMATION", [24] = "AUTHENTICATION-FAILED",
    [25] = "INVALID-SIGNATURE", [26] = "ADDRESS-NOTIFICATION", [27] = "NOTIFY-SA-LIFETIME",
    [28] = "CERTIFICATE-UNAVAILABLE", [29] = "UNSUPPORTED-EXCHANGE-TYPE", [30] = "UNEQUAL-PAYLOAD-LENGTHS",
}

--- The name of a number; the number as text, if it has no name.
function names.of(registry, number)
    return registry[number] or string.format("%.0f", number)
end

--- Name and number: "ML-KEM-768 (36)"; the number alone, if it has no name.
function names.both(registry, number)
    local name = registry[number]
    return name and string.format("%s (%.0f)", name, number) or string.format("%.0f", number)
end

--- Registry of the transform IDs of a transform type; nil if there is none.
function names.transform_ids(kind)
    if kind == 1 then
        return names.encryption
    elseif kind == 2 then
        return names.prf
    elseif kind == 3 then
        return names.integrity
    elseif kind == 4 or (kind >= 6 and kind <= 12) then
        return names.method
    elseif kind == 5 then
        return names.sequence_numbers
    elseif kind == 13 then
        return names.key_wrap
    elseif kind == 14 then
        return names.group_controller_authentication
    end
    return nil
end

--- Name of the value of an attribute of IKEv1's phase 1.
function names.of_phase1(attribute, value)
    local name = names.phase1[attribute][value]
    if not name and attribute == 4 and value ~= 0 and value < 33 then -- most groups are those of IKEv2
        name = names.method[value]
    end
    return name or string.format("%.0f", value)
end

--- Name of an exchange type of IKEv2 or IKEv1.
function names.of_exchange(version, kind)
    return names.of(version == 2 and names.exchange or names.exchange1, kind)
end

return names
