"""Runs one case of a scenario. `case_run` is the order of the steps and stores the results, `case_hosts` builds hosts
and links, `running_case` starts daemons and a recording and makes the handshakes.
"""
