import gc
from io import BytesIO
from zipfile import ZipFile

import pytest
import typer

from ikeanalyze.cli.exit_status import CommandError, handle_errors, log_stderr
from ikeanalyze.render.core.output import OutputError
from tests.render.analysis_examples import CAPTURE


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (CommandError("x: what. Do that"), 1, "ikeanalyze: x: what. Do that\n"),
        (OutputError("x", "cannot be written"), 1, "ikeanalyze: x: cannot be written\n"),
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 1, "ikeanalyze: out of memory."),
        (KeyError("k"), 1, "ikeanalyze: internal error: KeyError: 'k'. This is a bug in ikeanalyze."),
        (typer.Exit(3), 3, ""),
    ],
)
def test_what_becomes_of_an_error(capsys, error, status, line):
    with pytest.raises(typer.Exit) as raised, handle_errors(verbose=False):
        raise error
    assert raised.value.exit_code == status
    err = capsys.readouterr().err
    assert err.startswith(line)
    assert len(err.splitlines()) == (1 if line else 0)


def interrupt_writing_a_zip_file():
    """Raises ValueError: zipfile cannot be closed while one of its files is written."""
    with ZipFile(BytesIO(), "w") as archive:
        file = archive.open("x", "w")
        file.write(b"x")
        raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_error_of_cleaning_up_after_an_interrupt_is_the_interrupt(capsys):
    with pytest.raises(typer.Exit) as raised, handle_errors(verbose=False):
        interrupt_writing_a_zip_file()
    assert raised.value.exit_code == 130
    del raised
    gc.collect()  # the archive fails to close once more: here, and not in a later test
    assert capsys.readouterr().err == ""


def test_usage_errors_keep_their_status(capsys):
    with pytest.raises(typer.BadParameter), handle_errors(verbose=False):
        raise typer.BadParameter("x")


def test_a_traceback_only_if_asked_for(capsys):
    with pytest.raises(typer.Exit), handle_errors(verbose=True):
        raise KeyError("k")
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "report it with the lines above" in err


def test_interrupted_and_internal_through_the_command(run, reader):
    reader.raises = KeyboardInterrupt()
    done = run("report", CAPTURE)
    assert (done.exit_code, done.stderr) == (130, "ikeanalyze: interrupted\n")
    reader.raises = RuntimeError("oops")
    done = run("report", CAPTURE)
    assert done.exit_code == 1
    assert "Traceback" not in done.stderr
    assert "internal error: RuntimeError: oops" in done.stderr


def test_errors_are_one_line(capsys):
    log_stderr("a\nb\x1b[2J")
    assert capsys.readouterr().err == "ikeanalyze: a b\\x1b[2J\n"
