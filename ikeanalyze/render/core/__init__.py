"""What all kinds of results share: output formats, output files, tables, figures and HTML pages."""
