"""What every answer of a model or a person has: its reason, and the tokens that it took."""

from collections.abc import Collection
from dataclasses import dataclass

from ailake.core.entities import check_short_text
from ailake.errors import InvalidInputError


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


def check_answer(verdict: str, reason: str, model: str, *, verdicts: Collection[str]) -> None:
    """Refuse what is no answer.

    Raises:
        InvalidInputError: It is none of the verdicts, or has no reason.
    """
    if verdict not in verdicts:
        wanted = f"one of {', '.join(verdicts)}"
        raise InvalidInputError.of("verdict", got=verdict, wanted=wanted)
    check_short_text(reason, name="reason")
    check_short_text(model, name="model")
    if not reason.strip():
        raise InvalidInputError.of("reason", got=reason, wanted="why it is so")
