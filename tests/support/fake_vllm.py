"""Stands in for a vLLM server: run with vLLM's flags, does what the environment variable FAKE says."""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

_STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)

METRICS = (
    'vllm:cache_config_info{block_size="16",cache_dtype="fp8",enable_prefix_caching="True",'
    'kv_cache_size_tokens="90112",kv_cache_dtype_skip_layers="[]"} 1.0\n'
)


class Handler(http.server.BaseHTTPRequestHandler):
    answers = {  # noqa: RUF012
        "/health": "",
        "/version": json.dumps({"version": "0.32.0"}),
        "/metrics": METRICS,
        "/v1/models": json.dumps({"data": [{"id": "kveval", "max_model_len": 600}]}),
    }

    def do_GET(self) -> None:
        body = self.answers.get(self.path, "").encode()
        status = 500 if os.environ["FAKE"] == "ill" or self.path not in self.answers else 200
        if os.environ["FAKE"] == "babble" and self.path == "/version":
            body = b"<html>"
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if os.environ["FAKE"] in ("crashes", "orphan"):
            threading.Timer(0.2, os._exit, (7,)).start()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    mode = os.environ["FAKE"]
    if mode == "held":
        # The first launch finds the memory of an earlier engine.
        marker = pathlib.Path(os.environ["FAKE_HELD"])
        if not marker.exists():
            marker.touch()
            print(os.environ["FAKE_SAYS"], flush=True)
            sys.exit(1)
    else:
        print(os.environ.get("FAKE_SAYS", ""), flush=True)
    if mode == "dies":
        sys.exit(int(os.environ.get("FAKE_CODE", "1")))
    if mode == "never":
        time.sleep(600)
    if mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf now", flush=True)
        time.sleep(600)
    if mode == "late":
        time.sleep(0.8)
    if mode == "family":
        # As vLLM's workers: a session of its own, a child without one, and neither ends when told to.
        for apart in (True, False):
            child = subprocess.Popen([sys.executable, "-c", _STUBBORN], start_new_session=apart, stdout=subprocess.PIPE)
            assert child.stdout is not None
            child.stdout.readline()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "orphan":
        subprocess.Popen([sys.executable, "-c", _STUBBORN], start_new_session=True, stdout=subprocess.DEVNULL)
    port = int(sys.argv[sys.argv.index("--port") + 1])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.serve_forever()


if __name__ == "__main__":
    main()
