"""The cluster file: hosts in rank order, and the login on them.

Two formats are read: the JSON of ROCm's cluster validation suite, whose `node_dict` names the hosts, and a short YAML
format of Steelyard. Its `hosts` may be ranges: `gpu[01-16].example` or `10.0.0.1-4`.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steelyard.configs.cvs.section import Report, sentence_part
from steelyard.configs.cvs.values import left_open, placeholder_names, substituted
from steelyard.configs.files import ConfigFile, read_mapping
from steelyard.experiment import InvalidExperimentError, Problem
from steelyard.experiment.platform import names_a_host
from steelyard.experiment.problems import (
    MISSING_KEY,
    PLACEHOLDER,
    UNKNOWN_KEY,
    WRONG_VALUE,
    bare,
    raise_errors,
    shown,
)
from steelyard.hardware.sizes import MAX_NODES

SUITE_KEYS = {
    "username": "The login on the hosts.",
    "priv_key_file": "The file of the private key.",
    "password": "Refused: passwords do not belong in files.",
    "head_node_dict": "Not read: the first host of node_dict is the head.",
    "node_dict": "The hosts, in rank order, by address.",
    "env_vars": "Environment variables of every command.",
    "home_mount_dir_name": "The value of {home-mount-dir}.",
    "node_dir_name": "The value of {node-dir-name}.",
    "orchestrator": "Not read: the config decides whether there is a container.",
    "container": "Not read: the config names the container.",
    "racks": "Not read.",
}
"""Keys of the suite's cluster file and their meaning."""

