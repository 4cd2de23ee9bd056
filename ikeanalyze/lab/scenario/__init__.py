"""Scenarios of the lab: TOML files whose lists are the dimensions of a matrix of cases.

`settings` has the keys of a scenario, `links` those of its links, and `case` one combination of their values.
`expansion` reads files and makes the cases, and `conflicts` finds values that contradict each other.
"""
