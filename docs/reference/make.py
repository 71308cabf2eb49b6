"""Writes the pages of this folder and the page of lint codes: python docs/reference/make.py."""

from pathlib import Path

from steelyard.cli.explain import page as codes_page
from steelyard.configs.meanings import page as parity_page
from steelyard.configs.reference import cluster_page, family_page
from steelyard.experiment.reference import page as experiment_page
from steelyard.linting.explain import page as lint_page

HERE = Path(__file__).parent
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
