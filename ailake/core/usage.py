"""Tokens that a model read and wrote for an answer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer took, in the model's own tokens; zero where no model was asked.

    Attributes:
        input_tokens: Read.
        output_tokens: Written, those of thinking among them.
    """

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, more: "Usage") -> "Usage":
        return Usage(self.input_tokens + more.input_tokens, self.output_tokens + more.output_tokens)

    @property
    def total(self) -> int:
        """Both together."""
        return self.input_tokens + self.output_tokens


NO_USAGE = Usage()
