--[[ Prints the table of rules of the diagnosis: the values of a rule in one line, separated by tabs. ]]
package.path = "./?.lua;" .. package.path
local rules = require("ikex.diagnosis.rules")

for _, rule in ipairs(rules.RULES) do
    print(table.concat({
        rule.code, rule.effect, rule.confidence, rule.rfc, rule.subject, tostring(rule.also or false), rule.sentence,
        rule.remedy,
    }, "\t"))
end
for _, rule in ipairs(rules.OMITTED) do
    print(table.concat({ "omitted", rule.code, rule.confidence }, "\t"))
end
