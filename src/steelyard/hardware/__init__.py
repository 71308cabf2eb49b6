"""GPUs: the catalog of peaks, what this machine has, and telemetry."""
