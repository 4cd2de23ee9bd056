"""Applies the table of rules to the suspects of a capture."""

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter, itemgetter
from string import Formatter
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from ikeanalyze.analysis.handshakes.auth_methods import build_type_names
from ikeanalyze.analysis.handshakes.diagnosis.rule import Effect, Rule
from ikeanalyze.analysis.handshakes.diagnosis.rules import RULES
from ikeanalyze.analysis.handshakes.diagnosis.suspect import Suspect
from ikeanalyze.analysis.handshakes.diagnosis.suspects import SuspectFacts, list_suspects
from ikeanalyze.analysis.handshakes.outcome import ACCESS_REJECT, REKEYED
from ikeanalyze.analysis.tables.columns import FlatListColumn, StructColumn, TableColumns, TextColumn
from ikeanalyze.capture.arrays import Int64Array

_SIDES: Final = ("responder", "initiator")
_KINDS: Final = ("request", "response")


def diagnose_suspects(handshakes: TableColumns, facts: SuspectFacts) -> FlatListColumn | None:
    """The column `diagnosis` of the handshakes table; None: no rule applies.

    Args:
        handshakes: the other columns of the table.
        facts: facts about the suspects.
    """
    texts = _Texts()
    found = [
        (number, applied.place, *texts.fill(applied))
        for number, suspect in enumerate(list_suspects(handshakes, facts))
        for applied in _choose(suspect, _REPLACED if suspect.reason == REKEYED else _EFFECTS)
    ]
    if not found:
        return None
    suspect, rule, message, remedy = np.array(found, np.int64).T
    del found
    length = np.full(handshakes.height, -1, np.int64)
    counts = np.bincount(suspect, minlength=len(facts.rows))
    length[facts.rows[counts > 0]] = counts[counts > 0]
    every = list(texts.numbers)
    fields = {
        **{name: TextColumn([str(getattr(rule, name)) for rule in RULES], rule) for name in _OF_RULE},
        "message": TextColumn(every, message),
        "remedy": TextColumn(every, remedy),
        **_describe_subjects(facts, suspect, rule),
    }
    return FlatListColumn(StructColumn(fields), length)


#: Fields of a diagnosis that each rule has.
_OF_RULE: Final = ("code", "effect", "confidence", "rfc")


def _describe_subjects(facts: SuspectFacts, suspect: Int64Array, rule: Int64Array) -> dict[str, Any]:
    """The fields about the message that each diagnosis concerns, from its suspect and the place of its rule."""
    order = np.argsort(rule, kind="stable")
    parts = []
    for place in np.flatnonzero(np.bincount(rule)).tolist():
        parts.append(facts.subjects[RULES[place].subject].select(suspect[rule == place]))
    # in the order of the diagnoses
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))

    def join(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])[back]

    types = build_type_names()
    known, frames = join("known"), [part.frames for part in parts]
    elements, lengths = ([getattr(part, name) for part in frames] for name in ("elements", "length"))
    return {
        "exchange": TextColumn([*types, None], np.where(known, join("exchange_type"), len(types))),
        "message_id": (join("message_id"), known),
        "sender": TextColumn(_SIDES, join("from_initiator").astype(np.uint8)),
        "kind": TextColumn(_KINDS, join("response").astype(np.uint8)),
        "frames": FlatListColumn(np.concatenate(elements), np.concatenate(lengths)).select(back),
    }


def _join_identities(s: Suspect) -> str:
    """The identities that are known, with labels, in parentheses."""
    labelled = (
        ("initiator", s.decrypted.initiator_identity),
        ("wanted responder", s.decrypted.wanted_identity),
        ("responder", s.decrypted.responder_identity),
    )
    return _fill_template(
        " ({})", ", ".join(f'{label} "{name}"' for label, name in labelled if name is not None) or None
    )


def _fill_template(template: str, text: str | None) -> str:
    """The template with a text; empty: there is none."""
    return "" if text is None else template.format(text)


def _describe_loss_place(s: Suspect, side: str) -> str:
    """Where packets to this side are lost, if the capture was taken there and has them."""
    return f" after the capture point, which is on the {side}'s side" if s.vantage == side else ""


def _count_answered(s: Suspect) -> str:
    return "one answered exchange" if s.answered == 1 else f"{s.answered} answered exchanges"


def _count_informationals(s: Suspect) -> str:
    return "an Informational message" if s.informationals == 1 else f"{s.informationals} Informational messages"


def _describe_skipped_ids(s: Suspect) -> str:
    """A request whose message ID is not the one that follows (RFC 7296, 2.2 and 2.3)."""
    before = s.message_id_before
    if s.protocol != "IKEv2" or before is None or s.last_message_id <= before + 1:
        return ""
    return (
        f" Its message ID is {s.last_message_id}, and that of the exchange before {before}: the capture lost an exchange "
        "between them, or the initiator left out an ID, and a responder ignores such requests."
    )


