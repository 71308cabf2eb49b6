"""Pages a person believes: one model of a page, one module a format."""
