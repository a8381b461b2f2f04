"""A server on 127.0.0.1 that speaks the chat protocol, and misbehaves as it is told."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Event, Thread
from typing import Any

Ask = dict[str, Any]
PATIENCE = 60.0


@dataclass(frozen=True)
class Reply:
    """One HTTP answer; with ``cut`` the connection ends within it, with ``held`` it never comes."""

    body: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    held: bool = False


def told(
    content: str | None, *, tokens: tuple[int, int] | None = (70, 30), **message: Any
) -> Reply:
    """Return a completion with a text; ``finish_reason`` and ``refusal`` can be given."""
    finish = message.pop("finish_reason", "stop")
    choice = {"index": 0, "message": {"content": content, **message}, "finish_reason": finish}
    body: dict[str, Any] = {"id": "x", "object": "chat.completion", "choices": [choice]}
    if tokens is not None:
        body["usage"] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    return Reply(json.dumps(body))


def said(**fields: Any) -> Reply:
    """Return a completion with a JSON object."""
    return told(json.dumps(fields))


@dataclass
class ChatServer:
    """What it was asked, and what it answers: the script first, then ``answer``."""

    url: str
    answer: Callable[[Ask], Reply] = lambda _: Reply(status=404)
    script: list[Reply] = field(default_factory=list)
    asked: list[Ask] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    at_once: int = 0
    most_at_once: int = 0
    ended: Event = field(default_factory=Event)
    heard: Condition = field(default_factory=Condition)

    def reset(self) -> None:
        """Forget what was asked and scripted."""
        self.answer = lambda _: Reply(status=404)
        self.script, self.asked, self.keys, self.most_at_once = [], [], set(), 0

    def reply(self, ask: Ask, key: str) -> Reply:
        with self.heard:
            self.asked.append(ask)
            self.keys.add(key)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            scripted = self.script.pop(0) if self.script else None
            self.heard.notify_all()
        reply = scripted or self.answer(ask)
        with self.heard:
            self.at_once -= 1
        return reply

    def wait_for(self, count: int) -> None:
        """Return when so many requests have come."""
        with self.heard:
            assert self.heard.wait_for(lambda: len(self.asked) >= count, timeout=PATIENCE)

    @property
    def contents(self) -> list[str]:
        """What users' messages said."""
        return [ask["messages"][-1]["content"] for ask in self.asked]


class _Handler(BaseHTTPRequestHandler):
    chat: ChatServer

    def do_POST(self) -> None:
        ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = self.chat.reply(ask, self.headers["Authorization"])
        if reply.held:
            self.chat.ended.wait()
            return
        body = reply.body.encode()
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if reply.cut else body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def running() -> Iterator[ChatServer]:
    """Run a server until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    chat = _Handler.chat = ChatServer(f"http://127.0.0.1:{server.server_port}/v1")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield chat
    finally:
        chat.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
