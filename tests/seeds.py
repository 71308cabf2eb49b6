"""The suite's own examples: the packaged configs with the old values of docs/explanation/corrections.md put back."""

import json
import re
from pathlib import Path
from typing import Any

from steelyard.experiment import packaged

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "corrections.md"
SEEDS = tuple(packaged.file_name(name) for name in packaged.DESCRIPTIONS if packaged.file_name(name).endswith(".json"))

_ROW = re.compile(r"\| `(?P<place>/[^`]*)` \| (?P<was>`.*?`|absent) \| (?P<now>`.*?`|absent) \| (?P<why>.+) \|")

FILLED = {
    "training_iterations": "30",
    "nic_type": "thor2",
    "nccl_ib_hca_list": "bnxt_re0,bnxt_re1,bnxt_re2,bnxt_re3,bnxt_re4,bnxt_re5,bnxt_re6,bnxt_re7",
    "nccl_socket_ifname": "ens51f1np1",
    "gloo_socket_ifname": "ens51f1np1",
    "nccl_ib_gid_index": "3",
    "master_address": "10.0.0.1",
    "coordinator_ip": "10.0.0.1",
}


def corrections(name: str) -> list[tuple[tuple[str, ...], Any, Any]]:
    """Place, what the example had and what the packaged file has; `...` is absent."""
    section = PAGE.read_text().split(f"## {name}\n")[1].split("\n## ")[0]
    found = []
    for row in _ROW.finditer(section):
        path = tuple(part.replace("~1", "/").replace("~0", "~") for part in row["place"][1:].split("/"))
        was, now = (... if text == "absent" else json.loads(text[1:-1]) for text in (row["was"], row["now"]))
        found.append((path, was, now))
    return found


def packaged_content(name: str) -> Any:
    return json.loads(packaged.text(name.removesuffix(".json")))


def original(name: str) -> Any:
    """The example as it was published."""
    content = packaged_content(name)
    for path, was, now in corrections(name):
        here = content
        for key in path[:-1]:
            here = here.setdefault(key, {})
        assert here.get(path[-1], ...) == now, f"{name} {path}"
        if was is ...:
            del here[path[-1]]
        else:
            here[path[-1]] = was
    return content


def filled(content: Any, nodes: int, **others: str) -> Any:
    """A config with every place filled: the test's own values, and the file's examples for thresholds."""
    config = content["config"]
    config["nnodes"] = str(nodes)
    for key, value in {**FILLED, **others}.items():
        if "<changeme>" in str(config.get(key)) or key in others:
            config[key] = value
    for section in content["model_params"].values():
        for gpus in section.values():
            for params in gpus.values():
                results = params["result_dict"]
                for key, value in results.items():
                    if value == "<changeme>":
                        results[key] = results[f"_example_{key}"]
    return content


def published(name: str) -> str | None:
    """The example's own text out of the documents beside this project, where they are."""
    for document in sorted((Path(__file__).parents[2] / "shared" / "seeds").glob("00[14]_*.txt")):
        lines = document.read_text().split("\n")
        for at, line in enumerate(lines):
            if line.strip() == f".. dropdown:: ``{name}``":
                start = next(n for n in range(at, len(lines)) if lines[n].strip() == ".. code:: json") + 1
                body = []
                for text in lines[start:]:
                    if text.strip() and not text.startswith("    "):
                        break
                    body.append(text[4:])
                return "\n".join(body).strip() + "\n"
    return None