def _get_rejection(s: Suspect) -> str | None:
    if s.aaa_rejected:
        return ACCESS_REJECT
    return s.reason if s.decrypted.eap_failed is None else s.decrypted.eap_failed


def _make_unit_conversion(name: str, unit_ns: float) -> Callable[[Suspect], float | None]:
    """The value of a field of nanoseconds in a larger unit."""

    def convert(s: Suspect) -> float | None:
        time: int | None = getattr(s, name)
        return None if time is None else time / unit_ns

    return convert


def _round_idle_seconds(s: Suspect) -> int | None:
    return None if s.later_idle_ns is None else round(s.later_idle_ns / 1e9)


def _get_of_refused(s: Suspect, name: str) -> Any:
    return getattr(s.refused, name, None)


def _make_refused_value(name: str) -> Callable[[Suspect], Any]:
    """A fact about the request after the set-up that was refused; None: there is none."""
    return lambda s: _get_of_refused(s, name)


def _has_refused_response(s: Suspect) -> bool:
    """The sender of a quick mode refused the response."""
    return s.refused is not None and s.refused.by == s.refused.sender


def _describe_refused_request(s: Suspect) -> str | None:
    """What was refused, in words."""
    if s.refused is None:
        return None
    if s.refused.type == "CREATE_CHILD_SA":
        return s.refused.purpose or "a CREATE_CHILD_SA request"
    return f"an additional key exchange ({s.refused.type}){_fill_template(' of {}', s.refused.purpose)}"


def _make_error_values(kind: str) -> dict[str, Callable[[Suspect], Any]]:
    """Facts about the ICMP errors of the request, the response or the later request; None: there are none."""
    names = {
        f"{kind}_icmp": "description",
        f"{kind}_icmp_sender": "sender",
        f"{kind}_icmp_bytes": "bytes",
        f"{kind}_icmp_port": "port",
        f"{kind}_path_mtu": "path_mtu",
    }

    def make(name: str) -> Callable[[Suspect], Any]:
        return lambda s: getattr(getattr(s, f"{kind}_errors"), name, None)

    return {name: make(field) for name, field in names.items()}


#: What sentences and remedies name, apart from fields of a suspect. None: not known.
_DERIVED: Final[Mapping[str, Callable[[Suspect], Any]]] = {
    "offered": lambda s: _fill_template(": {}", " or ".join(s.offered or ()) or None),
    "chosen_addke": lambda s: " and ".join(chosen["method"] for chosen in s.additional_key_exchanges or ()),
    "needed_addke": lambda s: len(s.additional_key_exchanges or ()),
    "made_addke": lambda s: None if s.first_auth_id is None else max(s.first_auth_id - 1, 0),
    **{name: attrgetter(name) for name in ("cookies", "refused_methods")},
    "skipped_ids": _describe_skipped_ids,
    "answered_exchanges": _count_answered,
    "a_last_by": lambda s: "an initiator" if s.last_by == "initiator" else "a responder",
    "request_receiver": lambda s: "responder" if s.last_by == "initiator" else "initiator",
    "informational_messages": _count_informationals,
    "but_smaller": lambda s: ", although smaller requests were" if s.answered > 0 else "",
    "rejection": _get_rejection,
    "behind_responder": lambda s: _describe_loss_place(s, "responder"),
    "behind_initiator": lambda s: _describe_loss_place(s, "initiator"),
    "accepted": lambda s: _fill_template(" In another handshake, it accepted {}.", s.accepted),
    "wants_method": lambda s: _fill_template(" ({})", s.wanted_method),
    "later_idle_s": _round_idle_seconds,
    "refused_for": _describe_refused_request,
    "refused_times": lambda s: "" if s.refused is None or s.refused.count == 1 else f" {s.refused.count} times",
    "refused_wants": lambda s: _fill_template(" ({})", _get_of_refused(s, "wanted_method")),
    "refused_proposals": lambda s: _fill_template(": {}", _get_of_refused(s, "offered")),
    "refused_between": lambda s: _fill_template(" ({})", _get_of_refused(s, "selectors")),
    "refused_message": lambda s: "the response to its quick mode" if _has_refused_response(s) else "a quick mode",
    "refused_end": lambda s: "was answered but not completed" if _has_refused_response(s) else "got no response",
    **{f"refused_{name}": _make_refused_value(name) for name in ("by", "sender", "type", "notify", "response_bytes")},
    "path_rtt_ms": _make_unit_conversion("path_rtt_ns", 1e6),
    "timer_ms": _make_unit_conversion("timer_ns", 1e6),
    "slow_rtt_s": _make_unit_conversion("slow_rtt_ns", 1e9),
    "step_back_s": _make_unit_conversion("step_back_ns", 1e9),
    "identities": _join_identities,
    "child_of": lambda s: _fill_template(": {}", s.decrypted.child_offered),
    "gateway": lambda s: _fill_template(" ({})", s.decrypted.redirect_gateway),
    "between": lambda s: _fill_template(" ({})", s.decrypted.selectors),
    **{
        name: attrgetter(f"decrypted.{name}")
        for name in ("certificate_problem", "wanted_identity", "responder_identity")
    },
    **_make_error_values("request"),
    **_make_error_values("response"),
    **_make_error_values("later"),
}


