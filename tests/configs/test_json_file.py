"""JSON configs as people have them, and files that are none."""

import json
from pathlib import Path
from typing import Any

import pytest

from seeds import SEEDS, filled, packaged_content
from steelyard.configs.choose import Asked, one_reading, readings
from steelyard.configs.cvs.values import converted, left_open, substituted
from steelyard.configs.files import read_config, with_lines
from steelyard.errors import InputError
from steelyard.experiment import resolve
from steelyard.experiment.parsing import json_places
from steelyard.experiment.sources import CONFIG

MEGATRON, JAX = "mi3xx_megatron_llama_single.json", "mi300x_singlenode_llama3_1_70b.json"


def write(tmp_path: Path, content: Any, name: str = "config.json") -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


HOSTILE = {
    "10 MB": b'{"config": "' + b"x" * (10 * 1024 * 1024) + b'"}',
    "lists 10,000 deep": b'{"config": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "mappings 10,000 deep": b'{"a": ' * 10_000 + b"1" + b"}" * 10_000,
    "a binary": bytes(range(256)) * 40,
    "an empty file": b"",
    "blank": b" \n\t\n",
    "a key of a million characters": b'{"' + b"k" * 1_000_000 + b'": 1}',
    "a list": b"[1, 2]",
    "a number": b"3",
    "NaN": b'{"config": NaN}',
    "half a file": b'{"config": {"nnodes": "1"',
    "a trailing comma": b'{"config": {"nnodes": "1",}}',
    "a number of a thousand digits": b'{"config": ' + b"9" * 1000 + b"}",
    "a number of ten thousand digits": b'{"config": ' + b"9" * 10_000 + b"}",
    "UTF-16": '{"config": {}}'.encode("utf-16"),
}


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_config_is_one_sentence_and_exit_2(cli: Any, tmp_path: Path, what: str, suffix: str) -> None:
    path = tmp_path / f"file{suffix}"
    path.write_bytes(HOSTILE[what])
    told = cli("plan", path)
    assert told.status == 2
    assert told.err.count("\n") == 1
    assert len(told.err) < 1000
    linted = cli("lint", path, "--json")
    assert linted.status == 2
    assert len(linted.out) < 5000
    assert linted.document["problems"]


def test_a_placeholder_that_names_itself_is_one_sentence(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "{user-id}")
    path = write(tmp_path, filled(packaged_content(MEGATRON), 1))
    told = cli("plan", path, "--model", "llama3_1_8b", "--gpu", "mi300x")
    assert told.status == 2
    assert "the placeholder {user-id} contains itself" in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"schema_version": 1, "framework": "megatron_single", "sweep": {}, "config": {}}, "newer schema"),
        ({"schema_version": 1, "config": {}, "model_params": {}}, "newer schema"),
        ({"_comment": "x", "MBS=4,GBS=128,PRECISION=FP8": {}}, "thresholds of the suite's newer schema"),
        ({"config": {"container_image": "rocm/torchtitan"}, "model_params": {}}, "torchtitan config"),
        ({"config": {"training_steps": "3", "training_iterations": "3"}, "model_params": {}}, "mixes keys"),
        ({"config": {}, "model_params": {}}, "neither training_iterations"),
    ],
)
def test_a_family_that_is_not_read_is_refused_in_a_sentence(tmp_path: Path, content: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_config(write(tmp_path, content))


def test_json_of_our_own_shape_is_an_experiment(tmp_path: Path) -> None:
    training = {"micro_batch_size": 1, "global_batch_size": 1, "sequence_length": 8, "steps": 1, "learning_rate": 0.1}
    path = write(tmp_path, {"schema_version": 1, "name": "x", "model": {"preset": "tiny-llama"}, "training": training})
    assert resolve(one_reading(read_config(path), Asked())).experiment.training.steps == 1


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("500_000", "whole", 500000),
        ("500_000", "number", 500000.0),
        ("1.0e-5", "number", 1e-5),
        ("8", "whole", 8),
        (8, "whole", 8),
        ("8.0", "whole", 8),
        ("-1", "whole", -1),
        (".5", "number", 0.5),
        ("True", "flag", True),
        ("true", "flag", True),
        ("FALSE", "flag", False),
        ("0", "flag", False),
        (True, "flag", True),
        ("''", "text", ""),
        ('""', "text", ""),
        ("", "text", ""),
        (405, "text", "405"),
        ("a, b", "list", ["a", "b"]),
        (["silu", "linear"], "list", ["silu", "linear"]),
    ],
)
def test_values_are_read_as_they_are_spelt(text: Any, kind: Any, value: Any) -> None:
    found = converted(text, kind)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("8.5", "whole"),
        ("eight", "whole"),
        ("1__0", "whole"),
        ("_1", "whole"),
        ("1_", "number"),
        ("nan", "number"),
        ("inf", "number"),
        ("1e999", "number"),
        ("9" * 25, "whole"),
        (True, "whole"),
        (None, "text"),
        ({}, "text"),
        ("maybe", "flag"),
        ("x", "mapping"),
        ({"a": 1}, "list"),
        ([[1]], "list"),
    ],
)
def test_a_value_that_is_none_says_what_was_expected(text: Any, kind: Any) -> None:
    with pytest.raises(ValueError, match=r"^a |^True|^text"):
        converted(text, kind)


