"""Columns of facts from decrypted payloads, apart from their reader, which loads the parsers of payloads."""

from typing import Final

import polars as pl

from ikeanalyze.analysis import schema

#: All of them are null without keys.
DECRYPTED_FACTS: Final[schema.Schema] = {
    "initiator_identity": pl.String,  # IDi
    "wanted_identity": pl.String,  # IDr of the request: the responder that the initiator wants
    "responder_identity": pl.String,  # IDr of the response
    "rejected_by": pl.String,  # who sent AUTHENTICATION_FAILED
    "eap_failed": pl.String,  # "EAP failure"
    "certificate_problem": pl.String,  # "the responder's certificate CN=gw.example expired on 2026-01-31, ..."
    "selectors": pl.String,  # requested for the CHILD_SA: "10.1.0.0/16 to 10.2.0.0/16"
    "child_offered": pl.String,  # proposals for the CHILD_SA
}
