"""NeMo 2."""
