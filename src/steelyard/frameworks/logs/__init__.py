"""Reads the logs of every framework; what each prints is in its folder."""
