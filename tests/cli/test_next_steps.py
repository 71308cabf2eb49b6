"""The next step of an error, of `lint` and of `plan` works: it never ends in the same error again."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from seeds import SEEDS, filled, packaged_content
from steelyard.experiment import packaged

CVS = "mi3xx_megatron_llama_single.json"
TORCHTITAN = "platforms:\n  titan: {gpu: h100, gpus_per_node: 8, framework: torchtitan}"
WRONG: dict[str, tuple[str, str | None]] = {
    "another GPU": ("plan tiny.yaml --gpu gb100", "--gpu"),
    "another variant of a GPU": ("plan tiny.yaml --gpu 'NVIDIA RTX 4090 D' --gpus 8", "--gpu"),
    "a GPU of a vendor without containers": ("plan tiny.yaml --gpu tpu-v5p --gpus 4", "gpu"),
    "the same in a preflight": ("preflight --gpu gaudi2 --gpus 8", "gpu"),
    "an incomplete GPU": ("plan tiny.yaml --gpu mi300 --gpus 8", "--gpu"),
    "a GPU without its number": ("plan tiny.yaml --gpu H100-SXM", "gpus_per_node"),
    "a misspelled model": ("plan tiny.yaml --set model.preset=llama-3.1-8b", "model.preset"),
    "another model": ("plan tiny.yaml --set model.preset=mixtral-8x7b", "model.preset"),
    "a model of an experiment file": ("plan tiny.yaml --model llama3_1_8b", "--model"),
    "an unknown model of an experiment file": ("plan tiny.yaml --model mixtral", "--model"),
    "no platform": ("plan two.yaml", "--platform"),
    "a misspelled platform": ("plan two.yaml --platform nvida", "--platform"),
    "a platform of a file without any": ("plan tiny.yaml --platform amd", "--platform"),
    "a framework on the GPU of another vendor": (
        "plan two.yaml --platform nvidia --gpu mi300x",
        "platform.gpu",
    ),
    "a framework that cannot be planned": ("plan titan.yaml --platform titan", "framework"),
    "a setting without its group": ("plan tiny.yaml --set steps=3", "--set"),
    "a misspelled group": ("plan tiny.yaml --set trainng.steps=3", "--set"),
    "a misspelled key": ("plan tiny.yaml --set training.stepz=3", "training.stepz"),
    "an unknown key": ("plan tiny.yaml --set lr=3", "--set"),
    "a key outside the groups": ("plan tiny.yaml --set names=x", "--set"),
    "a setting with its own option": ("plan tiny.yaml --set platform.gpu=cpu", "platform.gpu"),
    "an unknown key of the platform": ("plan tiny.yaml --set platform.rank=3", "rank"),
    "a batch that does not divide": ("plan tiny.yaml --gpus 3", "training.global_batch_size"),
    "GPUs that do not divide": (
        "plan tiny.yaml --gpus 2 --set parallelism.tensor_parallel_size=4",
        "parallelism.tensor_parallel_size",
    ),
    "a missing file": ("plan nothing.yaml", None),
    "a misspelled file": ("plan tyni.yaml", None),
    "a packaged file that is not here": ("plan tiny-gpt.yaml", None),
    "a directory": ("plan .", None),
    "an empty directory": ("plan empty", None),
    "a run": ("plan run", None),
    "a cluster file": ("plan hosts.yaml", "FILE"),
    "a config as the cluster file": ("plan tiny.yaml --cluster tiny.yaml", "hosts"),
    "a missing cluster file": ("plan tiny.yaml --cluster nothing.yaml", None),
    "a JSON config without its model": ("plan cvs.json", "--platform"),
    "a JSON config without its GPU": ("plan cvs.json --model llama3_1_8b", "--platform"),
    "a misspelled model of a JSON config": ("plan cvs.json --model llama3_1_80b --gpu mi300x", "--model"),
    "another GPU of a JSON config": ("plan cvs.json --model llama3_1_8b --gpu h100", "--gpu"),
    "another platform of a JSON config": ("plan cvs.json --platform h100", "--platform"),
    "a config that is not packaged": ("init tiny-lama", "NAME"),
    "a file that exists": ("init tiny-llama", "NAME"),
    "a misspelled name to explain": ("explain adam_bta2", "KEY|SYnnn|CODE"),
    "an unknown name to explain": ("explain xyzzy", "KEY|SYnnn|CODE"),
    "an unknown lint code": ("explain SY999", "KEY|SYnnn|CODE"),
    "a misspelled verb": ("plann tiny.yaml", None),
    "a missing argument": ("lint", "files"),
    "values to fill in and no terminal": ("lint open.json --fill", "--fill"),
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    Path("tiny.yaml").write_text(packaged.text("tiny-llama"))
    Path("tiny-llama.yaml").write_text(packaged.text("tiny-llama"))
    Path("two.yaml").write_text(packaged.text("apples-to-apples"))
    Path("titan.yaml").write_text(packaged.text("apples-to-apples").replace("platforms:", TORCHTITAN))
    Path("hosts.yaml").write_text("hosts: [localhost]\n")
    Path("cvs.json").write_text(json.dumps(filled(packaged_content(CVS), 1)))
    Path("open.json").write_text(packaged.text(CVS.removesuffix(".json")))
    Path("empty").mkdir()
    Path("run").mkdir()
    Path("run/run.json").write_text("{}")


def followed(words: list[str], step: str, key: str | None) -> list[str] | None:
    """The command line after a next step; None if the step is not one that can be typed."""
    if step.startswith("steelyard "):
        return shlex.split(step.removeprefix("steelyard ").replace("CONFIG", "tiny.yaml"))
    option, *value = shlex.split(step.removeprefix("leave out ").partition(", ")[0])[:2]
    if not option.startswith("--"):
        return None
    wrong = [at for at, word in enumerate(words) if word in (option, key) or words[at + 1 :][:1] == [f"{key}=cpu"]]
    kept = [word for at, word in enumerate(words) if at not in wrong and at - 1 not in wrong]
    return kept if step.startswith("leave out ") else [*kept, option, *value]


@pytest.mark.parametrize("case", WRONG)
def test_the_next_step_of_an_error_does_not_end_in_the_same_error(cli: Any, case: str) -> None:
    words = shlex.split(WRONG[case][0])
    refused = cli(*words, "--json")
    assert refused.status == 2
    error = refused.document["error"]
    assert (error["key"], bool(error["next"])) == (WRONG[case][1], True)
    again = followed(words, error["next"], error["key"])
    if again is not None:
        done = cli(*again, *(["--json"] if "--help" not in again else []))
        if done.status == 2 and "error" in done.document:
            assert (done.document["error"]["key"], done.document["error"]["value"]) != (error["key"], error["value"])


@pytest.mark.parametrize(
    ("gpu", "suggested"),
    [("mi300", "--gpu mi300x"), ("NVIDIA H100", "--gpu h100"), ("MI350-", "--gpu mi350x"), ("gb100", None)]
    + [(name, None) for name in ("gb2000", "mi308x", "h100-pcie5", "a10g", "rtx 4090 d", "rtx 6000", "100", "")],
)
def test_a_gpu_is_suggested_only_for_an_incomplete_name(cli: Any, gpu: str, suggested: str | None) -> None:
    error = cli("plan", "tiny.yaml", "--gpu", gpu, "--gpus", "8", "--json").document["error"]
    assert error["next"] == (suggested or "use a listed GPU, or leave out --gpu")


@pytest.mark.parametrize("name", [name for name in packaged.DESCRIPTIONS if name != packaged.CLUSTER])
def test_the_next_step_of_lint_and_of_plan_works(cli: Any, name: str) -> None:
    path = Path(packaged.file_name(name))
    path.write_text(json.dumps(filled(packaged_content(path.name), 4)) if path.name in SEEDS else packaged.text(name))
    step = cli("lint", path).out.splitlines()[-1].removeprefix("next: steelyard ")
    assert step.startswith(f"plan {path}")
    planned = cli(*shlex.split(step))
    assert planned.status == 0
    after = planned.out.splitlines()[-1].removeprefix("next: ")
    command, script, file = after.partition(" --script > ")
    if script:  # its hosts or its GPUs are not here
        assert (cli(*shlex.split(command)[1:], "--script").status, file) == (0, "run.sh")
    else:
        assert shlex.split(command)[:2] in (["steelyard", "run"], ["pip", "install"])


def test_the_plan_of_a_framework_that_is_only_read_is_not_suggested(cli: Any) -> None:
    linted = cli("lint", "titan.yaml", "--platform", "titan").out.splitlines()
    assert linted[-1] == "next: steelyard ingest LOG --config titan.yaml --platform titan"
    assert cli("lint", "titan.yaml").out.splitlines()[-1] == "next: steelyard plan titan.yaml --platform nvidia"


def test_a_tokenizer_that_does_not_exist_is_never_suggested(cli: Any) -> None:
    content = filled(packaged_content(CVS), 1)
    for gpu in content["model_params"]["single_node"]["llama3_1_8b"].values():
        gpu["tokenizer_model"] = "meta-llama/Llama-2-13b-hf"
    Path("c.json").write_text(json.dumps(content))
    problems = cli("lint", "c.json", "--model", "llama3_1_8b", "--gpu", "mi300x", "--json").document["problems"]
    (fix,) = [problem["fix"] for problem in problems if problem["code"] == "SY305"]
    assert fix == 'write "meta-llama/Llama-3.1-8B"'
