"""The built-in trainer."""
