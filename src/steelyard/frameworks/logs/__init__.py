"""Reads the logs of every framework; one module a dialect."""
