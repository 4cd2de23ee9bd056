"""Pages of reports on published experiments: Markdown, HTML, figures, and the list of all reports."""
