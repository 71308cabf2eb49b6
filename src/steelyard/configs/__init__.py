"""Readers of config files of every family, and of cluster files."""
