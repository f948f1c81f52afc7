"""A local server that answers as OpenAI's files and fine-tuning API, Together's and Fireworks' do.

OpenAI's answers are made of the types of the `openai` package, so they have its fields.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from openai.types import FileObject
from openai.types.fine_tuning import FineTuningJob

KEY = "sk-secret"


class FineTuningServer:
    """The service's state. `fail` maps a method and path to statuses that are answered first."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, Any]] = {}
        self.contents: dict[str, bytes] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.fail: dict[str, list[int]] = {}
        self.statuses = ["validating_files", "queued", "running", "succeeded"]
        self.error: dict[str, Any] | None = None
        self.lock = threading.Lock()
        self.url = ""

    def openai(self, verb: str, path: str, body: bytes, headers: Any) -> tuple[int, Any]:
        if verb == "POST" and path == "/files":
            fields = form(headers["Content-Type"], body)
            name, content = fields["file"]
            if content == b"not json\n":
                return 400, {"error": {"message": "Invalid file format.", "type": "invalid"}}
            file = FileObject(
                id=f"file-{len(self.files)}",
                bytes=len(content),
                created_at=1,
                filename=name,
                object="file",
                purpose=fields["purpose"][1].decode(),  # type: ignore[arg-type]
                status="processed",
            )
            self.files[file.id] = file.model_dump()
            self.contents[file.id] = content
            return 200, self.files[file.id]
        if path == "/files":
            return 200, {"object": "list", "data": list(self.files.values()), "has_more": False}
        if verb == "POST" and path == "/fine_tuning/jobs":
            asked = json.loads(body)
            job = FineTuningJob.model_validate(
                {
                    "id": f"ftjob-{len(self.jobs)}",
                    "created_at": 1,
                    "hyperparameters": {},
                    "model": asked["model"],
                    "object": "fine_tuning.job",
                    "organization_id": "org",
                    "result_files": [],
                    "seed": 1,
                    "status": "validating_files",
                    "training_file": asked["training_file"],
                    "validation_file": asked.get("validation_file"),
                    "method": asked["method"],
                }
            )
            self.jobs[job.id] = {**job.model_dump(), "asked": asked, "reads": 0}
            return 200, job.model_dump()
        if path == "/fine_tuning/jobs":
            return 200, {"object": "list", "data": list(self.jobs.values()), "has_more": False}
        found = re.fullmatch(r"/fine_tuning/jobs/([\w-]+)(/cancel)?", path)
        if found is None or found[1] not in self.jobs:
            return 404, {"error": {"message": "No such thing."}}
        job_state = self.jobs[found[1]]
        if found[2]:
            job_state["cancelled"] = True
        self._proceed(job_state)
        FineTuningJob.model_validate(job_state)
        return 200, job_state

    def _proceed(self, job: dict[str, Any]) -> None:
        if job.get("cancelled"):
            job["status"] = "cancelled"
            return
        job["status"] = self.statuses[min(job["reads"], len(self.statuses) - 1)]
        job["reads"] += 1
        if job["status"] == "succeeded":
            job["fine_tuned_model"] = f"ft:{job['model']}:org::1"
        if job["status"] == "failed":
            job["error"] = self.error

    def together(self, verb: str, path: str, body: bytes, headers: Any) -> tuple[int, Any]:
        if verb == "POST" and path == "/files":
            name = dict(pair.split("=") for pair in body.decode().split("&"))["file_name"]
            id = f"file-{len(self.files)}"
            self.files[id] = {"id": id, "filename": name, "object": "file"}
            return 302, {"Location": f"{self.url}/place/{id}", "X-Together-File-Id": id}
        if verb == "PUT":
            assert "Authorization" not in headers
            self.contents[path.rpartition("/")[2]] = body
            return 200, {}
        if path == "/files":
            return 200, {"data": list(self.files.values())}
        if path.endswith("/preprocess"):
            return 200, {}
        if path == "/fine-tunes" and verb == "POST":
            asked = json.loads(body)
            id = f"ft-{len(self.jobs)}"
            self.jobs[id] = {"id": id, **asked, "status": "pending", "reads": 0, "asked": asked}
            return 200, self.jobs[id]
        if path == "/fine-tunes":
            return 200, {"data": list(self.jobs.values())}
        found = re.fullmatch(r"/fine-tunes/([\w-]+)(/cancel)?", path)
        assert found is not None
        job = self.jobs[found[1]]
        job["reads"] += 1
        if found[2]:
            job["status"] = "cancelled"
        elif job["status"] != "cancelled":
            job["status"] = ["queued", "completed"][job["reads"] > 1]
        if job["status"] == "completed":
            job["model_output_name"] = "me/new"
        return 200, job

    def fireworks(self, verb: str, path: str, body: bytes, headers: Any) -> tuple[int, Any]:
        path = path.partition("?")[0]
        account = "/accounts/me"
        if path == f"{account}/datasets" and verb == "POST":
            asked = json.loads(body)
            name = f"accounts/me/datasets/{asked['datasetId']}"
            self.files[name] = {**asked["dataset"], "name": name, "state": "UPLOADING"}
            return 200, self.files[name]
        if path == f"{account}/datasets":
            return 200, {"datasets": list(self.files.values())}
        if path.endswith(":upload"):
            name = path.strip("/").removesuffix(":upload")
            self.contents[name] = form(headers["Content-Type"], body)["file"][1]
            self.files[name]["state"] = "READY"
            return 200, {}
        if path == f"{account}/supervisedFineTuningJobs" and verb == "POST":
            asked = json.loads(body)
            name = f"accounts/me/supervisedFineTuningJobs/{len(self.jobs)}"
            self.jobs[name] = {**asked, "name": name, "reads": 0, "asked": asked}
            return 200, self.jobs[name]
        if path == f"{account}/supervisedFineTuningJobs":
            return 200, {"supervisedFineTuningJobs": list(self.jobs.values())}
        if path.endswith(":cancel"):
            self.jobs[path.strip("/").removesuffix(":cancel")]["state"] = "JOB_STATE_CANCELLED"
            return 200, {}
        job = self.jobs[path.strip("/")]
        job["reads"] += 1
        if "state" not in job or job["state"] == "JOB_STATE_RUNNING":
            done = job["reads"] > 1
            job["state"] = "JOB_STATE_COMPLETED" if done else "JOB_STATE_RUNNING"
            job["outputModel"] = "accounts/me/models/new" if done else None
        return 200, job


