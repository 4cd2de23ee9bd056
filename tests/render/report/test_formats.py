from ikeanalyze.render import Format
from ikeanalyze.render.report.formats import FORMATS
from tests.render.analysis_examples import analysis


def test_a_report_can_be_written_in_every_format(tmp_path):
    assert list(FORMATS) == list(Format)
    for form in Format:
        FORMATS.write(analysis(), form, str(tmp_path / form))
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(Format)
    assert (tmp_path / "parquet").is_dir()
