"""Text of a log as nothing can act on it: neither a terminal nor a page."""


def inert(text: str) -> str:
    """One line whose control characters are shown, not sent, and that cannot be turned round."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _escaped(char) for char in text)


def inert_lines(text: str) -> str:
    """The same of each of its lines."""
    return "\n".join(inert(line) for line in text.split("\n"))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", errors="surrogatepass").decode()
