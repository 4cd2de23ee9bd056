import json

import polars as pl
import pytest

from ikeanalyze.render import jsontext

TABLE = pl.DataFrame(
    {
        "n": [1, None, 3],
        "text": ['a "b"\n', None, "\x00é"],
        "words": [["x", 'y"'], None, []],
        "things": [[{"a": 1, "b": "p"}, {"a": None, "b": None}], None, []],
    },
    schema={
        "n": pl.UInt8,
        "text": pl.String,
        "words": pl.List(pl.String),
        "things": pl.List(pl.Struct({"a": pl.UInt8, "b": pl.String})),
    },
)
EXPECTED = [
    {
        "n": 1,
        "in": {"text": 'a "b"\n'},
        "words": ["x", 'y"'],
        "things": [{"a": 1, "b": "p"}, {"a": None, "b": None}],
    },
    {"n": None, "in": {"text": None}, "words": None, "things": None},
    {"n": 3, "in": {"text": "\x00é"}, "words": [], "things": []},
]


def texts(depth: int | None) -> list[str]:
    spec: jsontext.Spec = {
        "n": jsontext.plain("n"),
        "in": {"text": jsontext.quoted("text")},
        "words": jsontext.words(pl.col("words"), depth),
        "things": jsontext.objects(
            "things", lambda field: {"a": jsontext.scalar(field("a")), "b": jsontext.string(field("b"))}
        ),
    }
    return TABLE.select(jsontext.an_object(spec, depth).alias("x"))["x"].to_list()


@pytest.mark.parametrize("depth", [None, 0, 4])
def test_it_is_json_of_the_values(depth):
    assert [json.loads(text) for text in texts(depth)] == EXPECTED


def test_compact_is_what_the_standard_library_writes():
    written = [json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in EXPECTED]
    assert texts(None) == written


def test_indented():
    assert texts(2)[0].splitlines() == [
        "{",
        '    "n": 1,',
        '    "in": {"text": "a \\"b\\"\\n"},',
        '    "words": ["x", "y\\""],',
        '    "things": [',
        '      {"a": 1, "b": "p"},',
        '      {"a": null, "b": null}',
        "    ]",
        "  }",
    ]
