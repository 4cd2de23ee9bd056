"""Reports on published experiments: their claims, our data, and the verdict on each claim.

A report is a folder (`reports/README.md`): `question.md`, `scenarios/*.toml` for the lab, `claims.toml`,
`data/*.parquet`, `environment.json`, and the generated pages and figures, which `render.papers` makes.
"""


class PaperError(ValueError):
    """A report cannot be run or evaluated; one line with the file, the claim and the problem."""
