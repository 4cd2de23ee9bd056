from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct

from ikeanalyze.io.toml import MAX_BYTES, TomlFileError, decode_toml, load_toml_text, parse_toml, read_toml


def test_values_of_a_file_are_read(tmp_path):
    path = tmp_path / "x.toml"
    path.write_bytes(b'a = 1\r\n[b]\nc = "\xc3\xa9"\n')
    assert read_toml(str(path)) == {"a": 1, "b": {"c": "é"}}
    assert load_toml_text(str(path)) == 'a = 1\n[b]\nc = "é"\n'


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"a =", "not TOML: Invalid value"),
        (b"\xff", "not TOML: it is not UTF-8 text"),
        (b"a = 1" + b"0" * 5000, "not TOML: it has a number of thousands of digits"),
        (b"a = " + b"[" * 5000, "not TOML: it is nested too deeply"),
        (b"#" * (MAX_BYTES + 1), "larger than 1,048,576 bytes"),
    ],
)
def test_unusable_files_are_one_line_errors(tmp_path, content, what):
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(TomlFileError) as error:
        read_toml(str(path))
    assert str(error.value).startswith(what)
    assert "\n" not in str(error.value)


def test_devices_without_end_are_read_to_a_limit():
    with pytest.raises(TomlFileError, match="larger than"):
        read_toml("/dev/zero")


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_toml(str(tmp_path / "x.toml"))
    with pytest.raises(IsADirectoryError):
        read_toml(str(tmp_path))


def test_what_may_be_a_secret_can_be_left_unsaid():
    with pytest.raises(TomlFileError) as error:
        parse_toml(b"psk = 'x'\npsk = swordfish")
    assert error.value.unquoted == "not TOML (at line 2, column 7)"


class Mode(Enum):
    MAIN = "main"
    AGGRESSIVE = "aggressive"


class Fixed(Struct, tag_field="kind", tag="fixed", forbid_unknown_fields=True):
    ms: float


class Random(Struct, tag_field="kind", tag="random", forbid_unknown_fields=True):
    mean_ms: float


@dataclass
class Burst:
    frames: int
    loss: float = 1.0


class Link(Struct, forbid_unknown_fields=True):
    rtt_ms: Annotated[float, Meta(ge=0, le=10_000)] = 0.0
    mtu: Annotated[int, Meta(ge=576)] = 1500
    rate: Annotated[float, Meta(gt=0)] | None = None
    ip_version: Literal[4, 6] = 4
    nat: bool = False
    mode: Mode = Mode.MAIN
    password: Annotated[str, Meta(min_length=1, max_length=8)] = "x"
    stack: Annotated[str, Meta(pattern=r"^a\Z", description="a stack such as a")] = "a"
    grades: dict[str, float] = {}
    waits: Annotated[list[float], Meta(min_length=1, max_length=3)] | None = None
    steps: tuple[tuple[float, float], ...] = ()
    delay: Fixed | Random | None = None
    burst: Burst | list[Burst] | None = None

    def __post_init__(self) -> None:
        if self.nat and self.ip_version == 6:
            raise ValueError("nat needs ip_version = 4")


class Setup(Struct, forbid_unknown_fields=True):
    name: str
    link: Link


def test_tables_become_structs(tmp_path):
    path = tmp_path / "x.toml"
    text = b'name = "a"\n[link]\nrtt_ms = 5\nmode = "aggressive"\nsteps = [[1, 2.5]]\n[link.delay]\nkind = "random"\nmean_ms = 3'
    path.write_bytes(text)
    link = Link(rtt_ms=5.0, mode=Mode.AGGRESSIVE, steps=((1.0, 2.5),), delay=Random(3.0))
    assert decode_toml(str(path), Setup) == decode_toml(text, Setup) == Setup("a", link)
    assert decode_toml({"name": "a", "link": {"burst": [{"frames": 3}]}}, Setup).link.burst == [Burst(3, 1.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rtt_ms = 10001", "link.rtt_ms must be a number from 0 to 10,000"),
        ("rtt_ms = nan", "link.rtt_ms must be a number from 0 to 10,000"),
        (f"rtt_ms = 1{'0' * 400}", "link.rtt_ms must be a number from 0 to 10,000"),
        ("rtt_ms = true", "link.rtt_ms must be a number from 0 to 10,000"),
        ("mtu = 1500.0", "link.mtu must be an integer of at least 576"),
        ("rate = 0", "link.rate must be a number above 0"),
        ("rate = inf", "link.rate must be a number above 0"),
        ("ip_version = 5", "link.ip_version must be one of 4, 6"),
        ("nat = 1", "link.nat must be true or false"),
        ("mode = 'secret'", "link.mode must be one of main, aggressive"),
        ("password = 'secretsecret'", "link.password must be text of 1 to 8 characters"),
        ("stack = 'secret'", "link.stack must be a stack such as a"),
        ("grades = {'x y' = 'secret'}", "link.grades.x y must be a number"),
        ("waits = []", "link.waits must be a list of 1 to 3 items, each a number"),
        ("waits = 3", "link.waits must be a list of 1 to 3 items, each a number"),
        ("waits = [1, 'secret']", "link.waits[1] must be a number"),
        ("steps = [[1, 2], [3]]", "link.steps[1] must be a list of a number, a number"),
        ("delay = {kind = 'secret'}", "link.delay must be a table with one of kind = 'fixed', kind = 'random'"),
        ("delay = {kind = 'fixed'}", "link.delay.ms is missing"),
        ("delay = {kind = 'fixed', ms = 'secret'}", "link.delay.ms must be a number"),
        (
            "burst = {frames = 3, los = 1}",
            "unknown key link.burst.los; did you mean link.burst.loss? allowed are frames, loss",
        ),
        ("burst = [{loss = 1}]", "link.burst[0].frames is missing"),
        ("rtt = 3", "unknown key link.rtt; did you mean link.rtt_ms? allowed are rtt_ms, mtu, rate, "),
        ("nat = true\nip_version = 6", "link: nat needs ip_version = 4"),
        ("[links]", "unknown key links; did you mean link? allowed are name, link"),
        ("link = 3", "link must be a table"),
        ("", "name is missing"),
    ],
)
def test_an_error_names_the_key_and_what_is_allowed(text, message):
    table = "" if text.startswith(("[", "link")) else "[link]\n"
    with pytest.raises(TomlFileError) as error:
        decode_toml(f"{table}{text}".encode(), Setup)
    assert str(error.value).startswith(message)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)
