"""An experiment on a platform becomes a plan: exact commands, files, mounts and variables per node."""
