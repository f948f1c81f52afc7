"""One rule for a repository's own files, and one for files of secrets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ratchet.source import SourceTree, in_secret_place, secret_files
from ratchet.source.files import own_files
from ratchet.source.secret_files import is_secret
from tests.repositories import committed, git

SECRET = [
    *(".env", ".env.prod", ".env-old", ".env_local", "prod.env", ".envrc", "secrets.toml"),
    *("credentials.json", "credentials-prod.json", "gcp_credentials.json", "client_secret_1.json"),
    *("service-account.json", "my_service_account_key.json", "server.pem", "tls.key", "id_rsa"),
    *(".netrc", ".npmrc", ".pypirc", "token.json", "secrets.yaml", "prod.tfvars", "store.p12"),
    "SERVER.PEM",
]
PLAIN = [
    *(".env.example", ".env.sample", "example.env", "credentials.example.json", "environment.py"),
    *("secrets.py", "token.py", "keys.py", "credentials.py", "pem.md", "credentials.schema.json"),
    *(".environment", "config.toml", "monkey.json", "tokens.json"),
]


@pytest.mark.parametrize("name", SECRET)
def test_a_file_of_secrets_is_told_by_its_name_wherever_it_lies(name: str, tmp_path: Path) -> None:
    assert is_secret(name)
    assert in_secret_place(Path("deep/below") / name)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / name).write_text("x")
    assert secret_files(tmp_path) == [tmp_path / "deep" / name]


@pytest.mark.parametrize("name", PLAIN)
def test_examples_and_sources_are_no_secrets(name: str) -> None:
    assert not is_secret(name)


def _written(root: Path, *paths: str) -> Path:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    return root


FILES = (
    *("a.py", "src/b.py", "out/__init__.py", "out/c.py", ".hidden/d.py", "notes.txt"),
    *("node_modules/e.py", "my env/pyvenv.cfg", "my env/lib/f.py", "vendor/g.py", "build/h.py"),
    *("env/i.py", "dist/j.py", "__pycache__/k.py"),
)


def test_a_walk_leaves_out_packages_copies_and_output_and_no_folder_for_its_name_alone(
    tmp_path: Path,
) -> None:
    root = _written(tmp_path, *FILES)
    own = ["a.py", "env/i.py", "notes.txt", "out/__init__.py", "out/c.py", "src/b.py"]
    assert [str(file.relative_to(root)) for file in own_files(root)] == own
    assert [str(file.relative_to(root)) for file in SourceTree(root).files] == [
        path for path in own if path.endswith(".py")
    ]


def test_git_says_which_files_are_its_own_where_there_is_git(tmp_path: Path) -> None:
    root = committed(_written(tmp_path, "a.py", "build/made.py", "ignored/b.py"))
    (root / ".gitignore").write_text("ignored/\n")
    git(root, "rm", "-q", "-r", "--cached", "ignored")
    _written(root, "new.py")
    (root / "out").symlink_to("/etc")
    names = [".gitignore", "a.py", "build/made.py", "new.py"]
    assert [str(file.relative_to(root)) for file in own_files(root)] == names
    inner = own_files(root, ["build"])
    assert [str(file.relative_to(root)) for file in inner] == ["build/made.py"]
    assert [file.name for file in own_files(root / "ignored")] == ["b.py"]
    assert own_files(root, [".."]) == []


def test_a_listing_runs_no_program_of_the_repository(tmp_path: Path) -> None:
    root = committed(_written(tmp_path / "made", "a.py"))
    monitor = tmp_path / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    os.chmod(monitor, 0o755)
    git(root, "config", "core.fsmonitor", str(monitor))
    assert own_files(root)
    assert not (tmp_path / "ran").exists()
