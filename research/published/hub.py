"""A hub for tests: folders of this machine under published names, and the faults that hubs have."""
import hashlib
import http.server
import json
import os
import threading
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Serves folders by repository. fault, if set, is called with a handler and a file's name before
    the file is sent, and returns True where it has answered instead."""

    def __init__(self, folders):
        self.folders = folders
        self.fault = None
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                hub.answer(self, True)

            def do_HEAD(self):
                hub.answer(self, False)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def list_files(self, repo):
        """The files of a repository by name."""
        root = self.folders[repo]
        return {os.path.relpath(os.path.join(folder, name), root): os.path.join(folder, name)
                for folder, _, names in os.walk(root) for name in names if not name.startswith("cases.")}

    def answer(self, handler, with_body):
        path = unquote(handler.path.split("?")[0]).strip("/")
        for repo in sorted(self.folders, key=len, reverse=True):
            if path.startswith(f"api/models/{repo}/revision/"):
                listing = {"sha": COMMIT, "siblings": [{"rfilename": n} for n in sorted(self.list_files(repo))]}
                return self.send(handler, json.dumps(listing).encode(), with_body)
            if path.startswith(f"{repo}/resolve/"):
                name = path[len(f"{repo}/resolve/"):].split("/", 1)[1]
                return self.send_file(handler, repo, name, with_body)
        return self.refuse(handler, "RepoNotFound")

    def send_file(self, handler, repo, name, with_body):
        if name not in self.list_files(repo):
            return self.refuse(handler, "EntryNotFound")
        with open(self.list_files(repo)[name], "rb") as f:
            data = f.read()
        digest = hashlib.sha256(data).hexdigest() if name.endswith((".safetensors", ".bin", ".pth", ".pt")) \
            else hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{digest}"', "X-Linked-Size": str(len(data)),
                   "X-Linked-Etag": f'"{digest}"'}
        if self.fault and self.fault(handler, name, data, headers, with_body):
            return None
        return self.send(handler, data, with_body, headers)

    def send(self, handler, data, with_body, headers=None):
        first = 0
        asked = handler.headers.get("Range", "")
        if asked.startswith("bytes=") and headers:
            first = int(asked[6:].split("-")[0] or 0)
        handler.send_response(206 if first else 200)
        if first:
            handler.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data) - first))
        handler.end_headers()
        if with_body:
            handler.wfile.write(data[first:])

    def refuse(self, handler, code):
        handler.send_response(404)
        handler.send_header("X-Error-Code", code)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
