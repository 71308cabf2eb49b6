"""What rocm-smi answers on a host whose eight MI300X are idle."""

import json
from pathlib import Path

OUTPUT = Path(__file__).parents[1] / "execute/preflight/outputs/rocm_gpus.json"
"""As it was printed."""
NO_PROCESS = "WARNING: No JSON data to report"


def idle_mi300x(gpus: int = 8) -> str:
    """A script for `Host.fake_tool`; the cards beyond so many are left out."""
    seen = json.loads(OUTPUT.read_text())
    for number in range(gpus, 8):
        del seen[f"card{number}"]
    return f"case \"$*\" in *showpids*) echo '{NO_PROCESS}' ;; *) echo '{json.dumps(seen)}' ;; esac"
