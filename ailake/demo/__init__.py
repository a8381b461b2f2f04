"""The demo: a conversation of half a year goes in, recalls come out, decay runs."""

from ailake.demo.conversation import Question, load_questions, load_turns
from ailake.demo.story import SCOPE, DecayStep, Recalled, Story, tell

__all__ = [
    "SCOPE",
    "DecayStep",
    "Question",
    "Recalled",
    "Story",
    "load_questions",
    "load_turns",
    "tell",
]
