"""What a run does beyond its own process, and what it lacks, is named at once."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from ratchet.wire.recording.missing import Sources
from tests.wire.recording.recorded import project, recorded


def test_hosts_files_programs_variables_and_data_are_named_once(
    tmp_path: Path, upstream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    root = project(
        tmp_path / "project",
        main="""
        import csv, os, pathlib, socket, subprocess, tempfile
        from asking import ask
        place = os.environ["UPSTREAM"].split("//")[1].split(":")
        for _ in range(2):
            socket.create_connection((place[0], int(place[1]))).close()
        list(csv.reader(open("data/orders.csv")))
        pathlib.Path("out").mkdir()
        pathlib.Path("out/report.md").write_text("report")
        pathlib.Path("notes.txt").write_text("changed")
        pathlib.Path("old.txt").unlink()
        with open(os.path.expanduser("~/.tool"), "w") as file:
            file.write("memory")
        with tempfile.NamedTemporaryFile() as file:
            pass
        subprocess.run(["ls"], capture_output=True, check=True)
        os.environ.get("TONE")
        ask("Where?")
        """,
    )
    (root / "data").mkdir()
    (root / "data" / "orders.csv").write_text("question\nWhere?\n")
    for name in ("notes.txt", "old.txt"):
        (root / name).write_text("before")
    monkeypatch.setenv("HOME", str(home))
    recording = recorded(root, "main.py", upstream=upstream)
    assert recording.exit_code == 0, recording.stderr_tail
    [contact] = recording.contacts
    assert (contact.port, contact.count) == (int(upstream.rpartition(":")[2]), 2)
    writes = {write.path: (write.place, write.how) for write in recording.writes}
    assert writes.pop("out/report.md") == ("project", "created")
    assert writes.pop("notes.txt") == ("project", "changed")
    assert writes.pop("old.txt") == ("project", "deleted")
    assert {(Path(path).name, how) for path, (_, how) in writes.items()} == {(".tool", "created")}
    assert [Path(program.path).name for program in recording.programs] == ["ls"]
    assert recording.data_files_read == ("data/orders.csv",)
    assert not recording.missing


def test_all_that_lacks_is_named_at_once_when_the_first_ends_the_program(
    tmp_path: Path,
) -> None:
    root = project(
        tmp_path,
        support__main="""
        from support import model, tools
        model.answer(tools.KEY)
        """,
        support__tools="""
        import os
        KEY = os.environ["SEARCH_API_KEY"]
        try:
            import a_faster_parser
        except ImportError:
            a_faster_parser = None
        import a_vector_store.client
        """,
        support__model="""
        import os
        from support.later import TONE
        def answer(key):
            import a_model_library
            return a_model_library.ask(os.environ["MODEL_NAME"], os.getenv("REGION", "eu"), TONE)
        """,
        support__later="import os\nTONE = os.environ['TONE']",
        unrelated="import a_thing_of_another_script",
    )
    (root / ".env.example").write_text("SEARCH_API_KEY=\nMODEL_NAME=gpt\nUNUSED=\n")
    (root / ".env").write_text("TONE=kind\n")
    (root / "requirements.txt").write_text("a_model_library\n")
    recording = recorded(root, "-m", "support.main")
    assert recording.failed
    lacking = {(entry.kind, entry.name): entry for entry in recording.missing}
    assert set(lacking) == {
        ("variable", "SEARCH_API_KEY"),
        ("variable", "MODEL_NAME"),
        ("variable", "TONE"),
        ("module", "a_vector_store"),
        ("module", "a_model_library"),
    }
    assert lacking["variable", "TONE"].fix.startswith("The command does not load .env")
    assert lacking["variable", "MODEL_NAME"].why.startswith("support/model.py:")
    assert lacking["module", "a_vector_store"].why == "support/tools.py:8 imports it."
    install = f"Run: {sys.executable} -m pip install -r requirements.txt"
    assert lacking["module", "a_vector_store"].fix.startswith(f"{install} (requirements.txt does")
    library = lacking["module", "a_model_library"]
    assert library.why.endswith("imports it in a function or branch.")
    assert library.fix == install


def test_an_exception_that_later_output_hides_is_told(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        main="""
        import atexit, sys
        atexit.register(lambda: sys.stderr.write("telemetry: not sent\\n" * 200))
        raise ValueError("no city is known")
        """,
    )
    notes = recorded(root, "main.py").notes
    assert "It ended with ValueError: no city is known" in notes


def test_settings_that_pydantic_requires_are_named_as_the_example_names_them(
    tmp_path: Path,
) -> None:
    root = project(
        tmp_path,
        main="""
        import pydantic

        def own_settings():  # require the same, with the same message, from the environment
            import pydantic_settings

        class Settings(pydantic.BaseModel):
            search_key: str
            model_name: str

        Settings()
        """,
    )
    (root / ".env.example").write_text("SHOP_SEARCH_KEY=\nSHOP_MODEL_NAME=\n")
    recording = recorded(root, "main.py")
    names = {entry.name for entry in recording.missing if entry.kind == "variable"}
    assert names == {"SHOP_SEARCH_KEY", "SHOP_MODEL_NAME"}


def test_a_variable_with_a_default_is_not_missing_though_the_error_shows_it(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        main="""
        import os, sys
        mode, city = os.getenv("SHOP_MODE", "quick"), os.environ.get("SHOP_CITY")
        sys.exit(f"SHOP_MODE is {mode}, but SHOP_CITY is {city}.")
        """,
    )
    names = {entry.name for entry in recorded(root, "main.py").missing if entry.kind == "variable"}
    assert names == {"SHOP_CITY"}


def test_a_field_that_a_librarys_own_model_requires_is_no_variable(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        main="""
        import pydantic

        def settings():
            import pydantic_settings

        pydantic.create_model("Usage", tokens=(int, ...))()
        """,
    )
    assert {entry.kind for entry in recorded(root, "main.py").missing} == {"module"}


def test_a_database_a_program_and_a_file_that_are_not_there_are_named(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    root = project(
        tmp_path,
        main=f"""
        import contextlib, socket, subprocess
        with contextlib.suppress(OSError):
            subprocess.run(["a-program-that-nobody-has"])
        with contextlib.suppress(OSError):
            socket.create_connection(("localhost", {port}))
        open("prompts/system.txt")
        """,
    )
    recording = recorded(root, "main.py")
    assert {(entry.kind, entry.name) for entry in recording.missing} == {
        ("program", "a-program-that-nobody-has"),
        ("host", f"localhost:{port}"),
        ("file", "prompts/system.txt"),
    }
    absent = recorded(root, "a-program-that-nobody-has", "--fast", python="")
    assert absent.exit_code == 127
    assert ("program", "a-program-that-nobody-has") in {
        (entry.kind, entry.name) for entry in absent.missing
    }


def test_a_run_that_reached_the_model_lacks_no_variable_that_it_never_read(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        main="""
        import os
        from asking import ask

        def rates():
            return os.getenv("SHOP_RATES_URL")

        ask("Hi")
        city = os.environ.get("SHOP_CITY")
        city.upper()
        """,
    )
    (root / ".env.example").write_text("SHOP_RATES_URL=\nSHOP_CITY=\n")
    missing = recorded(root, "main.py", simulated=True).missing
    assert [(entry.name, "may be optional" in entry.why) for entry in missing] == [
        ("SHOP_CITY", True)
    ]


def test_all_that_a_program_demands_is_missing_at_once_though_it_ended_at_the_first(
    tmp_path: Path,
) -> None:
    root = project(
        tmp_path,
        main="""
        import os, sys
        place: str | None = os.getenv("SHOP_PLACE")
        model = os.environ.get("SHOP_MODEL")
        city, color = os.getenv("SHOP_CITY"), os.getenv("SHOP_COLOR")
        tone = os.getenv("SHOP_TONE")
        debug = os.getenv("SHOP_DEBUG")
        if debug:
            sys.exit("no")
        assert place, "a place"
        if not model or tone is None:
            raise ValueError("a model")
        """,
    )
    missing = {entry.name for entry in recorded(root, "main.py").missing}
    assert missing == {"SHOP_PLACE", "SHOP_MODEL", "SHOP_TONE"}


def test_of_two_keys_that_would_do_one_is_missing(tmp_path: Path) -> None:
    root = project(
        tmp_path, main='raise RuntimeError("set `SHOP_API_KEY` or `SHOP_ADMIN_KEY` first")'
    )
    (missing,) = recorded(root, "main.py").missing
    assert (missing.name, missing.why) == (
        "SHOP_API_KEY",
        "The program needs it or SHOP_ADMIN_KEY, by the program's own error.",
    )


def test_a_variable_without_which_javascript_throws_is_demanded(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text("{}")
    (tmp_path / "main.js").write_text(
        "if (!process.env.SHOP_MODEL) {\n  throw new Error('a model')\n}\n"
        "const quiet = !process.env.SHOP_LOUD\n"
    )
    reads = Sources(tmp_path, ["node", "main.js"]).variables()
    assert {name: needed for name, (_, needed) in reads.items()} == {
        "SHOP_MODEL": True,
        "SHOP_LOUD": False,
    }
