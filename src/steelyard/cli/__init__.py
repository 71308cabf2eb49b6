"""One module a verb, thin: parse, call, print."""
