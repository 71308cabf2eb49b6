"""The cluster file: which hosts, in rank order, and who we are on them.

Two shapes are read: the JSON of ROCm's cluster validation suite, whose `node_dict` names the hosts, and a short YAML of
ours, whose `hosts` may be ranges: `gpu[01-16].example` or `10.0.0.1-4`.
"""

import difflib
import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steelyard.configs.files import ConfigFile, read_mapping
from steelyard.configs.suite.section import Report
from steelyard.configs.suite.values import left_open, placeholder_names, substituted
from steelyard.experiment import InvalidExperimentError, Problem
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
    "username": "Who logs in to the hosts.",
    "priv_key_file": "The private key.",
    "password": "Refused: a file is no place for a password.",
    "head_node_dict": "Nothing: the first host of node_dict is the head.",
    "node_dict": "The hosts, in rank order, by address.",
    "env_vars": "Variables of every command.",
    "home_mount_dir_name": "What {home-mount-dir} stands for.",
    "node_dir_name": "What {node-dir-name} stands for.",
    "orchestrator": "Nothing: the config says whether there is a container.",
    "container": "Nothing: the config says which container.",
    "racks": "Nothing.",
}
"""Keys of the suite's cluster file and what each means here."""

OUR_KEYS = {
    "schema_version": "1.",
    "hosts": "The hosts, in rank order; ranges such as gpu[01-16] and 10.0.0.1-4 are spelt out.",
    "user": "Who logs in; ~/.ssh/config or this user where it is absent.",
    "key_file": "The private key; ~/.ssh/config or an agent where it is absent.",
    "port": "The port of ssh; 22 where it is absent.",
}
"""Keys of our own."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hosts in rank order and how they are reached."""

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
        """How a host is reached from a shell, its name to follow."""
        port = ("-p", str(self.port)) if self.port else ()
        key = ("-i", self.key_file) if self.key_file else ()
        return ("ssh", *port, *key, *(("-l", self.user) if self.user else ()))


def is_inventory(content: Mapping[str, Any]) -> bool:
    return "node_dict" in content or ("hosts" in content and "training" not in content)


def read_inventory(path: Path) -> Inventory:
    inventory, problems = parse_inventory(read_mapping(path))
    raise_errors(problems)
    return inventory


def parse_inventory(file: ConfigFile) -> tuple[Inventory, list[Problem]]:
    """What a cluster file says, and everything that is wrong with it."""
    content, report = file.content, Report(file.path, placeholder_names(), problems=list(file.problems))
    if not is_inventory(content):
        message, fix = "the file has neither hosts nor node_dict", "add `hosts: [gpu01, gpu02]`"
        expected = "the cluster's hosts in rank order"
        problem = Problem(MISSING_KEY, "error", str(file.path), "hosts", message, fix, expected=expected)
        raise InvalidExperimentError([problem])
    of_suite = "node_dict" in content
    _unknown(report, content, SUITE_KEYS if of_suite else OUR_KEYS)
    inventory = (_suite if of_suite else _ours)(content, report)
    seen: set[str] = set()
    for address in inventory.addresses:
        if address in seen:
            report.add(WRONG_VALUE, ("hosts",), f"{address} is named twice", "remove one", address)
        seen.add(address)
    if not inventory.addresses and not report.problems:
        report.add(MISSING_KEY, ("node_dict" if of_suite else "hosts",), "the file names no host", "name one")
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
    """Login, key and directory names, those that are written out and can be used."""
    for key in ("username", "priv_key_file", "home_mount_dir_name", "node_dir_name"):
        value = content.get(key)
        if value is None:
            continue
        if left_open(value):
            _left_open(report, (key,), value, SUITE_KEYS[key])
        elif not isinstance(value, str):
            report.wrong((key,), value, "text", "write text")
        else:
            try:
                text = substituted(value, report.names)
            except ValueError as reason:
                report.add(PLACEHOLDER, (key,), f"{key}: {reason}", "write it out", value)
                continue
            if _is_a_word(text):
                yield key, text
            else:
                report.wrong((key,), value, _WORD, "write text")


