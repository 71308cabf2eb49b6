"""steelyard plan."""

from pathlib import Path
from typing import Any


def test_the_document_has_the_keys_of_the_interface(cli: Any, tiny: Path) -> None:
    asked = cli("plan", tiny, "--json")
    assert asked.status == 0
    assert asked.err == ""
    (node,) = asked.document["nodes"]
    assert {"host", "rank", "argv", "env", "files", "container"} <= set(node)
    assert {
        "parameters",
        "flops_per_token",
        "tokens_per_step",
        "memory_gib_per_gpu",
        "first_loss",
        "loss_floor",
    } <= set(asked.document["expected"])
    assert not Path("runs").exists()


def test_a_person_is_shown_the_command_and_what_to_expect(cli: Any, tiny: Path) -> None:
    shown = cli("plan", tiny).out
    assert "-m steelyard.trainer trainer.json" in shown
    assert "  loss floor        1.2130 nats per token" in shown
    assert "  first loss        4.8648 nats per token" in shown


def test_another_gpu_may_be_planned_for(cli: Any, tiny: Path) -> None:
    asked = cli("plan", tiny, "--gpu", "MI300X", "--gpus", "2", "--set", "precision.dtype=bf16", "--json")
    assert asked.document["expected"]["peak_tflops_per_gpu"] == 1307.4
    assert asked.document["platform"] == "mi300x"


def test_what_to_expect_is_the_end_of_a_plan(cli: Any, tiny: Path) -> None:
    *_, floor, step = cli("plan", tiny, "--gpu", "cpu").out.splitlines()
    assert floor.startswith("  loss floor  ")
    assert step.startswith("next: ")