@pytest.mark.parametrize("text", ["<changeme>", "<CHANGEME>-no of nodes", "at <changeme> = number", "X.X.X.X"])
def test_a_place_left_open_is_known(text: str) -> None:
    assert left_open(text)


def test_placeholders_are_filled_in_keys_and_values(tmp_path: Path) -> None:
    content = filled(packaged_content(JAX), 1)
    content["config"]["container_config"]["volume_dict"]["/{home-mount-dir}/{user}"] = "{home}/x"
    reading = one_reading(read_config(write(tmp_path, content)), Asked(user="alice"))
    platform = resolve(reading).platform
    assert platform.container is not None
    assert platform.container.volumes["/home/alice"] == "/home/alice/x"
    assert platform.hf_token_file == "/home/alice/.hf_token"
    assert substituted("{user-id}/{home}", Asked(user="root").names()) == "root//root"
    with pytest.raises(ValueError, match=r"\{run_dir\} is unknown, expected one of \{user-id\}, \{user\}, \{home\}"):
        substituted("{run_dir}", Asked().names())


@pytest.mark.parametrize("name", SEEDS)
def test_order_indentation_types_and_parked_keys_change_nothing(name: str, tmp_path: Path) -> None:
    """The same file with keys turned round, tabs, real numbers and parked alternatives is the same experiment."""
    content = filled(packaged_content(name), 4)

    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            parked = {f"{'_' * (1 + at % 3)}{key}": "parked" for at, key in enumerate(value) if not key.startswith("_")}
            return {**parked, **{key: turned(inner) for key, inner in reversed(value.items())}}
        if isinstance(value, str) and value.isdigit():
            return int(value)
        return {"True": True, "false": False}.get(value, value) if isinstance(value, str) else value

    other = {key: turned(value) for key, value in reversed(content.items())}
    volumes = content["config"]["container_config"]["volume_dict"]
    other["config"]["container_config"]["volume_dict"] = volumes
    plain = readings(read_config(write(tmp_path, content, "plain.json")), Asked(user="a"))
    odd = readings(read_config(write(tmp_path, json.dumps(other, indent="\t"), "odd.json")), Asked(user="a"))
    assert {one.platform for one in odd} == {one.platform for one in plain}
    by_name = {one.platform: resolve(one) for one in odd}
    for one in plain:
        same = by_name[one.platform]
        assert same.experiment == resolve(one).experiment
        assert same.platform.model_dump(exclude={"options", "env"}) == resolve(one).platform.model_dump(
            exclude={"options", "env"}
        )


