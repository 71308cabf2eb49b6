"""The cluster file: which hosts, in rank order, and who we are on them.

Two shapes are read: the JSON of ROCm's cluster validation suite, whose `node_dict` names the hosts, and a short YAML of
ours, whose `hosts` may be ranges: `gpu[01-16].example` or `10.0.0.1-4`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steelyard.configs.choose import Asked
from steelyard.configs.files import ConfigFile, read_mapping
from steelyard.configs.suite.values import left_open, substituted
from steelyard.experiment import InvalidExperimentError, Problem
from steelyard.experiment.limits import MAX_DETAILED
from steelyard.experiment.problems import (
    MISSING_KEY,
    PLACEHOLDER,
    UNKNOWN_KEY,
    WRONG_VALUE,
    more_unknown_keys,
    plain,
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
    """Whether a mapping is a cluster file."""
    return "node_dict" in content or ("hosts" in content and "training" not in content)


def read_inventory(path: Path) -> Inventory:
    """Read a cluster file or say in one sentence why not."""
    inventory, problems = parse_inventory(read_mapping(path))
    raise_errors(problems)
    return inventory


def parse_inventory(file: ConfigFile) -> tuple[Inventory, list[Problem]]:
    """What a cluster file says, and everything that is wrong with it."""
    if not is_inventory(file.content):
        problem = Problem(
            MISSING_KEY,
            "error",
            str(file.path),
            "hosts",
            "the file has neither hosts nor node_dict",
            "add `hosts: [gpu01, gpu02]`",
            expected="the cluster's hosts in rank order",
        )
        raise InvalidExperimentError([problem])
    problems = list(file.problems)
    made = _suite(file, problems) if "node_dict" in file.content else _ours(file, problems)
    seen: set[str] = set()
    for address in made.addresses:
        if address in seen:
            problems.append(_problem(file, WRONG_VALUE, ("hosts",), f"{address} is named twice", "remove one", address))
        seen.add(address)
    if not made.addresses and not problems:
        key = "node_dict" if "node_dict" in file.content else "hosts"
        problems.append(_problem(file, MISSING_KEY, (key,), "the file names no host", "name one"))
    return made, problems


def _problem(
    file: ConfigFile,
    code: str,
    path: tuple[str, ...],
    message: str,
    fix: str,
    value: Any = None,
    expected: str | None = None,
) -> Problem:
    return Problem(code, "error", str(file.path), ".".join(path), message, fix, plain(value), expected, path=path)


def _suite(file: ConfigFile, problems: list[Problem]) -> Inventory:
    _unknown(file, problems, SUITE_KEYS)
    texts = _suite_texts(file, problems)
    addresses, aliases = _suite_hosts(file, problems)
    placeholders = tuple(
        (name, texts[key])
        for name, key in (("home-mount-dir", "home_mount_dir_name"), ("node-dir-name", "node_dir_name"))
        if key in texts
    )
    return Inventory(
        addresses,
        texts.get("username"),
        texts.get("priv_key_file"),
        env=_variables(file, problems),
        placeholders=placeholders,
        aliases=aliases,
    )


def _suite_texts(file: ConfigFile, problems: list[Problem]) -> dict[str, str]:
    """Login, key and directory names, those that are written out and can be used."""
    names, texts = Asked().names(), {}
    for key in ("username", "priv_key_file", "home_mount_dir_name", "node_dir_name"):
        value = file.content.get(key)
        if value is None:
            continue
        if left_open(value):
            problems.append(_open(file, (key,), value, SUITE_KEYS[key]))
            continue
        if not isinstance(value, str):
            problems.append(
                _problem(file, WRONG_VALUE, (key,), f"{key} is {shown(value)}", "write text", value, "text")
            )
            continue
        try:
            text = substituted(value, names)
        except ValueError as reason:
            problems.append(_problem(file, PLACEHOLDER, (key,), f"{key}: {reason}", "write it out", value))
            continue
        if _is_a_word(text):
            texts[key] = text
        else:
            problems.append(_no_word(file, key, value))
    return texts


def _suite_hosts(file: ConfigFile, problems: list[Problem]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The addresses under node_dict, and the other addresses of some."""
    key, nodes = "node_dict", file.content["node_dict"]
    if not isinstance(nodes, dict):
        message = f"{key} is {shown(nodes)}"
        problems.append(_problem(file, WRONG_VALUE, (key,), message, "write a mapping", nodes, "hosts by address"))
        return (), {}
    addresses: list[str] = []
    aliases: dict[str, tuple[str, ...]] = {}
    for address in nodes:
        if str(address).startswith("_"):
            continue
        path = (key, str(address))
        if left_open(address) or re.search(r"[<>{}]", str(address)):
            problems.append(_open(file, path, address, "a host's address"))
            continue
        try:
            _check_host(str(address))
        except ValueError as reason:
            problems.append(_problem(file, WRONG_VALUE, path, f"{shown(address)}: {reason}", "correct it", address))
            continue
        addresses.append(str(address))
        if len(addresses) > MAX_NODES:
            problems.append(_too_many(file, key))
            break
        other = nodes[address].get("vpc_ip") if isinstance(nodes[address], dict) else None
        if isinstance(other, str) and other != address and _names_a_host(other):
            aliases[str(address)] = (other,)
    return tuple(addresses), aliases