OUR_KEYS = {
    "schema_version": "The version of this format: 1.",
    "hosts": "The hosts in rank order; ranges such as gpu[01-16] and 10.0.0.1-4 are allowed.",
    "user": "The login; default: from ~/.ssh/config, else the current user.",
    "key_file": "The file of the private key; default: from ~/.ssh/config or an agent.",
    "port": "The ssh port; default: 22.",
}
"""Keys of Steelyard's cluster file and their meaning."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hosts in rank order and how to log in to them."""

    addresses: tuple[str, ...]
    user: str | None = None
    key_file: str | None = None
    port: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    placeholders: tuple[tuple[str, str], ...] = ()
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other addresses of a host, such as its vpc_ip."""

    @property
    def login(self) -> tuple[str, ...]:
        """The command that logs in to a host, without the host name."""
        port = ("-p", str(self.port)) if self.port else ()
        key = ("-i", self.key_file) if self.key_file else ()
        return ("ssh", *port, *key, *(("-l", self.user) if self.user else ()))


def is_inventory(content: Mapping[str, Any]) -> bool:
    return "node_dict" in content or ("hosts" in content and "training" not in content)


def read_inventory(path: Path) -> Inventory:
    inventory, problems = parse_inventory(read_mapping(path, "a cluster file", "steelyard init cluster"))
    raise_errors(problems)
    return inventory


def parse_inventory(file: ConfigFile) -> tuple[Inventory, list[Problem]]:
    """The content of a cluster file and all its problems."""
    content, report = file.content, Report(file.path, placeholder_names(), problems=list(file.problems))
    if not is_inventory(content):
        message, fix = "the file has neither hosts nor node_dict", "steelyard init cluster"
        expected = "a cluster file"
        problem = Problem(MISSING_KEY, "error", str(file.path), "hosts", message, fix, expected=expected)
        raise InvalidExperimentError([problem])
    of_suite = "node_dict" in content
    _unknown(report, content, SUITE_KEYS if of_suite else OUR_KEYS)
    inventory = (_suite if of_suite else _ours)(content, report)
    seen: set[str] = set()
    for address in inventory.addresses:
        if address in seen:
            report.add(WRONG_VALUE, ("hosts",), f"{address} appears twice", "remove one of them", address)
        seen.add(address)
    if not inventory.addresses and not report.problems:
        report.add(MISSING_KEY, ("node_dict" if of_suite else "hosts",), "the file has no hosts", "add one")
    return inventory, report.problems


def _unknown(report: Report, content: Mapping[str, Any], known: Mapping[str, str]) -> None:
    unknown = [key for key in content if not str(key).startswith("_") and key not in known]
    for key in report.first_unknown((), unknown):
        near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.6)
        message = f"{bare(str(key))} is not a known key of a cluster file"
        fix = f"write {near[0]}, or remove it" if near else "remove it"
        expected = f"{near[0]!r}" if near else f"one of {', '.join(known)}"
        report.add(UNKNOWN_KEY, (str(key),), message, fix, content[key], expected)


def _suite(content: Mapping[str, Any], report: Report) -> Inventory:
    texts = dict(_suite_texts(content, report))
    addresses, aliases = _suite_hosts(content["node_dict"], report)
    placeholders = (("home-mount-dir", "home_mount_dir_name"), ("node-dir-name", "node_dir_name"))
    return Inventory(
        addresses,
        texts.get("username"),
        texts.get("priv_key_file"),
        env=_variables(content.get("env_vars") or {}, report),
        placeholders=tuple((name, texts[key]) for name, key in placeholders if key in texts),
        aliases=aliases,
    )


def _suite_texts(content: Mapping[str, Any], report: Report) -> Iterator[tuple[str, str]]:
    """The usable values of login, key and directory names."""
    for key in ("username", "priv_key_file", "home_mount_dir_name", "node_dir_name"):
        value = content.get(key)
        if value is None:
            continue
        if left_open(value):
            _placeholder(report, (key,), value, SUITE_KEYS[key])
        elif not isinstance(value, str):
            report.wrong((key,), value, "text", "write text")
        else:
            try:
                text = substituted(value, report.names)
            except ValueError as reason:
                report.add(PLACEHOLDER, (key,), f"{key}: {reason}", "write the value itself", value)
                continue
            if _is_a_word(text):
                yield key, text
            else:
                report.wrong((key,), value, _WORD, "write text")


def _suite_hosts(nodes: Any, report: Report) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The addresses under node_dict, and the other addresses of some."""
    if not isinstance(nodes, dict):
        report.wrong(("node_dict",), nodes, "a mapping of hosts by address", "write a mapping")
        return (), {}
    addresses: list[str] = []
    aliases: dict[str, tuple[str, ...]] = {}
    for address, facts in nodes.items():
        name, path = str(address), ("node_dict", str(address))
        if name.startswith("_"):
            continue
        if left_open(address) or re.search(r"[<>{}]", name):
            _placeholder(report, path, address, "The address of a host")
            continue
        if not _names_a_host(name):
            report.add(WRONG_VALUE, path, f"{shown(address)}: {_NOT_A_HOST}", "correct it", address)
            continue
        addresses.append(name)
        if len(addresses) > MAX_NODES:
            _too_many(report, "node_dict")
            break
        other = facts.get("vpc_ip") if isinstance(facts, dict) else None
        if isinstance(other, str) and other != address and _names_a_host(other):
            aliases[name] = (other,)
    return tuple(addresses), aliases


def _too_many(report: Report, key: str) -> None:
    message = f"{key} has too many hosts"
    report.add(WRONG_VALUE, (key,), message, "remove some", expected=f"at most {MAX_NODES:,}")


def _variables(raw: Any, report: Report) -> dict[str, str]:
    if not isinstance(raw, dict):
        report.wrong(("env_vars",), raw, "a mapping of variables", "write a mapping")
        return {}
    variables = {}
    for name, value in raw.items():
        path = ("env_vars", str(name))
        if str(name).startswith("_"):
            continue
        is_text = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=[^\n\r\x00]*", f"{name}={value}")
        if left_open(value):
            _placeholder(report, path, value, "The value of the variable")
        elif not is_text or value is None or isinstance(value, dict | list):
            report.wrong(path, value, "NAME: value on one line", "correct it", f"env_vars.{bare(str(name))}")
        else:
            variables[str(name)] = str(value)
    return variables


