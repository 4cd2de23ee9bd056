--[[ Facts for the rules of the diagnosis about the negotiation: proposals, supported extensions, and decrypted payloads
of handshakes that failed or have no CHILD_SA. See the module `facts`. ]]
local contents = require("ikex.contents")
local decrypted = require("ikex.diagnosis.decrypted")
local ikev1 = require("ikex.ikev1")
local message = require("ikex.message")
local names = require("ikex.names")
local proposals = require("ikex.proposals")

local providers = {}

local NONE = {}
local IKE_SA_INIT = 34
local INTERMEDIATE_SUPPORTED, INVALID_KE_PAYLOAD = 16438, 17
local AUTHENTICATION_METHOD = 3 -- attribute of IKEv1's phase 1
-- Authentication with pre-shared keys (RFC 2409, appendix A; draft-ietf-ipsec-isakmp-xauth-06).
local CLEAR_EXCHANGES = 2 -- of IKEv1's main mode, before the encrypted one
local PRE_SHARED = { [1] = true, [65001] = true, [65002] = true }

-- Bytes of the output of the PRFs whose names do not tell them; others are AES with blocks of 16 bytes.
local PRF_BYTES, SHORTEST_PRF = { ["HMAC-MD5"] = 16, ["HMAC-SHA1"] = 20, ["HMAC-TIGER"] = 24 }, 16

-- Proposals and supported extensions.

local function describe_all(list)
    local texts = {}
    for index, proposal in ipairs(list) do
        texts[index] = proposals.describe(proposal)
    end
    return texts
end

-- The proposals for the IKE SA, as texts.
function providers.proposals(facts)
    local sa = facts.sa
    if sa.version == 2 then
        return sa.init_request and describe_all(contents.proposals(sa.init_request)) or NONE
    end
    for _, content in ipairs(sa.contents or NONE) do
        local payload = content.from_initiator and not content.encrypted and contents.first(content, ikev1.SA)
        if payload then
            return ikev1.describe_proposals(message.body(content.data, payload))
        end
    end
    return NONE
end

function providers.offered(facts)
    local offers = table.concat(facts.proposals, " or ")
    return offers ~= "" and ": " .. offers or ""
end

-- Whether proposals have an additional key exchange: any of them, and all.
function providers.offered_addke(facts)
    return facts.offered:find("ADDKE", 1, true) ~= nil
end

-- Whether the proposals are known: a truncated request without any may have some.
function providers.knows_offer(facts)
    local content = facts.sa.init_request
    return #facts.proposals > 0 or not (facts.sa.version == 2 and content and contents.is_truncated(content))
end

function providers.all_with_addke(facts)
    for _, text in ipairs(facts.proposals) do
        if not text:find("ADDKE", 1, true) then
            return false
        end
    end
    return true
end

-- The proposal for the IKE SA that was chosen, in IKE_SA_INIT or in the CREATE_CHILD_SA exchange of another IKE SA.
function providers.chosen(facts)
    if facts.reason == "REKEYED" then
        return (facts.capture.negotiated[facts.sa.spi_i .. facts.sa.spi_r] or NONE).proposal
    end
    return facts.sa.init_response and contents.proposals(facts.sa.init_response)[1]
end

function providers.key_exchange(facts)
    return facts.chosen and proposals.name_of(facts.chosen, proposals.KE)
end

function providers.additional_key_exchanges(facts)
    return #proposals.additional(facts.chosen)
end

function providers.chosen_addke(facts)
    local methods = {}
    for index, chosen in ipairs(proposals.additional(facts.chosen)) do
        methods[index] = names.of(names.method, chosen.method)
    end
    return table.concat(methods, " and ")
end

-- The IKE_INTERMEDIATE exchanges that the chosen additional key exchanges need, and how many the initiator can have
-- made before IKE_AUTH; nil if there is no IKE_AUTH.
function providers.needed_addke(facts)
    return facts.additional_key_exchanges
end

function providers.made_addke(facts)
    return facts.first_auth_id and math.max(facts.first_auth_id - 1, 0)
end

local function supports_intermediate(content)
    return content ~= nil and contents.notify(content, INTERMEDIATE_SUPPORTED) ~= nil
