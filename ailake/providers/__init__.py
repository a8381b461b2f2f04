"""Models behind an OpenAI-compatible server, asked by jobs and never on the write path.

Nothing here uses the network before it is called. ``pip install 'ailake-memory[openai]'``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ailake.providers.chat import Answered, ChatModel
    from ailake.providers.entities import OpenAIEntityExtractor
    from ailake.providers.extracting import OpenAIFactExtractor
    from ailake.providers.files import FileReviewer, export_pairs
    from ailake.providers.reviewing import OpenAIReviewer
    from ailake.providers.verifying import OpenAIFactVerifier

__all__ = [
    "Answered",
    "ChatModel",
    "FileReviewer",
    "OpenAIEntityExtractor",
    "OpenAIFactExtractor",
    "OpenAIFactVerifier",
    "OpenAIReviewer",
    "export_pairs",
]

# Files need no package for models.
_LATE = {
    "Answered": "chat",
    "ChatModel": "chat",
    "FileReviewer": "files",
    "OpenAIEntityExtractor": "entities",
    "OpenAIFactExtractor": "extracting",
    "OpenAIFactVerifier": "verifying",
    "OpenAIReviewer": "reviewing",
    "export_pairs": "files",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(f"ailake.providers.{_LATE[name]}"), name)
    raise AttributeError(f"module 'ailake.providers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATE])
