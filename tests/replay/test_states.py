"""The table holds together, and the documentation shows it as it is."""

from pathlib import Path

import pytest

from ikeanalyze.replay.states import TRANSITIONS, Event, State, follow, waits

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "replay.md"
ENDS = {State.CLOSED, State.FAILED}


def reachable(start: State) -> set[State]:
    found, fresh = {start}, [start]
    while fresh:
        for following in TRANSITIONS[fresh.pop()].values():
            if following not in found:
                found.add(following)
                fresh.append(following)
    return found


def diagram() -> str:
    """The table as a state diagram in Mermaid's words."""
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{state.value}" as {state.name}' for state in State]
    lines.append(f"    [*] --> {State.IDLE.name}")
    for state, events in TRANSITIONS.items():
        reached: dict[State, list[str]] = {}
        for event, following in events.items():
            reached.setdefault(following, []).append(event.value)
        lines += [f"    {state.name} --> {following.name}: {', '.join(words)}" for following, words in reached.items()]
    lines += [f"    {state.name} --> [*]" for state, events in TRANSITIONS.items() if not events]
    return "\n".join(lines) + "\n"


def test_every_state_can_be_reached_and_left_for_an_end():
    assert set(TRANSITIONS) == set(State) == reachable(State.IDLE)
    for state in State:
        assert reachable(state) & ENDS
        assert bool(TRANSITIONS[state]) == (state not in ENDS)


def test_every_event_leads_somewhere():
    assert {event for events in TRANSITIONS.values() for event in events} == set(Event)


def test_a_request_under_way_can_be_refused_unanswered_or_given_up():
    for state in State:
        if waits(state):
            assert {Event.REFUSED, Event.SILENCE} <= set(TRANSITIONS[state])
    assert [state for state in State if waits(state)] == [
        State.INIT, State.INTERMEDIATE, State.AUTH, State.EAP, State.PROOF, State.CLOSING,
    ]  # fmt: skip


def test_what_cannot_be():
    assert follow(State.INIT, Event.COOKIE) is State.INIT
    with pytest.raises(ValueError, match="COOKIE cannot happen in AUTH"):
        follow(State.AUTH, Event.COOKIE)


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
