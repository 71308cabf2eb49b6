"""Makes untrusted text harmless for terminals and pages."""


def inert(text: str) -> str:
    """One line with control characters and text-direction characters escaped."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _escaped(char) for char in text)


def inert_lines(text: str) -> str:
    """The text with each of its lines made inert."""
    return "\n".join(inert(line) for line in text.split("\n"))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", errors="surrogatepass").decode()
