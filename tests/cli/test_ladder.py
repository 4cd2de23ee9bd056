from ikeanalyze.analysis.result import SkippedFile
from tests.render.analysis_examples import CAPTURE, analysis


def test_the_first_handshake_is_shown_by_default(run, reader):
    done = run("ladder", CAPTURE)
    assert done.exit_code == 0
    assert done.stdout.startswith("Handshake 1: established in 12.750 ms\n")
    assert done.stderr == f"ikeanalyze: {CAPTURE}: the first of 5 handshakes. --handshake selects another one\n"
    assert run("ladder", CAPTURE, "--quiet").stderr == ""


def test_another_handshake_can_be_chosen(run, reader):
    done = run("ladder", CAPTURE, "--handshake", "2", "--port", "4501")
    assert "Access-Challenge 17" in done.stdout
    assert done.stderr == ""
    assert reader.asked["ports"] == (4501,)


def test_payloads_of_the_handshake_are_asked_for_and_keys_handed_on(run, reader):
    assert run("ladder", CAPTURE, "--quiet").exit_code == 0
    assert (reader.asked["payloads"], reader.asked["payloads_of"], reader.asked["keys"]) == (True, "first", ())
    assert run("ladder", CAPTURE, "--quiet", "--handshake", "3").exit_code == 0
    assert (reader.asked["payloads"], reader.asked["payloads_of"]) == (True, 3)
    assert run("ladder", CAPTURE, "--keys", "k", "--quiet").exit_code == 0
    assert reader.asked["keys"] == ("k",)


def test_a_file_with_keys_is_skipped(run, reader):
    reader.analysis = analysis(skipped=[SkippedFile("k", "no such file")])
    done = run("ladder", CAPTURE, "--keys", "k", "--quiet")
    assert (done.exit_code, done.stderr) == (3, "ikeanalyze: k: no such file\n")
    assert "IKE_SA_INIT 0 request" in done.stdout


def test_the_ladder_is_written_to_a_file(run, reader, tmp_path):
    assert run("ladder", CAPTURE, "--quiet", "-o", str(tmp_path / "x")).stdout == ""
    assert "IKE_SA_INIT 0 request" in (tmp_path / "x").read_text()


def test_an_unknown_handshake_is_an_error(run, reader):
    done = run("ladder", CAPTURE, "--handshake", "6")
    assert done.exit_code == 2
    assert "there is no handshake 6" in done.stderr


def test_a_capture_without_handshakes_is_an_error(run, reader):
    reader.analysis = analysis([])
    done = run("ladder", CAPTURE)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"ikeanalyze: {CAPTURE}: no handshake found.")


def test_an_unreadable_capture_is_an_error(run, reader):
    from dataclasses import replace

    reader.analysis = replace(analysis([], skipped=[SkippedFile("x", "no such file")]), captures=[])
    done = run("ladder", "x")
    assert (done.exit_code, done.stderr) == (1, "ikeanalyze: x: no such file\n")