def _too_many(file: ConfigFile, key: str) -> Problem:
    expected = f"at most {MAX_NODES:,}"
    return _problem(
        file, WRONG_VALUE, (key,), f"{key} names more hosts than a cluster has", "name fewer", None, expected
    )


def _variables(file: ConfigFile, problems: list[Problem]) -> dict[str, str]:
    raw = file.content.get("env_vars") or {}
    if not isinstance(raw, dict):
        problems.append(
            _problem(file, WRONG_VALUE, ("env_vars",), f"env_vars is {shown(raw)}", "write a mapping", raw, "variables")
        )
        return {}
    found = {}
    for name, value in raw.items():
        path = ("env_vars", str(name))
        if str(name).startswith("_"):
            continue
        if left_open(value):
            problems.append(_open(file, path, value, "its value"))
        elif (
            not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=[^\n\r\x00]*", f"{name}={value}")
            or value is None
            or isinstance(value, dict | list)
        ):
            problems.append(
                _problem(
                    file,
                    WRONG_VALUE,
                    path,
                    f"env_vars.{shown(str(name))[1:-1]} is {shown(value)}",
                    "correct it",
                    value,
                    "a variable",
                )
            )
        else:
            found[str(name)] = str(value)
    return found


def _is_a_word(text: str) -> bool:
    """Whether it can stand in a command: no option, no control character, not empty."""
    return text.isprintable() and not text.startswith("-") and bool(text.strip())


def _no_word(file: ConfigFile, key: str, value: Any) -> Problem:
    expected = "text of one line that does not begin with '-'"
    return _problem(file, WRONG_VALUE, (key,), f"{key} is {shown(value)}", "write text", value, expected)


def _open(file: ConfigFile, path: tuple[str, ...], value: Any, meaning: str) -> Problem:
    name = shown(path[-1])[1:-1]
    return _problem(
        file, PLACEHOLDER, path, f"{name} is left open ({shown(value)})", "write it", value, meaning.rstrip(".").lower()
    )


def _unknown(file: ConfigFile, problems: list[Problem], known: Mapping[str, str]) -> None:
    import difflib

    unknown = [key for key in file.content if not str(key).startswith("_") and key not in known]
    for key in unknown[:MAX_DETAILED]:
        near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.6)
        problems.append(
            _problem(
                file,
                UNKNOWN_KEY,
                (str(key),),
                f"{shown(str(key))[1:-1]} is not a known key of a cluster file",
                f"write {near[0]}, or remove it" if near else "remove it",
                file.content[key],
                f"{near[0]!r}" if near else f"one of {', '.join(known)}",
            )
        )
    if len(unknown) > MAX_DETAILED:
        problems.append(more_unknown_keys(str(file.path), (), len(unknown) - MAX_DETAILED))