end

function providers.initiator_supports_intermediate(facts)
    return supports_intermediate(facts.sa.init_request)
end

-- Whether the response, as far as the capture has it, lacks the announcement: a truncated one may have it.
function providers.responder_lacks_intermediate(facts)
    return not facts.is_init_response_truncated and not supports_intermediate(facts.sa.init_response)
end

-- Whether the capture has only the beginning of the last IKE_SA_INIT response.
function providers.is_init_response_truncated(facts)
    local responses = facts.init and facts.init.responses or NONE
    local latest = responses[#responses]
    local data = latest and latest.datagrams[1].data
    return data ~= nil and message.is_truncated(data)
end

-- Whether the initiator offers a PPK, and whether the responder accepts one (RFC 8784, 3; RFC 9867), or accepts none.
function providers.initiator_offers_ppk(facts)
    local content = facts.sa.init_request
    return content ~= nil and contents.announces_ppk(content)
end

function providers.responder_accepts_ppk(facts)
    local content = facts.sa.init_response
    return content ~= nil and contents.announces_ppk(content)
end

-- Whether both sides announce a PPK in IKE_INTERMEDIATE (RFC 9867).
function providers.uses_ppk_in_intermediate(facts)
    local request, response = facts.sa.init_request, facts.sa.init_response
    return request ~= nil and response ~= nil and contents.announces_intermediate_ppk(request)
        and contents.announces_intermediate_ppk(response)
end

-- Whether both sides announce a PPK on which AUTH depends (RFC 8784, 3). One in IKE_INTERMEDIATE is confirmed before.
function providers.uses_ppk_in_auth(facts)
    local request, response = facts.sa.init_request, facts.sa.init_response
    return request ~= nil and response ~= nil and contents.notify(request, message.USE_PPK) ~= nil
        and contents.notify(response, message.USE_PPK) ~= nil
end

function providers.responder_declines_ppk(facts)
    return not facts.is_init_response_truncated and not facts.responder_accepts_ppk
end

-- The notifies that asked for another IKE_SA_INIT request, in order; the last one may have had no further request.
local function list_refusals(facts)
    local refusals = {}
    for index, reason in ipairs(facts.summary.extra) do
        refusals[index] = reason
    end
    if facts.reason == "COOKIE" or facts.reason == "INVALID_KE_PAYLOAD" then
        refusals[#refusals + 1] = facts.reason
    end
    return refusals
end

-- How many of the last requests in a row the responder refused with COOKIE. One that refuses the key exchange method
-- has accepted the cookie before (RFC 7296, 2.6.1).
function providers.cookies(facts)
    local refusals = list_refusals(facts)
    local count = 0
    while count < #refusals and refusals[#refusals - count] == "COOKIE" do
        count = count + 1
    end
    return count
end

function providers.refused_methods(facts)
    local count = 0
    for _, reason in ipairs(list_refusals(facts)) do
        count = count + (reason == "INVALID_KE_PAYLOAD" and 1 or 0)
    end
    return count
end

-- The key exchange method that the last INVALID_KE_PAYLOAD asks for: " (ECP-384)".
function providers.wants_method(facts)
    local text = ""
    for _, content in ipairs(facts.sa.contents or NONE) do
        local notify = facts.sa.version == 2 and content.pair.exchange == IKE_SA_INIT and content.response
            and contents.notify(content, INVALID_KE_PAYLOAD)
        if notify and #notify.data >= 2 then
            local high, low = notify.data:byte(1, 2)
            text = string.format(" (%s)", names.of(names.method, high * 256 + low))
        end
    end
    return text
end

-- A function: the bytes for payloads and padding in an encrypted message of a length, without headers, IV, pad length
-- and ICV; nil if they are unknown.
function providers.get_room(facts)
    local encryption = facts.chosen and proposals.name_of(facts.chosen, proposals.ENCR)
    local tag = tonumber(
        encryption and (encryption:match("%-[GC]CM%-(%d+)") or encryption:match("^CHACHA20") and 16) or nil
    )
    if encryption and not tag then
        local bits = tonumber((proposals.name_of(facts.chosen, proposals.INTEG) or ""):match("%-(%d+)$"))
        tag = bits and math.floor(bits / 8)
    end
    local vector = encryption and encryption:find("CBC", 1, true) and 16 or 8
    return function(ike_bytes)
        return tag and ike_bytes - (28 + 4 + 1) - vector - tag
    end
end

-- The same of the last response, if it is short.
function providers.response_room(facts)
    return facts.response_ike_bytes and facts.get_room(facts.response_ike_bytes)
end

-- Least bytes of an identity and an AUTH payload in a response: two payload headers with 4 more bytes each, and the
-- output of the PRF. Identities may be empty (RFC 7619, 2.2). AUTH of pre-shared keys, of the key of an EAP method and
-- of NULL authentication is the output of the PRF (RFC 7296, 2.15 and 2.16; RFC 7619, 2.1). Signatures have 64 bytes or
-- more, as many as the longest output of a PRF (apart from DSS with SHA-1, which RFC 8247, 3.1, advises against).
function providers.auth_room(facts)
    local prf = facts.chosen and proposals.name_of(facts.chosen, proposals.PRF) or ""
    local bits = tonumber(prf:match("^HMAC%-.*%-(%d+)$"))
    return 8 + 8 + (bits and math.floor(bits / 8) or PRF_BYTES[prf] or SHORTEST_PRF)
end

-- Least bytes of an AUTH payload.
function providers.auth_payload_room(facts)
    return facts.auth_room - 8
end

-- Whether IKEv1 authenticates the initiator with a pre-shared key.
function providers.initiator_has_psk(facts)
    local attributes = (facts.sa.phase1 or NONE).attributes
    return attributes ~= nil and PRE_SHARED[attributes[AUTHENTICATION_METHOD]] == true
end

function providers.is_ikev1(facts)
    return facts.sa.version == 1
end

-- Whether the last exchange is the first encrypted one of IKEv1's main mode with pre-shared keys.
function providers.begins_to_encrypt(facts)
    return facts.is_ikev1 and facts.last_type == "Main Mode" and facts.answered == CLEAR_EXCHANGES
        and facts.initiator_has_psk
end

-- Decrypted payloads of handshakes that failed, or that have no CHILD_SA.

function providers.auths(facts)
    local refused = facts.outcome == "failed" or facts.child_error ~= nil
    return refused and decrypted.list_auths(facts.sa) or NONE
end

function providers.child_error(facts)
    return facts.outcome == "established" and decrypted.find_child_error(facts.sa) or nil
end

function providers.rejected_by(facts)
    return facts.outcome == "failed" and decrypted.find_rejecting_side(facts.sa) or nil
end

function providers.eap_failed(facts)
    return decrypted.find_eap_failure(facts.auths)
end

function providers.initiator_identity(facts)
    return decrypted.find_identity(facts.auths, false, decrypted.IDI)
end

function providers.wanted_identity(facts)
    return decrypted.find_identity(facts.auths, false, decrypted.IDR)
end

function providers.responder_identity(facts)
    return decrypted.find_identity(facts.auths, true, decrypted.IDR)
end

function providers.certificate_problem(facts)
    return decrypted.find_certificate_problem(facts.auths, facts.sa.start)
end

function providers.identities(facts)
    local parts = {}
    for _, labelled in ipairs({
        { "initiator", facts.initiator_identity },
        { "wanted responder", facts.wanted_identity },
        { "responder", facts.responder_identity },
    }) do
        parts[#parts + 1] = labelled[2] and string.format('%s "%s"', labelled[1], labelled[2])
    end
    return #parts > 0 and string.format(" (%s)", table.concat(parts, ", ")) or ""
end

function providers.gateway(facts)
    local gateway = decrypted.find_redirect_gateway(facts.auths)
    return gateway and string.format(" (%s)", gateway) or ""
end

function providers.between(facts)
    local selectors = decrypted.describe_selectors(facts.auths)
    return selectors and string.format(" (%s)", selectors) or ""
end

function providers.child_of(facts)
    local offered = decrypted.list_child_proposals(facts.auths)
    return offered and ": " .. table.concat(describe_all(offered), " or ") or ""
end

return providers
