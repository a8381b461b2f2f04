"""Passages: a text longer than an embedder's window, cut at sentences into parts of its own size.

The memory stays one row with the whole text and one vector. Its passages have vectors beside it, so
that what is said in the middle of a long text is found too; the memory's distance is the smallest
of them all.
"""

from dataclasses import dataclass

# What the shipped models read well at once. e5 reads 512 tokens: 700 characters of chat are about
# 175 in English and 440 to 475 in Chinese, 800 in Chinese were too many. The sentence encoder reads
# any length but blurs it: of 150 LongMemEval questions over 296 sessions of 15,000 characters, it
# put the right session first for .53 with one vector, .64 with passages of 1,000 characters, .72
# with 700, .71 with 500, .68 with 250; each step down costs half as many rows again, or more.
WINDOW = 700


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text.

    Attributes:
        start: Offset of its first character (code point) in the text.
        end: Offset after its last one.
    """

    start: int
    end: int

    def of(self, text: str) -> str:
        """Return the passage's own text."""
        return text[self.start : self.end]


def split(text: str, *, window: int) -> tuple[Passage, ...]:
    """Cut a long text at the best boundaries there are: paragraphs, sentences, words, characters.

    Passages are in order, don't overlap, and hold 1 to ``window`` characters that are not all
    whitespace. Every character but whitespace is in one of them.

    Args:
        text: Any text that UTF-8 can encode.
        window: Most characters per passage.

    Returns:
        Nothing where the text fits into the window as it is.
    """
    if len(text) <= window:
        return ()
    # 18 MB of code that only long texts need.
    from semantic_text_splitter import TextSplitter  # noqa: PLC0415

    passages = (
        Passage(start, start + len(part))
        for start, part in TextSplitter(window).chunk_indices(text)
        # Python counts four control characters as whitespace that the splitter does not trim.
        if part.strip()
    )
    return tuple(passages)
