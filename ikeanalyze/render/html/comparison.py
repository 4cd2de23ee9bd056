"""A comparison as a page: what goes into its template."""

from ikeanalyze.dataset.compare_columns import text
from ikeanalyze.dataset.comparison import Comparison
from ikeanalyze.render.comparison import sections
from ikeanalyze.render.figures.comparison import comparison_figures
from ikeanalyze.render.html.page import drawn, render
from ikeanalyze.render.section import Table
from ikeanalyze.render.values import clean, count


def comparison_page(comparison: Comparison, *, every: bool = False) -> str:
    """The page; `every`: with all groups, not just 30."""
    asked, groups, *rest = sections(comparison, every=every)
    figures = [drawn(figure) for figure in comparison_figures(comparison)]
    by = clean(", ".join(comparison.by))
    return render(
        "comparison.html.j2",
        title=f"Handshakes compared by {by}",
        subtitle=clean(comparison.source),
        contents=[("groups", "Groups"), ("metrics", "Metrics"), ("figures", "Figures"), ("asked", "How")],
        cards=[
            {"name": "Handshakes", "value": f"{sum(g.handshakes for g in comparison.groups):,}", "more": ""},
            {"name": "Groups", "value": f"{len(comparison.groups):,}", "more": f"by {by}"},
            {"name": "Baseline", "value": clean(text(comparison.baseline)), "more": clean(comparison.by[0])},
            {
                "name": "Failures",
                "value": f"{sum(g.failures for g in comparison.groups):,}",
                "more": "failed or unanswered",
            },
        ],
        notices=_notices(comparison),
        asked=asked,
        groups=groups,
        metrics=[section for section in rest if isinstance(section, Table)],
        figures=figures,
    )


def _notices(comparison: Comparison) -> list[str]:
    notices = []
    if comparison.unread:
        notices.append(f"{count(comparison.unread, 'capture')} could not be read: what was in them is in no group.")
    if not comparison.complete:
        notices.append("The batch that makes this dataset has not read all captures.")
    return notices
