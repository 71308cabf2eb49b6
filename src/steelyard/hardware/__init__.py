"""GPUs and network cards: catalogs of both, and the GPUs of this machine."""
