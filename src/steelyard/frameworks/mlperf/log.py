"""MLPerf Training: `:::MLLOG` events in JSON, of any framework."""

import re

from steelyard.frameworks.logs.dialect import Dialect
from steelyard.frameworks.logs.fields import Field
from steelyard.frameworks.mlperf.facts import FACTS
from steelyard.frameworks.mlperf.tracker import Tracker

MLPERF = Dialect(
    name=FACTS.name,
    framework=FACTS.name,
    opening=rb"\x00mlperf step ",
    mark=re.compile(rb"\x00mlperf step (?P<step>\d{1,12})/(?P<total>\d{1,12}) (?=\|)"),
    separator=b"|",
    fields={
        b"loss": Field("loss"),
        b"learning_rate": Field("learning_rate"),
        b"step_time_s": Field("step_time_s"),
        b"clock_s": Field("step_time_s"),
    },
    interval_varies=True,
    flags=lambda line: ("clocked",) if b" clock_s: " in line else (),
    words=(rb":::MLLOG",),
    telltales=(rb":::MLLOG",),
    tracker=Tracker,
    start=rb'"key": "(?:submission_benchmark|run_start)"',
    companions=(rb":::MLLOG \{",),
)

DIALECTS = (MLPERF,)
