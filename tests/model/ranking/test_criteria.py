import pytest

from ikeanalyze.model.ranking.criteria import CriteriaError, list_examples, load_criteria, load_criteria_text
from ikeanalyze.model.ranking.grades import ReferenceGrade, ThresholdGrade

GOOD = """
alternatives = ["a", "b"]

[[criterion]]
name = "one"
weight = 0.25
grades = { a = 1, b = 2 }

[[criterion]]
name = "two"
weight = 0.75
[[criterion.part]]
name = "delay"
unit = "ms"
values = { a = 60, b = 400 }
by = { steps = [[50, 2], [100, 1]], beyond = 0 }
[[criterion.part]]
name = "memory"
values = { a = 2, b = 1 }
by = { reference = 2 }
progression = 2
"""


def read(tmp_path, text):
    path = tmp_path / "x.toml"
    path.write_text(text)
    return load_criteria(str(path))


def test_what_is_read(tmp_path):
    result = read(tmp_path, GOOD)
    assert result.alternatives == ["a", "b"]
    assert result.weights == [0.25, 0.75]
    one, two = result.criteria
    assert [part.name for part in one.parts] == ["one"]
    assert one.parts[0].grades == {"a": 1, "b": 2}
    delay, memory = two.parts
    assert (delay.unit, delay.values) == ("ms", {"a": 60, "b": 400})
    assert delay.function == ThresholdGrade([(50, 2), (100, 1)], 0)
    assert memory.function == ReferenceGrade(2, 3, 2)
    assert (delay.progression, memory.progression, two.weights) == (1, 2, None)


def test_a_difference_is_the_steps_of_each_expert_between_two_criteria(tmp_path):
    text = GOOD.replace("weight = 0.25\n", "").replace("weight = 0.75\n", "")
    text = text.replace("[[criterion]]", "[experts]\nimportance = [1, 2]\n\n[[criterion]]", 1)
    result = read(tmp_path, text + '[[difference]]\nof = "two"\nto = "one"\nsteps = [1, -1]\n')
    assert (result.importance, result.progression, result.weights) == ([1, 2], [1, 1], None)
    (opinion,) = result.opinions
    assert (opinion.of, opinion.to, opinion.steps) == (1, 0, [1, -1])


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('["a", "b"]', '["a"]', "alternatives must be a list of 2 to 200 items"),
        ('["a", "b"]', '["a", "a"]', "alternatives: names must be unique"),
        ('["a", "b"]', '["a", "b", "c"]', "criterion 'one'.grades: no value for c"),
        ("weight = 0.75", "weight = 0.95", "weight: the sum is 1.2, but must be 1"),
        ("weight = 0.75", "", "weight: give either all weights, or none"),
        ("weight = 0.25", "weight = -1", "criterion\\[0\\].weight must be a number of at least 0"),
        ("a = 1, b = 2", "a = 1", "criterion 'one'.grades: no value for b"),
        ("a = 1, b = 2", "a = 1, b = 2, c = 3", "criterion 'one'.grades: 'c' is not an alternative"),
        ("a = 1, b = 2", 'a = 1, b = "x"', "criterion\\[0\\].grades.b must be a number"),
        ("a = 1, b = 2", "a = 1, b = nan", "criterion\\[0\\].grades.b must be a number"),
        ("a = 60,", "a = -60,", r"criterion\[1\].part\[0\].values.a must be a number of at least 0"),
        ('"two"', '"one"', "criterion: names must be unique"),
        ('name = "memory"', 'name = "delay"', "criterion 'two', part: names must be unique"),
        ("[100, 1]", "[10, 1]", r"criterion\[1\].part\[0\].by: the bounds of steps must rise"),
        ("[100, 1]", "[100]", r"by.steps\[1\] must be a list of a number, a number"),
        ("[100, 1]", "[50, 3]", "by: the bounds of steps must rise"),
        ("by = { reference = 2 }", "", r"criterion 'two', part 2 'memory': values and measured need by"),
        ("by = { reference = 2 }", "by = {}", r"by: needs steps or reference"),
        ("reference = 2", "reference = 0", "by.reference must be a number above 0"),
        ("reference = 2", "refrence = 2", "unknown key .*by.refrence; did you mean .*by.reference"),
        ("unit =", "units =", "unknown key criterion\\[1\\].part\\[0\\].units; did you mean .*unit\\? allowed are"),
        ("alternatives", "alternative", "unknown key alternative; did you mean alternatives"),
        ("grades = { a = 1, b = 2 }", "", "criterion\\[0\\]: needs exactly one of grades, values, measured"),
        ("weight = 0.25", "weight = 0.25\nleft_out = 'x'", "needs exactly one of grades"),
        ("[[criterion]]", "[[nothing]]", "unknown key nothing; allowed are"),
        (GOOD.partition("\n\n")[2], "", "criterion is missing"),
        ("progression = 2", "progression = -2", "progression must be a number of at least 0"),
        ("a = 1, b = 2 }", "a = 1, b = 2", "not TOML: "),
        ("a = 1, b = 2", f"a = 1, b = {9 * 10**399}", "criterion\\[0\\].grades.b must be a number"),
        ("a = 1, b = 2", f"a = 1, b = 1{'0' * 5000}", "not TOML: it has a number of thousands of digits"),
        ("a = 1, b = 2", f"a = {'[' * 5000}", "not TOML: it is nested too deeply"),
        ('["a", "b"]', '["a", "b"]\nnotes = 3', "notes must be a list of items, each text"),
        ('["a", "b"]', '["a", "b"]\nnotes = "abc"', "notes must be a list of items, each text"),
        ('["a", "b"]', '["a", "b"]\nnotes = ["abc", 1]', r"notes\[1\] must be text"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, old, new, what):
    assert old in GOOD
    with pytest.raises(CriteriaError, match=what) as caught:
        read(tmp_path, GOOD.replace(old, new))
    assert str(caught.value).startswith(f"{tmp_path}/x.toml: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ('[[difference]]\nof = "one"\nto = "two"\nsteps = [1]', "weight: give either all weights, or none; with diff"),
        ("[experts]\nimportance = []", "experts: importance and progression need a number for each"),
        ("[experts]\nimportance = [0]", "experts: importance and progression need a number for each"),
        ("[experts]\nstep = 1", "experts.step must be a factor above 1"),
        ("[grades]\nstep = 0.5", "grades.step must be a factor above 1"),
        ("[experts]\nimportance = 1", "experts.importance must be a list of items, each a number"),
        (
            '[[criterion]]\nname = "three"\npart = []',
            r"criterion\[2\].part must be a list of 1 or more items",
        ),
    ],
)
def test_malformed_files_are_rejected(tmp_path, more, what):
    with pytest.raises(CriteriaError, match=what):
        read(tmp_path, f"{GOOD}\n{more}\n")


