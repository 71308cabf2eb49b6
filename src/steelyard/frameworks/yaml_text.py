"""YAML as frameworks read it."""

import io
from collections.abc import Mapping
from typing import Any


def as_yaml(values: Mapping[str, Any]) -> str:
    """The file as PyYAML reads it, to which 1e-08 is text and 1.0e-08 a number."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import ScalarNode
    from ruamel.yaml.representer import SafeRepresenter

    class Dotted(SafeRepresenter):
        def represent_float(self, data: Any) -> ScalarNode:
            node = super().represent_float(data)
            if "e" in node.value and "." not in node.value:
                node.value = node.value.replace("e", ".0e", 1)
            return node

    Dotted.add_representer(float, Dotted.represent_float)
    writer = YAML(typ="safe", pure=True)
    writer.Representer = Dotted
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    text = io.StringIO()
    writer.dump(dict(values), text)
    return text.getvalue()
