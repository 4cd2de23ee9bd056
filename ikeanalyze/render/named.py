"""An analysis whose clear payloads were named for a drawing, without what only keys tell."""

from dataclasses import replace

import polars as pl

from ikeanalyze.analysis.result import Analysis


def drop_inferred_payloads(analysis: Analysis) -> Analysis:
    """The same numbers as without names: what reading with `payloads` adds to handshakes that no key fits is taken away.

    Of those, only IKE_SA_INIT was read; their bytes by payload would be a list of what was not.
    """
    opened = analysis.messages.filter(pl.col("decrypted"))["handshake"].unique()
    known = pl.col("handshake").is_in(opened.implode())
    return replace(
        analysis,
        handshakes=analysis.handshakes.with_columns(
            pl.when(known).then(pl.col(name)).alias(name) for name in ("payload_bytes", "key_exchanges", "certificates")
        ),
    )