def form(content_type: str, body: bytes) -> dict[str, tuple[str, bytes]]:
    """File name and content of each field of a multipart body."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    return {
        str(part.get_param("name", header="content-disposition")): (
            part.get_filename() or "",
            part.get_payload(decode=True),  # type: ignore[dict-item]
        )
        for part in BytesParser().parsebytes(head + body).get_payload()
        if not isinstance(part, str)
    }


@contextmanager
def fine_tuning_server(kind: str = "openai") -> Iterator[FineTuningServer]:
    """Serve one of the APIs on loopback."""
    state = FineTuningServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.removeprefix("/v1")
            bare = path.partition("?")[0]
            with state.lock:
                state.requests.append(f"{self.command} {bare}")
                failing = state.fail.get(f"{self.command} {bare}")
                elsewhere = bare.startswith("/place/")
                if failing:
                    status, answer = failing.pop(0), {"error": {"message": "not now"}}
                elif not elsewhere and self.headers.get("Authorization") != f"Bearer {KEY}":
                    status, answer = 401, {"error": {"message": "Incorrect API key provided."}}
                else:
                    act = getattr(state, kind)
                    given = bare if kind == "openai" else path
                    status, answer = act(self.command, given, body, self.headers)
            if status == 0:  # no answer: the connection ends
                self.close_connection = True
                return
            self.send_response(status)
            if status == 302:
                for name, value in answer.items():
                    self.send_header(name, value)
                answer = {}
            if status == 429:
                self.send_header("retry-after-ms", "1")
            text = json.dumps(answer).encode()
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
