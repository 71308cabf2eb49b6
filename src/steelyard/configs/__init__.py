"""Config files of every family, and cluster files, become experiments."""
