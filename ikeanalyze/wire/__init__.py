"""Parses and encodes protocol data: IKEv2, IKEv1, EAP, HIP, RADIUS and X.509.

Sans-IO: no module opens a file or a socket, or imports another package of ikeanalyze.
"""