_WORD = "one line of text that does not start with '-'"


def _is_a_word(text: str) -> bool:
    """Whether it can be an argument of a command: not an option, no control characters, not empty."""
    return text.isprintable() and not text.startswith("-") and bool(text.strip())


def _placeholder(report: Report, path: tuple[str, ...], value: Any, meaning: str) -> None:
    message = f"{bare(path[-1])} is not filled in ({shown(value)})"
    report.add(PLACEHOLDER, path, message, "write the value", value, sentence_part(meaning))


def _ours(content: Mapping[str, Any], report: Report) -> Inventory:
    raw = content["hosts"]
    addresses: list[str] = []
    texts = [raw] if isinstance(raw, str) else raw
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        report.wrong(("hosts",), raw, "a list of names or ranges", "write a list")
        texts = []
    for at, text in enumerate(texts):
        try:
            addresses += expanded(text)
        except ValueError as reason:
            path = ("hosts", str(at)) if isinstance(raw, list) else ("hosts",)
            report.add(WRONG_VALUE, path, f"{shown(text)}: {reason}", "correct the range", text)
        if len(addresses) > MAX_NODES:
            _too_many(report, "hosts")
            break
    if content.get("schema_version", 1) != 1:
        message = f"schema_version is {shown(content['schema_version'])}"
        report.add(WRONG_VALUE, ("schema_version",), message, "write 1")
    user, key_file, port = content.get("user"), content.get("key_file"), content.get("port")
    for key, value in (("user", user), ("key_file", key_file)):
        if value is not None and (not isinstance(value, str) or left_open(value) or not _is_a_word(value)):
            report.wrong((key,), value, _WORD, "write text")
    if port is not None and not (type(port) is int and 0 < port < 65536):
        report.wrong(("port",), port, "a port from 1 to 65535", "write a port")
    return Inventory(tuple(addresses), user, key_file, port)


_BRACKETS = re.compile(r"(?P<head>[^\[\]]*)\[(?P<inner>[0-9,\-]+)\](?P<tail>[^\[\]]*)")
_LAST_OCTET = re.compile(r"(?P<head>[0-9]+\.[0-9]+\.[0-9]+\.)(?P<low>[0-9]{1,9})-(?P<high>[0-9]{1,9})")
_NUMBER = re.compile(r"[0-9]{1,9}")
_NOT_A_HOST = "not the name or address of a host"


def expanded(text: str) -> list[str]:
    """The hosts of a range such as gpu[01-03,7] or 10.0.0.1-4."""
    text = text.strip()
    if match := _BRACKETS.fullmatch(text):
        hosts = [f"{match['head']}{number}{match['tail']}" for number in _numbers(match["inner"])]
    elif match := _LAST_OCTET.fullmatch(text):
        hosts = [f"{match['head']}{number}" for number in _numbers(f"{match['low']}-{match['high']}")]
        if int(match["high"]) > 255:
            raise ValueError("the last number of an address is at most 255")
    else:
        hosts = [text]
    if not all(map(_names_a_host, hosts)):
        raise ValueError(_NOT_A_HOST)
    return hosts


def _names_a_host(name: str) -> bool:
    return names_a_host(name) and not left_open(name)


def _numbers(inner: str) -> Iterator[str]:
    count = 0
    for part in inner.split(","):
        low, dash, high = part.partition("-")
        if not _NUMBER.fullmatch(low) or (dash and not _NUMBER.fullmatch(high)):
            raise ValueError(f"{shown(part)} is not a range of numbers of at most 9 digits")
        first, last = int(low), int(high or low)
        count += last - first + 1
        if last < first or count > MAX_NODES:
            raise ValueError(f"{shown(part)} is not a range of at most {MAX_NODES:,} numbers")
        yield from (f"{number:0{len(low)}d}" for number in range(first, last + 1))