def _ours(file: ConfigFile, problems: list[Problem]) -> Inventory:
    content = file.content
    _unknown(file, problems, OUR_KEYS)
    raw = content["hosts"]
    addresses: list[str] = []
    texts = [raw] if isinstance(raw, str) else raw
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        problems.append(
            _problem(
                file,
                WRONG_VALUE,
                ("hosts",),
                f"hosts is {shown(raw)}",
                "write a list",
                raw,
                "a list of names or ranges",
            )
        )
        texts = []
    for at, text in enumerate(texts):
        try:
            addresses += spelt_out(text)
            if len(addresses) > MAX_NODES:
                problems.append(_too_many(file, "hosts"))
                break
        except ValueError as reason:
            path = ("hosts", str(at)) if isinstance(raw, list) else ("hosts",)
            problems.append(_problem(file, WRONG_VALUE, path, f"{shown(text)}: {reason}", "correct the range", text))
    user, key_file, port = content.get("user"), content.get("key_file"), content.get("port")
    if content.get("schema_version", 1) != 1:
        problems.append(
            _problem(
                file,
                WRONG_VALUE,
                ("schema_version",),
                f"schema_version is {shown(content['schema_version'])}",
                "write 1",
            )
        )
    for key, value in (("user", user), ("key_file", key_file)):
        if value is not None and (not isinstance(value, str) or left_open(value) or not _is_a_word(value)):
            problems.append(_no_word(file, key, value))
    if port is not None and not (type(port) is int and 0 < port < 65536):
        problems.append(
            _problem(
                file, WRONG_VALUE, ("port",), f"port is {shown(port)}", "write a port", port, "a number below 65536"
            )
        )
        port = None
    return Inventory(
        tuple(addresses),
        user if isinstance(user, str) else None,
        key_file if isinstance(key_file, str) else None,
        port,
    )


_BRACKETS = re.compile(r"(?P<head>[^\[\]]*)\[(?P<inner>[0-9,\-]+)\](?P<tail>[^\[\]]*)")
_LAST_OCTET = re.compile(r"(?P<head>[0-9]+\.[0-9]+\.[0-9]+\.)(?P<low>[0-9]{1,9})-(?P<high>[0-9]{1,9})")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")


def spelt_out(text: str) -> list[str]:
    """The hosts a range names: gpu[01-03,7] and 10.0.0.1-4."""
    text = text.strip()
    if found := _BRACKETS.fullmatch(text):
        made = [f"{found['head']}{number}{found['tail']}" for number in _numbers(found["inner"])]
    elif found := _LAST_OCTET.fullmatch(text):
        made = [f"{found['head']}{number}" for number in _numbers(f"{found['low']}-{found['high']}")]
        if int(found["high"]) > 255:
            raise ValueError("an address ends at 255")
    else:
        made = [text]
    for one in made:
        _check_host(one)
    return made


def _names_a_host(text: str) -> bool:
    try:
        _check_host(text)
    except ValueError:
        return False
    return True


def _check_host(name: str) -> None:
    """Refuse what is no address and no name; ValueError says so."""
    import ipaddress

    if re.fullmatch(r"[0-9.-]+", name) or ":" in name:
        try:
            if "%" in name:
                raise ValueError
            ipaddress.ip_address(name)
        except ValueError:
            raise ValueError("no name or address of a host") from None
    elif not _HOST.fullmatch(name) or ".." in name or left_open(name):
        raise ValueError("no name or address of a host")


_NUMBER = re.compile(r"[0-9]{1,9}")


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
