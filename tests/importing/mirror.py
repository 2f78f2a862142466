"""A local mirror of gensim-data, which serves an index and files over HTTP."""

import gzip
import hashlib
import json
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

NAME = "glove-tiny-3"


class Mirror:
    """Files by path, and the number of requests for each path."""

    def __init__(self):
        self.address = ""
        self.files = {}
        self.cut = set()
        """paths whose responses end midway"""
        self.hold = set()
        """paths whose responses pause midway until the mirror is closed"""
        self.requests = Counter()
        self.closed = Event()

    def put(self, content, name=NAME, kind="models", **changes):
        """Serve vectors under a name as gensim-data does, with their index entry."""
        packed = gzip.compress(content, mtime=0)
        entry = {
            "num_records": 4,
            "file_size": len(packed),
            "base_dataset": "by hand",
            "license": "https://opendatacommons.org/licenses/pddl/",
            "description": "Four words.",
            "file_name": f"{name}.gz",
            "parts": 1,
            "checksum": hashlib.md5(packed).hexdigest(),
            **changes,
        }
        self.files[f"/{name}/{name}.gz"] = packed
        self.files[f"/{name}/__init__.py"] = b"raise SystemExit('the code of the data was run')\n"
        index = json.loads(self.files.get("/list.json", b'{"corpora": {}, "models": {}}'))
        index[kind][name] = {key: value for key, value in entry.items() if value is not None}
        self.files["/list.json"] = json.dumps(index).encode()
        return packed

    def put_parts(self, content, name=NAME, count=2):
        """Serve vectors in several parts, each with a checksum of its own."""
        packed = self.put(content, name)
        size = -(-len(packed) // count)
        parts = [packed[at : at + size] for at in range(0, len(packed), size)]
        sums = {f"checksum-{n}": hashlib.md5(part).hexdigest() for n, part in enumerate(parts)}
        self.put(content, name, parts=count, checksum=None, **sums)
        del self.files[f"/{name}/{name}.gz"]
        self.files |= {f"/{name}/{name}.gz_0{n}": part for n, part in enumerate(parts)}


@contextmanager
def serving():
    """A mirror on a free port."""
    mirror = Mirror()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            mirror.requests[self.path] += 1
            content = mirror.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            whole = self.path not in mirror.cut | mirror.hold
            self.wfile.write(content if whole else content[: len(content) // 2])
            if self.path in mirror.hold:
                mirror.closed.wait()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        mirror.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield mirror
        finally:
            mirror.closed.set()
            server.shutdown()
            thread.join()
