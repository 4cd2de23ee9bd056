"""IKE and ESP cryptography: algorithms, key schedules, encrypted payloads, AUTH, certificate chains.

Works on bytes and keys in memory; reading key files is the task of `ikeanalyze.keys`.
"""
