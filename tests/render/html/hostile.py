"""An analysis of which every text that may come out of a capture would like to be markup."""

from dataclasses import replace

import polars as pl

from ikeanalyze.analysis.result import AnalysisWarning, SkippedFile
from tests.render.analysis_examples import analysis

HOSTILE = "</script></style></title><script>hacked=1</script><img src=x onerror=hacked=1>\"'{{7*7}}"


def hostile():
    a = analysis([1, 2, 3, 6], warnings=[AnalysisWarning(HOSTILE, 1, HOSTILE)], skipped=[SkippedFile(HOSTILE, HOSTILE)])
    texts = [name for name, kind in a.handshakes.schema.items() if kind == pl.String and name not in ("spi_i", "spi_r")]
    lists = [name for name, kind in a.handshakes.schema.items() if kind == pl.List(pl.String)]
    return replace(
        a,
        captures=[replace(a.captures[0], path=HOSTILE, format=HOSTILE)],
        handshakes=a.handshakes.with_columns(
            *(pl.lit(HOSTILE).alias(name) for name in texts),
            *(pl.lit([HOSTILE]).alias(name) for name in lists),
            pl.lit(HOSTILE).cast(pl.Categorical).alias("capture"),
            pl.col("payload_bytes").list.eval(
                pl.struct(pl.lit(HOSTILE).alias("payload"), pl.element().struct.field("bytes"))
            ),
        ),
        messages=a.messages.with_columns(
            pl.lit([HOSTILE]).alias("payloads"), pl.lit(HOSTILE).cast(pl.Categorical).alias("type")
        ),
        exchanges=a.exchanges.with_columns(
            pl.lit(HOSTILE).cast(pl.Categorical).alias("type"), pl.lit(HOSTILE).alias("extra_round_trip")
        ),
    )
