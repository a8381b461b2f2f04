"""Models behind an OpenAI-compatible server, asked by jobs and never on the write path.

Nothing here uses the network before it is called. ``pip install 'ailake-memory[openai]'``.
"""

from ailake.providers.chat import Answered, ChatModel
from ailake.providers.extracting import OpenAIFactExtractor
from ailake.providers.files import FileReviewer, export_pairs
from ailake.providers.reviewing import OpenAIReviewer
from ailake.providers.verifying import OpenAIFactVerifier

__all__ = [
    "Answered",
    "ChatModel",
    "FileReviewer",
    "OpenAIFactExtractor",
    "OpenAIFactVerifier",
    "OpenAIReviewer",
    "export_pairs",
]
