"""Serves a directory: files, a Debian repository, and images below v2/ as a registry would."""
import functools
import http.server
import json
import os
import sys


class Handler(http.server.SimpleHTTPRequestHandler):
    def guess_type(self, path):
        if os.path.basename(os.path.dirname(path)) == "manifests":
            with open(path, encoding="utf-8") as manifest:
                return json.load(manifest).get("mediaType", "application/vnd.oci.image.manifest.v1+json")
        return "application/octet-stream"

    def list_directory(self, path):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


directory, port = sys.argv[1:]
handler = functools.partial(Handler, directory=directory)
http.server.ThreadingHTTPServer(("", int(port)), handler).serve_forever()
