"""MLPerf Training: the log lines that all submissions share."""
