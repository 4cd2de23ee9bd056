--[[ The rules of the diagnosis, in order of precedence: those of `ikeanalyze` (`diagnosis/rules.py`), with the same
codes and texts; tests compare both tables.

Of each effect, the first rule that applies gives the diagnosis, so a rule can rely on the ones before it; those with
`also` are other explanations of the same. A rule is {code, effect, confidence, rfc, subject, also, when, sentence,
remedy}. It applies if `when` holds and all facts are known that its texts name in braces: the facts `f` of the module
`facts`. `subject` is the fact that is the message which the diagnosis concerns. ]]
local after_set_up = require("ikex.diagnosis.after_set_up")
local drawbacks = require("ikex.diagnosis.drawbacks")
local named_causes = require("ikex.diagnosis.named_causes")
local packet_patterns = require("ikex.diagnosis.packet_patterns")

local rules = {}

--- The table.
rules.RULES = {}
for _, part in ipairs({ named_causes, packet_patterns, after_set_up, drawbacks }) do
    for _, rule in ipairs(part) do
        rules.RULES[#rules.RULES + 1] = rule
    end
end

--- Rules of `ikeanalyze` that are not in the table: {code, confidence, reason}.
rules.OMITTED = {
    {
        code = "rtt-exceeds-timer", confidence = "certain",
        reason = "the plugin does not know the round-trip time of the path: it has no option for it, and reads no "
            .. "manifest of the lab",
    },
}

--- Codes that come from ICMP errors, which the plugin does not read.
for _, code in ipairs({
    "packet-too-big", "reassembly-timeout", "port-unreachable", "admin-prohibited", "host-unreachable",
}) do
    rules.OMITTED[#rules.OMITTED + 1] = {
        code = code, confidence = "consistent with",
        reason = "the plugin reads the packets of IKE and RADIUS alone, and no ICMP errors about them",
    }
end

-- Effects whose diagnoses are notes, not warnings.
local IS_MINOR = { slowed = true, weakened = true }

--- The name of the expert info of a rule's diagnosis: "diagnosis.large_packets_lost", or "diagnosis_minor." with the
-- code of a note. Each code has one, because Wireshark groups expert infos by their names.
function rules.expert_name(rule)
    return (IS_MINOR[rule.effect] and "diagnosis_minor." or "diagnosis.") .. rule.code:gsub("%-", "_")
end

--- Options of the command that remedies name, as patterns, and words for the plugin in their place.
rules.OPTIONS = {
    ["%-%-keys with a log of the daemon"] = "preference ikex.keys: a log of the daemon",
    ["Give %-%-vantage and %-%-rtt for exact times"] =
        "`ikeanalyze report` has exact times, if you give it --vantage and --rtt",
}

return rules
