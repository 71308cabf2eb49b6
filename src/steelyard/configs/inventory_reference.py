"""The reference page of cluster files, from the tables that read them."""

from collections.abc import Mapping

from steelyard.configs.inventory import OUR_KEYS, SUITE_KEYS

_HEAD = """# Keys of a cluster file

Made by `python docs/reference/make.py` from the tables that read it. `steelyard lint` and `plan` take it as
`--cluster FILE`; `steelyard lint FILE` says what is wrong with it. The order of the hosts is the order of the
ranks, and the first is the head.
"""


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(
        [
            _HEAD,
            _table("Our own, in YAML", OUR_KEYS),
            _table("The validation suite's, in JSON", SUITE_KEYS),
        ]
    )


def _table(title: str, keys: Mapping[str, str]) -> str:
    rows = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in keys.items())
    return f"## {title}\n\n| key | meaning |\n| --- | --- |\n{rows}\n"
