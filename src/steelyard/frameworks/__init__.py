"""One folder per framework: its facts, its log and, where it can be planned, its plan.

Adding one is a folder and a line in `steelyard.experiment.platform.FRAMEWORKS`; `registry` looks them up. Nothing is
imported here, so that a module of this package loads no more than it needs.
"""
