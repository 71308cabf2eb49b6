"""Reads logs of all frameworks; each framework's folder describes its lines."""
