"""Charts by Altair, and figures written as SVG, PDF and PNG."""
