"""Applies the table of rules to the suspects of a capture."""

from string import Formatter
from typing import Final

import numpy as np
import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.handshakes.diagnosis.rule import Effect, Rule
from ikeanalyze.analysis.handshakes.diagnosis.rules import RULES
from ikeanalyze.capture.arrays import BoolArray, Int64Array

_PROPOSALS: Final = " or "


def diagnose_suspects(handshakes: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """The columns `row` and `diagnosis` of the suspects that rules apply to.

    Args:
        handshakes: rows of the handshakes table of the suspects.
        facts: facts about the suspects in this order (see `suspects.FACTS`).
    """
    suspects = handshakes.with_columns(facts).with_columns(**_DERIVED)
    matches = suspects.select(_applies(rule).alias(str(place)) for place, rule in enumerate(RULES))
    chosen = _choose(matches.to_numpy().astype(np.bool_))
    used = np.flatnonzero(chosen.any(axis=0)).tolist()
    diagnosis = schema.HANDSHAKES["diagnosis"]
    if not used:
        return pl.DataFrame(schema={"row": facts.schema["row"], "diagnosis": diagnosis})
    # in the order of the rules, which grouping keeps
    parts = [_describe(RULES[place], suspects, np.flatnonzero(chosen[:, place])) for place in used]
    found = pl.concat(parts).group_by("row", maintain_order=True).agg("diagnosis")
    return found.with_columns(pl.col("diagnosis").cast(diagnosis))


def _get_tag_bytes() -> pl.Expr:
    """Bytes of the ICV of encrypted messages, by the names of the algorithms: AES-GCM-16-256, HMAC-SHA2-256-128."""
    combined = pl.col("encryption").str.extract(r"-(?:GCM|CCM)-(\d+)").cast(pl.Int64)
    bits = pl.col("integrity").str.extract(r"-(\d+)$").cast(pl.Int64)
    chacha = pl.when(pl.col("encryption").str.starts_with("CHACHA20")).then(16)
    return pl.coalesce(combined, chacha, bits // 8)


def _get_room() -> pl.Expr:
    """Bytes for payloads and padding in the last response, if it is short: without headers, IV, pad length and ICV."""
    vector = pl.when(pl.col("encryption").str.contains("CBC")).then(16).otherwise(8)
    return pl.col("response_ike_bytes") - (28 + 4 + 1) - vector - _get_tag_bytes()


def _behind(side: str) -> pl.Expr:
    """Where packets to this side are lost, if the capture was taken there and has them."""
    text = f" after the capture point, which is on the {side}'s side"
    return pl.when(pl.col("vantage").cast(pl.String) == side).then(pl.lit(text)).otherwise(pl.lit(""))


def _quote(label: str, column: str) -> pl.Expr:
    """A label and an identity in quotation marks; null: not known."""
    return pl.format(label + ' "{}"', pl.col(column))


#: Columns for conditions and sentences, made of others.
_DERIVED: Final = {
    "offered": pl.col("offered").list.join(_PROPOSALS),
    "refusals": pl.col("extra_round_trips").list.len()
    + pl.col("reason").is_in(["COOKIE", "INVALID_KE_PAYLOAD"]).fill_null(False),
    "answered_exchanges": pl.when(pl.col("answered") == 1)
    .then(pl.lit("one answered exchange"))
    .otherwise(pl.format("{} answered exchanges", "answered")),
    "but_smaller": pl.when(pl.col("answered") > 0)
    .then(pl.lit(", although smaller requests were"))
    .otherwise(pl.lit("")),
    "rejection": pl.when("aaa_rejected").then(pl.lit("Access-Reject")).otherwise(pl.coalesce("eap_failed", "reason")),
    "behind_responder": _behind("responder"),
    "behind_initiator": _behind("initiator"),
    "response_room": _get_room(),
    "accepted": pl.coalesce(pl.format(" From another initiator, it accepted {}.", "accepted"), pl.lit("")),
    "wants_method": pl.coalesce(pl.format(" ({})", "wanted_method"), pl.lit("")),
    "later_idle_s": (pl.col("later_idle_ns") / 1e9).round(0).cast(pl.Int64),
    "path_rtt_ms": pl.col("path_rtt_ns") / 1e6,
    "shortest_timer_ms": pl.col("shortest_timer_ns") / 1e6,
    "slow_rtt_s": pl.col("slow_rtt_ns") / 1e9,
    "step_back_s": pl.col("step_back_ns") / 1e9,
    "identities": pl.concat_str(
        pl.lit(" ("),
        pl.concat_list(
            _quote("initiator", "initiator_identity"),
            _quote("wanted responder", "wanted_identity"),
            _quote("responder", "responder_identity"),
        )
        .list.drop_nulls()
        .list.join(", "),
        pl.lit(")"),
    ).replace(" ()", ""),
    "child_of": pl.coalesce(pl.format(": {}", pl.col("child_offered")), pl.lit("")),
    "between": pl.coalesce(pl.format(" ({})", pl.col("selectors")), pl.lit("")),
}


def _applies(rule: Rule) -> pl.Expr:
    """Whether a rule applies: its condition holds, and all that its texts name is known."""
    named = dict.fromkeys(_list_columns(rule.sentence) + _list_columns(rule.remedy))
    return pl.all_horizontal(rule.when.fill_null(False), *(pl.col(name).is_not_null() for name in named))


def _list_columns(template: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(template) if name]


#: Effects that an effect excludes, which is before them in `Effect`.
_EXCLUDED: Final = {
    Effect.UNRELIABLE: tuple(effect for effect in Effect if effect != Effect.UNRELIABLE),
    Effect.STOPPED: (Effect.DISCONNECTED,),
}


def _choose(matches: BoolArray) -> BoolArray:
    """Of the rules that apply, the first one of each effect, and other explanations. (suspects, rules)"""
    chosen = np.zeros_like(matches)
    effects = np.array([rule.effect for rule in RULES])
    for effect in Effect:
        explained = np.zeros(len(matches), np.bool_)
        for place in np.flatnonzero(effects == effect).tolist():
            chosen[:, place] = matches[:, place] & (~explained | RULES[place].also)
            explained |= matches[:, place]
        for excluded in _EXCLUDED.get(effect, ()):
            matches = matches & ~(explained[:, None] & (effects == excluded))
    return chosen


def _describe(rule: Rule, suspects: pl.DataFrame, rows: Int64Array) -> pl.DataFrame:
    """The row of the handshakes table and the diagnosis of each of these suspects."""
    chosen = suspects[rows.tolist()]
    message = rule.subject.value
    kind = pl.col(f"{message.exchange}_kind") if message.kind is None else pl.lit(message.kind)
    by_initiator = pl.col(f"{message.exchange}_by") == "initiator"
    from_initiator = by_initiator == (kind == "request")
    sender = pl.when(from_initiator).then(pl.lit("initiator")).otherwise(pl.lit("responder"))
    result: pl.DataFrame = chosen.select(
        "row",
        pl.struct(
            pl.lit(rule.code).alias("code"),
            pl.lit(str(rule.effect)).alias("effect"),
            pl.lit(str(rule.confidence)).alias("confidence"),
            format_template(rule.sentence, chosen).alias("message"),
            pl.col(f"{message.exchange}_type").alias("exchange"),
            pl.col(f"{message.exchange}_message_id").alias("message_id"),
            sender.alias("sender"),
            kind.alias("kind"),
            pl.col(message.frames).fill_null([]).alias("frames"),
            format_template(rule.remedy, chosen).alias("remedy"),
            pl.lit(rule.rfc).alias("rfc"),
        ).alias("diagnosis"),
    )
    return result


def format_template(template: str, rows: pl.DataFrame) -> pl.Expr | pl.Series:
    """The template with the values of the columns that it names, for each row. Equal texts are made and stored once."""
    columns = list(dict.fromkeys(_list_columns(template)))
    if not columns:
        return pl.lit(template)
    distinct = rows.select(columns).unique(maintain_order=True)
    texts = pl.Series("text", [template.format(**values) for values in distinct.iter_rows(named=True)], dtype=pl.String)
    place = rows.select(columns).join(
        distinct.with_columns(texts), on=columns, how="left", nulls_equal=True, maintain_order="left"
    )
    return place["text"]
