"""The whole story on one machine: runs, verdicts, one comparison that holds and one that is refused."""

from steelyard.demo.story import CHAPTERS, CONFIG, RECORDED, Chapter, Story, copy_recorded, tell

__all__ = ["CHAPTERS", "CONFIG", "RECORDED", "Chapter", "Story", "copy_recorded", "tell"]
