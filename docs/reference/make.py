"""Writes the pages of this folder and the page of lint codes: python docs/reference/make.py."""

from pathlib import Path

from steelyard.cli.explain import reason_codes
from steelyard.configs.meanings import page as parity_page
from steelyard.configs.reference import cluster_page, family_page
from steelyard.experiment.reference import page as experiment_page
from steelyard.linting.explain import page as lint_page

HERE = Path(__file__).parent
CODES = """# Reason codes

Made by `python docs/reference/make.py` from the code; `steelyard explain first_loss_off` prints the same.

A code names what was found. `preflight --json` and `check --json` have one per finding, `compare --json` one per
reason, tier and diagnosis. Use codes in scripts: they stay the same where the wording of `message` changes.
"""


def codes_page() -> str:
    parts = [CODES]
    for stage, codes in reason_codes().items():
        rows = [f"| `{code.name}` | {meaning} |" for code, meaning in codes.items()]
        parts.append("\n".join([f"## {stage.capitalize()}\n", "| code | meaning |", "| --- | --- |", *rows, ""]))
    return "\n".join(parts)


PAGES = {
    HERE / "experiment.md": experiment_page,
    HERE / "megatron.md": lambda: family_page("megatron"),
    HERE / "jax.md": lambda: family_page("jax"),
    HERE / "cluster.md": cluster_page,
    HERE / "frameworks.md": parity_page,
    HERE / "codes.md": codes_page,
    HERE.parent / "lint.md": lint_page,
}

if __name__ == "__main__":
    for path, page in PAGES.items():
        path.write_text(page(), encoding="utf-8")
