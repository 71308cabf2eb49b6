"""One check a file; adding one is a file and a word in `verdict.CHECKS`."""
