"""One check per file. To add one: a file, and its name in `verdict.CHECKS`."""
