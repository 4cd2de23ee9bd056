"""Charts by Altair, and figures written as SVG and PNG."""
