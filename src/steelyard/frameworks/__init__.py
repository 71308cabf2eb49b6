"""One folder per framework: its facts, its log reader and, if supported, its planner.

To add one: a folder, and a line in `steelyard.experiment.platform.FRAMEWORKS`; `registry` finds it. Nothing is imported
here, so that each module loads only what it needs.
"""
