from collections import Counter
from dataclasses import replace

from ikeanalyze.render import Format
from ikeanalyze.render.replay.formats import FORMATS
from ikeanalyze.render.replay.text import describe_outcome, get_round_trip_ns, get_setup_ns
from tests.render import replay_examples
from tests.render.render_text import written


def text(replayed, *, width=100, every=False):
    return written(FORMATS, replayed, Format.TERMINAL, width=width, every=every)


def test_a_verbatim_run_is_shown_message_by_message():
    assert text(replay_examples.verbatim()) == (
        """\
a.pcap
  target     192.0.2.2:500
  from       192.0.2.1 ports 500 and 4500, by scapy on layer 3
  mode       verbatim
  handshake  1

Run
  outcome   1 of 2 requests answered
  SPIi      0101010101010101
  sent      3 datagrams, 700 bytes
  received  1 datagram, 100 bytes
  blow-up   1.333
  ignored   2 unsolicited, 1 not IKEv2

Answers
  message      ID  sent  new                      answer  recorded   RTT, ms
  IKE_SA_INIT   0     2  SPIi, nonce, NAT hashes  COOKIE  accepted     1.500
  IKE_AUTH      1     1  nothing                  none    encrypted        -
  sent: transmissions; new: differs from the recording; RTT: of the first answer

Differs from the recording
  IKE_SA_INIT 0  answer: accepted recorded, COOKIE now; only now: COOKIE
"""
    )


def test_a_live_one_with_its_recording_beside_it():
    assert text(replay_examples.reenact()) == (
        """\
a.pcap
  target     192.0.2.2:500
  from       192.0.2.1 ports 61000 and 61001, by ordinary UDP sockets
  mode       reenact
  policy     strongswan
  handshake  1
  note       defaults, since the capture does not tell: identity_i
  strays     3 datagrams of others, the first from 192.0.2.9:500
  not IKE    1 datagram
  errors     1 time: Connection refused
  capture    live.pcapng, live.keys.json

Run
  outcome         established, no CHILD_SA: TS_UNACCEPTABLE
  SPIi, SPIr      0101010101010101, 0202020202020202
  set-up          12.000 ms
  proposal        AES-GCM-16-256/HMAC-SHA2-256/X25519
  authentication  initiator PSK, responder PSK
  ignored         2 repeated
  sent            3 datagrams, 700 bytes
  received        1 datagram, 100 bytes
  blow-up         1.333

Exchanges
  exchange     ID  sent  bytes  received  bytes  RTT, ms  answer
  IKE_SA_INIT   0     2    400         1    200    3.000  -
  IKE_AUTH      1     1    300         1    250    4.000  -
  sent: transmissions; received: datagrams that no fault dropped; bytes of IKE messages

Recorded and live (run 1)
  exchange     ID  messages  live  bytes  live  RTT, ms    live
  IKE_SA_INIT   0         2     3    600   800    2.000   3.000
  IKE_AUTH      1         2     -    500     -    3.000       -
  total                   4     3  1,100   800    6.000  12.000
  outcome: completed recorded, established live
  proposal: AES-GCM-16-256 recorded, - live
  blow-up: 1.000 recorded, 1.333 live
  bytes of IKE messages; the time in the last line is that of the set-up
"""
    )


def test_the_chosen_proposal():
    one = replay_examples.verbatim()
    sent = one.runs[0].verbatim.sent[0]
    sent.answers[0] = replace(sent.answers[0], answer=replay_examples.ACCEPTED)
    assert "  SPIi      0101010101010101\n  proposal  AES-GCM-16-256\n" in text(one)


def test_many_runs_have_a_line_each():
    shown = text(replay_examples.many(), width=80)
    assert "  faults     drop 0.2, delay any:5ms\n  seed       5\n" in shown
    assert (
        """\
Runs
  run  set-up, ms  sent  received  bytes  blow-up  outcome
    1      12.000     3         1    800    1.333  established
    2           -     3         1    800    1.333  failed: no answer
    3           -     3         1    800    1.333  broken off: not over after 5…
"""
        in shown
    )
    assert (
        """\
Together
  runs        3: established (1), failed: no answer (1), broken off: not over
              after 5 s (1)
  bytes       2,400
  blow-up     1.333 (mean of the runs)
  faults met  drop 0.2 (3), delay any:5ms (2)
"""
        in shown
    )


def test_only_thirty_runs_unless_all_are_asked_for():
    one = replay_examples.many()
    many = replace(one, runs=one.runs * 20)
    assert "and 30 more (--no-limit shows them)" in text(many)
    assert "--no-limit" not in text(many, every=True)


def test_a_delete_that_was_not_answered():
    one = replay_examples.reenact()
    run = replace(one.runs[0], result=replay_examples.result(deleted=False))
    reported = "  delete          not answered: the target may still have the IKE SA\n"
    assert reported in text(replace(one, runs=(run,)))
    assert reported not in text(one)


def test_many_verbatim_ones_by_answer():
    one = replay_examples.verbatim()
    shown = text(replace(one, runs=one.runs * 3))
    assert "  runs     3: 1 of 2 requests answered (3)\n" in shown
    assert "  IKE_SA_INIT   0  COOKIE  accepted      3\n" in shown
    assert "  IKE_AUTH      1  none    encrypted     3\n" in shown


def test_the_answers_to_mutated_messages_are_counted_by_kind():
    shown = text(replay_examples.mutated())
    assert "  seed    7\n" in shown
    assert (
        """\
Mutated messages
  up before  yes: accepted
  mutants    20
  answers    9 INVALID_SYNTAX, 2 accepted
  not IKEv2  1
  up after   yes: COOKIE after 3 requests in 4.0 s

Errors in them
  error  mutants
  bit         12
  cut          5
"""
        in shown
    )
    down = replay_examples.mutated()
    down = replace(down, mutated=replace(down.mutated, after=replace(down.mutated.after, answer=None)))
    assert "  up after   no answer after 3 requests in 4.0 s\n" in text(down)


def test_what_a_target_sends_is_harmless_to_a_terminal():
    one = replay_examples.verbatim()
    sent = one.runs[0].verbatim.sent[0]
    evil = "\x1b[31mred\n"
    sent.answers[0] = replace(
        sent.answers[0], answer=replace(sent.answers[0].answer, kind=evil, proposal=evil), differs=(evil,)
    )
    shown = text(one)
    assert "\x1b" not in shown
    assert "\\x1b[31mred\\n" in shown


def test_times_are_those_of_our_capture_where_it_has_them():
    run = replay_examples.reenact().runs[0]
    assert get_setup_ns(run) == 12_000_000
    assert get_setup_ns(replace(run, reported=None)) == 15_000_000
    exchange = run.result.exchanges[1]
    assert get_round_trip_ns(exchange, run.reported) == get_round_trip_ns(exchange, None) == 4_000_000
    assert get_setup_ns(replay_examples.verbatim().runs[0]) is None


def test_a_handshake_that_failed_has_no_set_up_time():
    only = replace(replay_examples.many(), runs=replay_examples.many().runs[1:2])
    assert "  set-up          -\n" in text(only)


def test_an_outcome_says_what_was_answered_or_why_the_run_ended():
    run = replay_examples.reenact().runs[0]
    assert describe_outcome(replace(run, broken_off="x")) == "broken off: x"
    assert describe_outcome(replay_examples.verbatim().runs[0]) == "1 of 2 requests answered"
    assert Counter(describe_outcome(one) for one in replay_examples.many().runs)["failed: no answer"] == 1
