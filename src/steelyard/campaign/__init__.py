"""Several runs as one: repeats, fleets, learnt thresholds, trends, scaling, families of jobs."""
