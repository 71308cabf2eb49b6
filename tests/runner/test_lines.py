"""Lines out of a stream, however it is cut."""

import itertools

from steelyard.runner.lines import LONGEST, Lines


def test_lines_do_not_depend_on_how_the_stream_is_cut() -> None:
    text = b"one\ntwo\r\n\nfour"
    for cuts in itertools.combinations(range(len(text)), 2):
        lines = Lines()
        found = []
        for low, high in itertools.pairwise((0, *cuts, len(text))):
            found += lines.feed(text[low:high])
        assert found == [b"one\n", b"two\r\n", b"\n"]
        assert lines.rest() == b"four"
        assert lines.rest() == b""


def test_a_line_that_never_ends_does_not_fill_the_memory() -> None:
    lines = Lines()
    kept = [line for _ in range(40) for line in lines.feed(b"x" * 65536)]
    assert kept
    assert max(map(len, kept)) <= LONGEST + 65537
    assert len(lines._rest) <= LONGEST
