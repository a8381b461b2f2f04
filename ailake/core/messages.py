"""Chat messages as drafts: who said it, when, and what kind of source it is. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ailake.core.drafts import Draft
from ailake.core.instants import as_utc
from ailake.core.prompts import is_recalled
from ailake.core.records import SourceClass
from ailake.errors import InvalidInputError

KEYS = ("role", "content", "name", "created_at", "tool_calls", "tool_call_id", "id", "entities")

# Instructions and machine output never merge with what people said.
_SOURCES = {
    "system": SourceClass.SYSTEM,
    "developer": SourceClass.SYSTEM,
    "tool": SourceClass.TOOL,
    "function": SourceClass.TOOL,
}


def drafts_of_messages(
    messages: Iterable[Mapping[str, Any]], *, default_session: str
) -> list[Draft]:
    """Check chat turns and return them as drafts.

    ``name`` becomes the speaker, ``created_at`` the event's time, and the role says the source:
    system and developer messages are ``system``, tool messages and tool calls are ``tool``; but
    whichever holds recalled memories is ``recalled``, such as a tool's answer that was a recall.

    Args:
        messages: Mappings with ``role`` and ``content``, and optionally ``name``, ``created_at``
            (a timezone-aware datetime), ``tool_calls``, ``tool_call_id``, ``id`` and
            ``entities``. Content is a string, or a list of parts whose ``text`` counts.
        default_session: Session of all of them.

    Raises:
        InvalidInputError: The first bad message, named by its position.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
        raise InvalidInputError.of("messages", got=messages, wanted="a list of mappings")
    return [_draft_at(place, message, default_session) for place, message in enumerate(messages)]


def _draft_at(place: int, message: object, session: str) -> Draft:
    try:
        if not isinstance(message, Mapping):
            raise InvalidInputError.of("message", got=message, wanted='{"role": …, "content": …}')
        return _draft(message, session)
    except InvalidInputError as error:
        raise InvalidInputError(f"message {place}: {error}") from error


def _draft(message: Mapping[str, Any], session: str) -> Draft:
    unknown = sorted(set(message) - set(KEYS))
    if unknown:
        raise InvalidInputError.of(
            "message key", got=unknown[0], wanted=f"one of {', '.join(KEYS)}"
        )
    role = message.get("role")
    content = _text(message.get("content"))
    calls = _calls(message.get("tool_calls"))
    called = message.get("tool_call_id")
    text = "\n".join(part for part in (content, calls) if part)
    if not text:
        wanted = "a text, or tool calls; leave out messages that have neither"
        raise InvalidInputError.of("content", got=message.get("content"), wanted=wanted)
    at = message.get("created_at")
    source = SourceClass.TOOL if calls and not content else _source(role)
    return Draft.of(
        text,
        default_session=session,
        role=role if role is not None else "",
        speaker=message.get("name"),
        event_time=None if at is None else as_utc(at, name="created_at"),
        id=message.get("id"),
        source=None if is_recalled(text) else source.value,
        metadata=None if called is None else {"tool_call_id": called},
        entities=message.get("entities"),
    )


def _source(role: object) -> SourceClass:
    return _SOURCES.get(role, SourceClass.DIRECT) if isinstance(role, str) else SourceClass.DIRECT


def _text(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence):
        raise InvalidInputError.of("content", got=content, wanted="a string or a list of parts")
    parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def _calls(calls: object) -> str:
    if calls is None:
        return ""
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise InvalidInputError.of("tool_calls", got=calls, wanted="a list of tool calls")
    return "\n".join(_call(call) for call in calls)


def _call(call: object) -> str:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InvalidInputError.of(
            "tool call", got=call, wanted='{"function": {"name": …, "arguments": …}}'
        )
    arguments = function.get("arguments", "")
    told = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f"{function['name']}({told})"
