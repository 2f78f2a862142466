"""Where a request ends, in bytes that come one by one: RFC 9112, §6.

It decides nothing but when a request is handed to a thread; gunicorn's parser reads the same bytes
and has the last word on what they mean.
"""

import regex

MOST_HEAD = 1 << 17
"""Bytes of a request line and its headers; gunicorn refuses each line long before."""
_MOST_LINE = 1 << 12
"""Bytes of the line that begins a chunk, and of a trailer."""
_ROOM = 1 << 16
"""Bytes that chunks take for themselves in a body, beside as many as the body may have."""

_FIELD = regex.compile(rb"\r\n(content-length|transfer-encoding|expect)[ \t]*:([^\r\n]*)", regex.I)
_DIGITS = regex.compile(rb"[0-9]{1,18}")
_SIZE = regex.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", regex.S)


class Framing:
    """One request's end, looked for as bytes are added."""

    def __init__(self, most_body: int) -> None:
        self.end: int | None = None
        """the bytes of the request, once they are known"""
        self.expects = False
        """whether the client waits for `100 Continue` before it sends the body"""
        self._most_body = most_body
        self._head: int | None = None
        self._at = 0
        """up to where was looked: no further than the end of what came, in a head"""
        self._body = 0
        self._trailing = False

    def enough(self, data: bytearray) -> bool:
        """Whether the request is whole, or so that more of it would not save it."""
        if self._head is None:
            self._look_for_head(data)
            if self._head is None:
                return len(data) > MOST_HEAD
        if self.end is not None:
            return len(data) >= self.end
        return self._look_for_chunks(data)

    def whole(self, data: bytearray) -> bool:
        """Whether all of the request is there, and where it ends is certain."""
        return self.end is not None and len(data) >= self.end

    def _look_for_head(self, data: bytearray) -> None:
        found = data.find(b"\r\n\r\n", max(self._at - 3, 0))
        if found < 0:
            self._at = len(data)
            return
        self._head = self._at = found + 4
        fields: dict[bytes, list[bytes]] = {}
        for name, value in _FIELD.findall(data, 0, found + 2):
            fields.setdefault(name.lower(), []).append(value.strip(b" \t").lower())
        # Nobody may be told in HTTP/1.0, which has no answer before the answer (RFC 9110, §10.1.1).
        older = data[: data.find(b"\r\n")].endswith(b" HTTP/1.0")
        self.expects = fields.pop(b"expect", None) == [b"100-continue"] and not older
        if not fields:
            self.end = self._head
        elif list(fields) == [b"content-length"]:
            self._expect(fields[b"content-length"])
        elif fields != {b"transfer-encoding": [b"chunked"]}:
            self._give_up()

    def _expect(self, lengths: list[bytes]) -> None:
        """A body of a declared length; one that is too long is refused without being read."""
        length = int(lengths[0]) if len(lengths) == 1 and _DIGITS.fullmatch(lengths[0]) else None
        if length is None or length > self._most_body:
            self._give_up()
        else:
            self.end = self._at + length

    def _give_up(self) -> None:
        """Hand over what is there: it is refused, and the connection closed."""
        self._at = -1
        self.expects = False

    def _look_for_chunks(self, data: bytearray) -> bool:
        while self._at >= 0:
            missing = max(self._at - 2 - len(data), 0)
            if self._body - missing > self._most_body or len(data) > 2 * self._most_body + _ROOM:
                return True
            line = data.find(b"\r\n", self._at)
            if line < 0:
                return len(data) - self._at > _MOST_LINE
            if self._trailing and line == self._at:
                self.end = line + 2
                return True
            self._pass(data[self._at : line], line + 2)
        return True

    def _pass(self, line: bytearray, following: int) -> None:
        """Go past a trailer, or past a chunk, whose end may not be there yet."""
        if self._trailing:
            self._at = following
        elif size := _SIZE.fullmatch(line):
            length = int(size[1], 16)
            self._trailing = length == 0
            self._body += length
            self._at = following + (length + 2 if length else 0)
        else:
            self._give_up()
