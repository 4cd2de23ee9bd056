"""The table holds together, and the documentation shows it as it is."""

import pytest

from ikeanalyze.replay.initiator.states import TRANSITIONS, InitiatorEvent, InitiatorState, awaits_response, next_state
from tests.paths import ROOT

DOCUMENTATION = ROOT / "docs" / "replay.md"
ENDS = {InitiatorState.CLOSED, InitiatorState.FAILED}


def reachable(start: InitiatorState) -> set[InitiatorState]:
    result, fresh = {start}, [start]
    while fresh:
        for following in TRANSITIONS[fresh.pop()].values():
            if following not in result:
                result.add(following)
                fresh.append(following)
    return result


def diagram() -> str:
    """The table as a state diagram in Mermaid's words."""
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{state.value}" as {state.name}' for state in InitiatorState]
    lines.append(f"    [*] --> {InitiatorState.IDLE.name}")
    for state, events in TRANSITIONS.items():
        reached: dict[InitiatorState, list[str]] = {}
        for event, following in events.items():
            reached.setdefault(following, []).append(event.value)
        lines += [f"    {state.name} --> {following.name}: {', '.join(words)}" for following, words in reached.items()]
    lines += [f"    {state.name} --> [*]" for state, events in TRANSITIONS.items() if not events]
    return "\n".join(lines) + "\n"


def test_every_state_can_be_reached_and_left_for_an_end():
    assert set(TRANSITIONS) == set(InitiatorState) == reachable(InitiatorState.IDLE)
    for state in InitiatorState:
        assert reachable(state) & ENDS
        assert bool(TRANSITIONS[state]) == (state not in ENDS)


def test_every_event_leads_somewhere():
    assert {event for events in TRANSITIONS.values() for event in events} == set(InitiatorEvent)


def test_a_request_under_way_can_be_refused_unanswered_or_given_up():
    for state in InitiatorState:
        if awaits_response(state):
            assert {InitiatorEvent.REFUSED, InitiatorEvent.SILENCE} <= set(TRANSITIONS[state])
    assert [state.name for state in InitiatorState if awaits_response(state)] == [
        "INIT",
        "INTERMEDIATE",
        "AUTH",
        "EAP",
        "PROOF",
        "CLOSING",
    ]


def test_impossible_transitions_raise():
    assert next_state(InitiatorState.INIT, InitiatorEvent.COOKIE) is InitiatorState.INIT
    with pytest.raises(ValueError, match="COOKIE cannot happen in AUTH"):
        next_state(InitiatorState.AUTH, InitiatorEvent.COOKIE)


def test_the_diagram_is_that_of_the_table():
    lines = diagram().splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert "    INIT --> INIT: COOKIE, INVALID_KE_PAYLOAD" in lines
    assert sum("-->" in line for line in lines) == 1 + len(ENDS) + sum(
        len(set(events.values())) for events in TRANSITIONS.values()
    )


def test_the_documentation_shows_it():
    """To bring it up to date: `python -c "from tests.replay.test_states import diagram; print(diagram())"`."""
    shown = DOCUMENTATION.read_text().partition("```mermaid\n")[2].partition("```")[0]
    assert shown == diagram()