def _suite_hosts(nodes: Any, report: Report) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The addresses under node_dict, and the other addresses of some."""
    if not isinstance(nodes, dict):
        report.wrong(("node_dict",), nodes, "hosts by address", "write a mapping")
        return (), {}
    addresses: list[str] = []
    aliases: dict[str, tuple[str, ...]] = {}
    for address, facts in nodes.items():
        name, path = str(address), ("node_dict", str(address))
        if name.startswith("_"):
            continue
        if left_open(address) or re.search(r"[<>{}]", name):
            _left_open(report, path, address, "a host's address")
            continue
        if not _names_a_host(name):
            report.add(WRONG_VALUE, path, f"{shown(address)}: {_NO_HOST}", "correct it", address)
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
    message = f"{key} names more hosts than a cluster has"
    report.add(WRONG_VALUE, (key,), message, "name fewer", expected=f"at most {MAX_NODES:,}")


def _variables(raw: Any, report: Report) -> dict[str, str]:
    if not isinstance(raw, dict):
        report.wrong(("env_vars",), raw, "variables", "write a mapping")
        return {}
    variables = {}
    for name, value in raw.items():
        path = ("env_vars", str(name))
        if str(name).startswith("_"):
            continue
        is_text = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=[^\n\r\x00]*", f"{name}={value}")
        if left_open(value):
            _left_open(report, path, value, "its value")
        elif not is_text or value is None or isinstance(value, dict | list):
            report.wrong(path, value, "a variable", "correct it", f"env_vars.{bare(str(name))}")
        else:
            variables[str(name)] = str(value)
    return variables


_WORD = "text of one line that does not begin with '-'"


def _is_a_word(text: str) -> bool:
    """Whether it can stand in a command: no option, no control character, not empty."""
    return text.isprintable() and not text.startswith("-") and bool(text.strip())


def _left_open(report: Report, path: tuple[str, ...], value: Any, meaning: str) -> None:
    message = f"{bare(path[-1])} is left open ({shown(value)})"
    report.add(PLACEHOLDER, path, message, "write it", value, meaning.rstrip(".").lower())


def _ours(content: Mapping[str, Any], report: Report) -> Inventory:
    raw = content["hosts"]
    addresses: list[str] = []
    texts = [raw] if isinstance(raw, str) else raw
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        report.wrong(("hosts",), raw, "a list of names or ranges", "write a list")
        texts = []
    for at, text in enumerate(texts):
        try:
            addresses += spelt_out(text)
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
        report.wrong(("port",), port, "a number below 65536", "write a port")
    return Inventory(tuple(addresses), user, key_file, port)


_BRACKETS = re.compile(r"(?P<head>[^\[\]]*)\[(?P<inner>[0-9,\-]+)\](?P<tail>[^\[\]]*)")
_LAST_OCTET = re.compile(r"(?P<head>[0-9]+\.[0-9]+\.[0-9]+\.)(?P<low>[0-9]{1,9})-(?P<high>[0-9]{1,9})")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_NUMBER = re.compile(r"[0-9]{1,9}")
_NO_HOST = "no name or address of a host"


def spelt_out(text: str) -> list[str]:
    """The hosts a range names: gpu[01-03,7] and 10.0.0.1-4."""
    text = text.strip()
    if match := _BRACKETS.fullmatch(text):
        hosts = [f"{match['head']}{number}{match['tail']}" for number in _numbers(match["inner"])]
    elif match := _LAST_OCTET.fullmatch(text):
        hosts = [f"{match['head']}{number}" for number in _numbers(f"{match['low']}-{match['high']}")]
        if int(match["high"]) > 255:
            raise ValueError("an address ends at 255")
    else:
        hosts = [text]
    if not all(map(_names_a_host, hosts)):
        raise ValueError(_NO_HOST)
    return hosts


def _names_a_host(name: str) -> bool:
    """Whether it is an address, without a scope, or a name."""
    if not re.fullmatch(r"[0-9.-]+", name) and ":" not in name:
        return bool(_HOST.fullmatch(name)) and ".." not in name and not left_open(name)
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return "%" not in name


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
