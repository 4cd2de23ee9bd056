"""A comparison as an HTML page."""

from msgspec.structs import replace

from ikeanalyze.dataset.compare.columns import format_value
from ikeanalyze.dataset.compare.result import Comparison
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.comparison.figures import make_figures
from ikeanalyze.render.comparison.text import render_sections
from ikeanalyze.render.core.html.page import SummaryCard, prepare_figure, render_template
from ikeanalyze.render.core.section import TableSection
from ikeanalyze.render.core.values import escape_text, format_count


def render_page(comparison: Comparison, view: RenderOptions | None = None) -> str:
    """Return the page, with 30 groups unless all are wanted."""
    view = view or RenderOptions()
    facts, groups, *rest = render_sections(comparison, every=view.every)
    figures = [prepare_figure(figure) for figure in make_figures(comparison, view)]
    by = escape_text(", ".join(comparison.by))
    return render_template(
        "comparison.html.j2",
        title=f"Handshakes compared by {by}",
        subtitle=escape_text(comparison.source),
        contents=[("groups", "Groups"), ("metrics", "Metrics"), ("figures", "Figures"), ("asked", "How")],
        cards=[
            SummaryCard("Handshakes", f"{sum(g.handshakes for g in comparison.groups):,}"),
            SummaryCard("Groups", f"{len(comparison.groups):,}", f"by {by}"),
            SummaryCard("Baseline", escape_text(format_value(comparison.baseline)), escape_text(comparison.by[0])),
            SummaryCard(
                "Failures", f"{sum(g.failures for g in comparison.groups):,}", "failed, unanswered or half-open"
            ),
        ],
        notices=_render_notices(comparison),
        asked=facts,
        groups=groups,
        metrics=[_drop_sums(section) for section in rest if isinstance(section, TableSection)],
        figures=figures,
    )


def _drop_sums(section: TableSection) -> TableSection:
    """Return a table without the column of sums, with which it would be wider than a screen; JSON and CSV have it."""
    kept = [i for i, column in enumerate(section.columns) if column.name != "sum"]
    return replace(
        section, columns=[section.columns[i] for i in kept], rows=[[row[i] for i in kept] for row in section.rows]
    )


def _render_notices(comparison: Comparison) -> list[str]:
    notices = [f"{remark[:1].upper()}{remark[1:]}." for remark in map(escape_text, comparison.remarks)]
    if comparison.unread:
        notices.append(
            f"{format_count(comparison.unread, 'capture')} could not be read; their handshakes are in no group."
        )
    if not comparison.complete:
        notices.append("The batch of this dataset has not read all captures yet.")
    return notices
