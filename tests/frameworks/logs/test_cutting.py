"""Lines out of a stream, however it is cut."""

import itertools

from steelyard.frameworks.logs.cutter import LONGEST, LineCutter


def test_lines_do_not_depend_on_how_the_stream_is_cut() -> None:
    text = b"one\ntwo\r\n\nfour"
    for cuts in itertools.combinations(range(len(text)), 2):
        cutter = LineCutter()
        found = []
        for low, high in itertools.pairwise((0, *cuts, len(text))):
            found += cutter.feed(text[low:high])
        assert found == [b"one", b"two\r", b""]
        assert [*cutter.rest(), *cutter.rest()] == [b"four"]
        assert cutter.whole


def test_of_a_line_that_never_ends_the_beginning_is_kept() -> None:
    cutter = LineCutter()
    for _ in range(40):
        assert cutter.feed(b"x" * 65536) == []
        assert len(cutter._rest) <= LONGEST + 65536
    assert cutter.feed(b"x\nnext\n") == [b"x" * LONGEST, b"next"]
    assert not cutter.whole
