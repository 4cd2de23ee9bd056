import pytest

from ikeanalyze.toml_file import LARGEST, TomlFileError, parsed, read_toml, toml_text


def test_what_a_file_says(tmp_path):
    path = tmp_path / "x.toml"
    path.write_bytes(b'a = 1\r\n[b]\nc = "\xc3\xa9"\n')
    assert read_toml(str(path)) == {"a": 1, "b": {"c": "é"}}
    assert toml_text(str(path)) == 'a = 1\n[b]\nc = "é"\n'


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"a =", "not TOML: Invalid value"),
        (b"\xff", "not TOML: it is no text in UTF-8"),
        (b"a = 1" + b"0" * 5000, "not TOML: it has a number of thousands of digits"),
        (b"a = " + b"[" * 5000, "not TOML: it is nested too deeply"),
        (b"#" * (LARGEST + 1), "larger than 1,048,576 bytes"),
    ],
)
def test_what_cannot_be_used(tmp_path, content, what):
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(TomlFileError) as error:
        read_toml(str(path))
    assert str(error.value).startswith(what)
    assert "\n" not in str(error.value)


def test_devices_without_end_are_read_to_a_limit():
    with pytest.raises(TomlFileError, match="larger than"):
        read_toml("/dev/zero")


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_toml(str(tmp_path / "x.toml"))
    with pytest.raises(IsADirectoryError):
        read_toml(str(tmp_path))


def test_what_may_be_a_secret_can_be_left_unsaid():
    with pytest.raises(TomlFileError) as error:
        parsed(b"psk = 'x'\npsk = swordfish")
    assert error.value.unquoted == "not TOML (at line 2, column 7)"