#: Everything that a sentence or a remedy may name.
_GETTERS: Final[Mapping[str, Callable[[Suspect], Any]]] = {
    **{name: attrgetter(name) for name in Suspect.__struct_fields__},
    **_DERIVED,
}


class _NamedValues(Struct, frozen=True):
    """What the texts of a rule name."""

    names: tuple[str, ...]
    getters: tuple[Callable[[Suspect], Any], ...]

    def get(self, suspect: Suspect) -> tuple[Any, ...]:
        """The values of the names; None: not known."""
        return tuple([getter(suspect) for getter in self.getters])


def _find_named_values(rule: Rule) -> _NamedValues:
    names = tuple(dict.fromkeys(_list_names(rule.sentence + rule.remedy)))
    return _NamedValues(names, tuple(_GETTERS[name] for name in names))


def _list_names(template: str) -> Iterator[str]:
    return (name for _, name, _, _ in Formatter().parse(template) if name)


_NAMED: Final = tuple(map(_find_named_values, RULES))
#: Effects that an effect excludes, which is before them in `Effect`.
_EXCLUDED: Final = {
    Effect.UNRELIABLE: tuple(effect for effect in Effect if effect != Effect.UNRELIABLE),
    Effect.STOPPED: (Effect.REFUSED, Effect.DISCONNECTED),
}


class _Applied(NamedTuple):
    """A rule that applies."""

    place: int
    values: tuple[Any, ...]  # of the names in its texts


class _EffectRules:
    """The rules of one effect, with their places."""

    def __init__(self, effect: Effect) -> None:
        rules = [(place, rule) for place, rule in enumerate(RULES) if rule.effect == effect]
        self.excluded = _EXCLUDED.get(effect, ())
        self._conditions = [(place, rule.when) for place, rule in rules]
        self._also = [(place, rule.when) for place, rule in rules if rule.also]

    def choose(self, suspect: Suspect) -> list[_Applied]:
        """The first rule that applies, and other explanations.

        A rule applies if its condition holds, and all that its texts name is known.
        """
        for first, condition in self._conditions:
            # most do not hold: nothing else is done for them
            if condition(suspect) and None not in (values := _NAMED[first].get(suspect)):
                chosen = [_Applied(first, values)]
                for place, explains in self._also:
                    if place > first and explains(suspect) and None not in (values := _NAMED[place].get(suspect)):
                        chosen.append(_Applied(place, values))
                return chosen
        return []


_EFFECTS: Final = {effect: _EffectRules(effect) for effect in Effect}
#: Of an IKE SA that replaced another one: the other rules are about the set-up, which it does not have.
_REPLACED: Final = {Effect.REFUSED: _EFFECTS[Effect.REFUSED]}


def _choose(suspect: Suspect, effects: Mapping[Effect, _EffectRules]) -> list[_Applied]:
    """Of the rules that apply, the first one of each effect, and other explanations, in the order of the table."""
    chosen: list[_Applied] = []
    excluded: tuple[Effect, ...] = ()
    for effect, rules in effects.items():
        if effect not in excluded and (applied := rules.choose(suspect)):
            chosen += applied
            excluded += rules.excluded
    return sorted(chosen, key=itemgetter(0))


class _Texts:
    """The sentences and remedies of the diagnoses. Equal ones are made and stored once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}  # of the texts, in order
        self._known: dict[_Applied, tuple[int, int]] = {}

    def fill(self, applied: _Applied) -> tuple[int, int]:
        """The numbers of the sentence and of the remedy of a rule."""
        known = self._known.get(applied)
        if known is None:
            rule = RULES[applied.place]
            by_name = dict(zip(_NAMED[applied.place].names, applied.values, strict=True))
            known = self._number(rule.sentence.format(**by_name)), self._number(rule.remedy.format(**by_name))
            self._known[applied] = known
        return known

    def _number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))