@pytest.mark.parametrize(
    ("difference", "what"),
    [
        ('of = "one"\nto = "three"\nsteps = [1]', "difference.to: unknown criterion 'three'"),
        ('of = "one"\nto = "two"\nsteps = [1, 2]', "steps needs 1 numbers, one per expert"),
        ('of = "one"\nto = "one"\nsteps = [1]', "difference: 'one' is compared with itself"),
        (
            'of = "one"\nto = "two"\nstep = [1]',
            "unknown key difference\\[0\\].step; did you mean difference\\[0\\].steps",
        ),
        ('of = ["one"]\nto = "two"\nsteps = [1]', r"difference\[0\].of must be text"),
        ('to = "two"\nsteps = [1]', r"difference\[0\].of is missing"),
    ],
)
def test_invalid_differences_are_rejected(tmp_path, difference, what):
    text = GOOD.replace("weight = 0.25\n", "").replace("weight = 0.75\n", "")
    with pytest.raises(CriteriaError, match=what):
        read(tmp_path, f"{text}\n[[difference]]\n{difference}\n")


def test_values_can_come_from_a_dataset(tmp_path):
    spec = 'measured = { dataset = "d", metric = "setup_ms", by = "config", groups = { a = "x", b = "y" } }'
    text = GOOD.replace("values = { a = 60, b = 400 }", spec)
    measured = read(tmp_path, text).criteria[1].parts[0].measured
    assert measured.dataset == tmp_path / "d"
    assert (measured.metric, measured.by, measured.statistic) == ("setup_ms", "config", "mean")
    assert measured.groups == {"a": "x", "b": "y"}
    for old, new, what in (
        (', groups = { a = "x", b = "y" }', ', groups = { a = "x" }', "no group for b"),
        ('"config"', '"config", statistic = "mode"', "measured.statistic must be one of mean, median, p95, p99"),
        ('metric = "setup_ms", ', "", "measured.metric is missing"),
        (
            '"config"',
            '"config", where = { loss = 0x' + "f" * 5000 + " }",
            "measured.where.loss must be text or a number",
        ),
        ('{ a = "x"', "{ a = [1]", "measured.groups.a must be text or a number"),
        ('"config"', '"config", statistic = ["mean"]', "measured.statistic must be one of"),
    ):
        with pytest.raises(CriteriaError, match=what):
            read(tmp_path, text.replace(old, new))


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(CriteriaError, match="no such file; the examples are epc-aka, epc-auth"):
        load_criteria(str(tmp_path / "none.toml"))
    with pytest.raises(CriteriaError, match="cannot be read: Is a directory"):
        load_criteria(str(tmp_path))
    (tmp_path / "x").write_bytes(b"\xff")
    with pytest.raises(CriteriaError, match="it is not UTF-8 text"):
        load_criteria_text(str(tmp_path / "x"))


def test_example_files_are_read():
    assert list_examples() == ["epc-aka", "epc-authentication"]
    for name in list_examples():
        assert load_criteria(name).source.startswith("Faigl")