def test_sections_models_and_gpus_are_selected(tmp_path: Path) -> None:
    content = filled(packaged_content(MEGATRON), 1)
    content["model_params"]["multi_node"] = filled(packaged_content("mi3xx_megatron_llama_distributed.json"), 4)[
        "model_params"
    ]["multi_node"]
    content["config"] |= {"nic_type": "thor2", "nccl_socket_ifname": "eth0"}
    file = read_config(write(tmp_path, content))
    assert len(readings(file, Asked())) == 8
    assert {one.section for one in readings(file, Asked(nodes=1))} == {"single_node"}
    assert {one.section for one in readings(file, Asked(nodes=4))} == {"multi_node"}
    chosen = one_reading(file, Asked(nodes=4, model="llama3.1-70b", gpu="MI325X"))
    assert (chosen.model_key, chosen.platform) == ("llama3_1_70b", "multi_node-llama3_1_70b-mi325")
    with pytest.raises(InputError, match=r"8 combinations .* expected one of single_node-llama3_1_8b-mi300x"):
        one_reading(file, Asked())
    with pytest.raises(InputError, match="model 'llama2', expected one of llama3_1_8b, llama3_1_70b"):
        one_reading(file, Asked(model="llama2"))
    with pytest.raises(InputError, match="gpu 'h100', expected one of mi300x, mi325"):
        one_reading(file, Asked(gpu="h100"))


def test_every_value_of_the_experiment_has_a_source_and_the_file_s_have_a_place(tmp_path: Path) -> None:
    content = filled(packaged_content(MEGATRON), 1)
    file = read_config(write(tmp_path, json.dumps(content, indent=1)))
    found = resolve(one_reading(file, Asked(model="llama3_1_8b", gpu="mi300x")))
    assert str(found.sources["training.learning_rate"]) == "script train_llama3.sh"
    assert found.sources["training.global_batch_size"] == CONFIG
    assert str(found.sources["model.num_layers"]) == "preset llama3.1-8b"
    place = found.reading.paths["training.global_batch_size"]
    assert place == ("model_params", "single_node", "llama3_1_8b", "mi300x", "batch_size")
    stated = [key for key, source in found.sources.items() if source == CONFIG and "." in key]
    assert all(key in found.reading.paths for key in stated)


def test_a_setting_fills_a_place_the_file_leaves_open(tmp_path: Path) -> None:
    content = filled(packaged_content(MEGATRON), 1, training_iterations="<changeme>")
    file = read_config(write(tmp_path, content))
    asked = Asked(model="llama3_1_8b", gpu="mi300x")
    assert [problem.code for problem in one_reading(file, asked).problems] == ["SY110"]
    told = Asked(model="llama3_1_8b", gpu="mi300x", settings=[("training.steps", 7)])
    assert one_reading(file, told).problems == ()
    assert resolve(one_reading(file, told), told.settings).experiment.training.steps == 7


def test_every_key_has_its_line(tmp_path: Path) -> None:
    text = '{\n "model": {"b": 1,\n  "c": [1,\n 2, {"d": "}{,:\\""}]},\n "a~/": 2, "model": 3}'
    found = {(place.path, place.line, place.again) for place in json_places(text)}
    assert found == {
        (("model",), 2, False),
        (("model", "b"), 2, False),
        (("model", "c"), 3, False),
        (("model", "c", "0"), 3, False),
        (("model", "c", "1"), 4, False),
        (("model", "c", "2"), 4, False),
        (("model", "c", "2", "d"), 4, False),
        (("a~/",), 5, False),
        (("model",), 5, True),
    }
    assert json.loads(text)["model"] == 3
    (twice,) = read_config(write(tmp_path, text)).problems
    assert (twice.code, twice.pointer, twice.line) == ("SY109", "/model", 5)
    assert with_lines([], read_config(write(tmp_path, text))) == []


def test_the_synthetic_batch_of_maxtext_has_no_floor(cli: Any, tmp_path: Path) -> None:
    """MaxText gives one batch every step, which can be learned by heart."""
    planned = cli("plan", write(tmp_path, filled(packaged_content(JAX), 1)), "--json").document
    assert planned["expected"]["loss_floor"] is None
    assert planned["expected"]["first_loss"] == pytest.approx(12.262, abs=1e-3)
    assert planned["expected"]["tokens_per_step"] == 16 * 8192
