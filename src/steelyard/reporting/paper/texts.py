"""Texts of the user in place of those of a paper."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from string import Formatter

from steelyard.configs.files import read_mapping
from steelyard.errors import InputError
from steelyard.reporting.paper import Block, Bullets, Paper, Paragraph, Section

_EXAMPLE = "echo 'introduction: We train {model}.' > texts.yaml"
Values = Mapping[str, str]
"""What the placeholders of a user's text stand for."""


def read_texts(path: Path) -> dict[str, str]:
    """A file of texts: by the key of a section, the text in place of its paragraphs."""
    content = read_mapping(path, "a file of texts", _EXAMPLE, as_yaml=True).content
    for key, text in content.items():
        if not isinstance(text, str) or not text.strip():
            complaint, fix = f"{path}: {key} is not a text", f"write `{key}: Your text.`"
            raise InputError(complaint, key=str(key), value=repr(text)[:80], expected="a text", next=fix)
    return dict(content)


def with_texts(paper: Paper, texts: Mapping[str, str], values: Values) -> Paper:
    """The paper with the user's texts in place of the paragraphs and lists of their sections."""
    known = [section.key for section in paper.sections]
    for key in texts:
        if key not in known:
            complaint = f"--text: the paper has no section {key!r}"
            raise InputError(complaint, key=key, expected=f"one of {', '.join(known)}", next=f"write {known[1]}: …")
    return replace(
        paper,
        sections=[
            replace(section, blocks=[*_paragraphs(section.key, texts[section.key], values), *_others(section)])
            if section.key in texts
            else section
            for section in paper.sections
        ],
    )


def _others(section: Section) -> Iterator[Block]:
    return (block for block in section.blocks if not isinstance(block, Paragraph | Bullets))


def _paragraphs(key: str, text: str, values: Values) -> Iterator[Paragraph]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        yield Paragraph([" ".join(_filled(key, paragraph, values).split())])


def _filled(key: str, text: str, values: Values) -> str:
    """The text with its placeholders replaced; only plain names are looked up."""
    known = ", ".join(f"{{{name}}}" for name in values)
    try:
        parts = list(Formatter().parse(text))
    except ValueError as reason:
        complaint, fix = f"--text: {key}: {reason}", "write {{ and }} for braces"
        raise InputError(complaint, key=key, expected=f"text with {known}", next=fix) from None
    filled = []
    for literal, name, form, conversion in parts:
        filled.append(literal)
        if name is None:
            continue
        if name not in values or form or conversion:
            complaint = f"--text: {key}: unknown placeholder {{{name}}}"
            fix = "write {{ and }} for braces"
            raise InputError(complaint, key=key, value=name, expected=f"one of {known}", next=fix)
        filled.append(values[name])
    return "".join(filled)
