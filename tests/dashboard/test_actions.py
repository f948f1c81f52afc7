"""What a person does: decide, take back, log in; and what happens when the server is away."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.server.oidc import OidcSettings
from ratchet.store import Store
from ratchet.types import SpanRecord
from tests.dashboard.conftest import Complaints, url_of
from tests.dashboard.seeded import AGENT, live_trace
from tests.server.oidc_provider import CLIENT, SECRET, Provider
from tests.serving import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

Opened = Callable[..., Any]
Serve = Callable[..., RunningServer]


def test_the_last_change_is_understood_and_rolled_back_in_four_clicks(
    opened: Opened, serve: Serve, project: Path
) -> None:
    server = serve(project)
    page = opened(server.url)
    other = opened(f"{server.url}/agents", context=page.context)
    other.get_by_role("link", name="support").or_(other.get_by_text("runs now")).first.wait_for()
    page.get_by_text("Why it was shipped").click()  # 1
    page.get_by_text("Proved better").first.wait_for()
    page.get_by_role("button", name="Roll back …").click()  # 2
    page.get_by_text("get what was active before").wait_for()
    confirm = page.get_by_role("alertdialog").get_by_role("button", name="Roll back")
    assert confirm.is_disabled()
    page.get_by_label("Reason").fill("Customers complain.")  # 3
    confirm.click()  # 4
    page.get_by_text("rolled back").first.wait_for()
    with Store.open(url_of(project)) as store:
        found = store.agents.history(AGENT, limit=1)[0]
        assert found.candidate_id == ""
        assert "Customers complain." in found.reason
    other.get_by_text("its own source").first.wait_for()  # the second tab agrees
    page.goto(f"{server.url}/settings")
    page.get_by_role("table", name="Audit log").get_by_text("roll_back").wait_for()
    other.get_by_text("What it ran before").click()  # and the rollback is taken back
    other.get_by_role("button", name="Make active again …").click()
    other.get_by_label("Reason").fill("They were wrong.")
    other.get_by_role("alertdialog").get_by_role("button", name="Make active").click()
    other.get_by_role("alertdialog").wait_for(state="hidden")
    with Store.open(url_of(project)) as store:
        now, before, *_ = store.agents.history(AGENT, limit=3)
    assert (before.candidate_id, now.reason) == ("", "They were wrong.")
    assert now.candidate_id != ""


def test_a_release_in_the_repository_is_rolled_back_as_the_command_line_does(
    opened: Opened, serve: Serve, project: Path
) -> None:
    with Store.open(url_of(project)) as store:
        release = next(each for each in store.releases.list() if each.branch)
        # The demo's repository has moved with its copy.
        store.releases.put(type(release)(**{**_fields(release), "repo": str(project)}))
    server = serve(project)
    page = opened(f"{server.url}/releases/{release.id}")
    page.get_by_role("button", name="Roll back …").click()
    page.get_by_text("can be made again from it").wait_for()
    page.get_by_label("Reason").fill("Not now.")
    page.get_by_role("alertdialog").get_by_role("button", name="Roll back").click()
    page.get_by_role("heading", name="Rolled back").wait_for()
    page.get_by_text("“Not now.”").wait_for()
    page.goto(f"{server.url}/settings")  # where the dialog says that the reason is kept, too
    page.get_by_role("table", name="Audit log").get_by_text("Not now.").wait_for()
    assert (
        release.branch not in (project / ".git" / "packed-refs").read_text()
        if (project / ".git" / "packed-refs").exists()
        else not (project / ".git" / "refs" / "heads" / release.branch).exists()
    )


def _fields(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def test_a_candidate_is_approved_and_the_autopilot_is_told(
    opened: Opened, serve: Serve, project: Path
) -> None:
    server = serve(project)
    page = opened(server.url)
    page.get_by_text("a proved candidate is waiting for your approval").click()
    page.get_by_role("button", name="Approve …").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_text("Worse for “refunds”").wait_for()  # the harm, the change and who does it
    dialog.get_by_text("Name the day of arrival.").wait_for()
    dialog.get_by_text("No autopilot is running").wait_for()
    dialog.get_by_role("button", name="Approve").click()
    dialog.wait_for(state="hidden")
    page.get_by_role("status", name="Done").get_by_text("Approved. No autopilot is").wait_for()
    page.get_by_text("approved it").wait_for()
    page.goto(f"{server.url}/autopilot")
    page.get_by_role("button", name="Pause the autopilot …").click()
    page.get_by_label("Reason").fill("Holiday.")
    page.get_by_role("alertdialog").get_by_role("button", name="Pause").click()
    page.get_by_role("alertdialog").wait_for(state="hidden")
    with Store.open(url_of(project)) as store:
        told = store.operator_commands.list(AGENT)
    assert [(each.verb, each.by) for each in told] == [
        ("pause", "dashboard"),
        ("approve", "dashboard"),
    ]


def test_outputs_are_labelled_by_keyboard_and_a_label_is_taken_back(
    opened: Opened, serve: Serve, project: Path
) -> None:
    server = serve(project)
    page = opened(f"{server.url}/labelling")
    page.get_by_role("heading", name="Output").wait_for()
    page.keyboard.press("y")  # the keys of the terminal
    page.get_by_text("1 labelled").wait_for()
    page.keyboard.press("n")
    page.get_by_text("2 labelled").wait_for()
    page.keyboard.press("u")
    page.get_by_text("1 labelled").wait_for()
    page.wait_for_load_state("networkidle")
    with Store.open(url_of(project)) as store:
        assert [label.value for label in store.labels.list()] == [1.0]
    page.goto(f"{server.url}/labelling?of=traces&criterion=It+names+the+order")
    page.get_by_text("live trace").wait_for()
    page.keyboard.press("2")
    page.get_by_text("1 labelled").wait_for()
    page.wait_for_load_state("networkidle")
    with Store.open(url_of(project)) as store:
        (label,) = store.labels.list(criterion="It names the order")
    assert (label.value, bool(label.trace_id), label.labeller) == (0.4, True, "dashboard")


def test_a_live_trace_is_labelled_and_the_label_is_taken_back(
    opened: Opened, serve: Serve, project: Path
) -> None:
    page = opened(f"{serve(project).url}/traces/{1_003:032x}")
    group = page.get_by_role("group", name="Labels")
    group.get_by_role("button", name="Wrong").click()
    group.get_by_text("✕ wrong").wait_for()
    with Store.open(url_of(project)) as store:
        (label,) = store.labels.list()
    assert (label.trace_id, label.value) == (f"{1_003:032x}", 0.0)
    group.get_by_role("button", name="undo").click()
    group.get_by_text("✕ wrong").wait_for(state="hidden")
    with Store.open(url_of(project)) as store:
        assert store.labels.list() == []


def test_new_traces_wait_until_they_are_asked_for(
    opened: Opened, serve: Serve, project: Path
) -> None:
    server = serve(project)
    page = opened(f"{server.url}/traces")
    rows = page.get_by_role("table", name="Traces").locator("tbody tr")
    rows.nth(80).wait_for()
    shown = rows.locator("a").first.get_attribute("href")
    with Store.open(url_of(project)) as store:
        new = live_trace(5_000, time.time())
        store.spans.put([SpanRecord(span=each, agent=AGENT) for each in new])
    page.get_by_role("button", name="1 new").wait_for()
    assert rows.locator("a").first.get_attribute("href") == shown
    page.get_by_role("button", name="1 new").click()
    page.locator(f'a[href*="{5_000 + 1_000:032x}"]').wait_for()


def test_a_prompt_is_switched_off_and_on_again(opened: Opened, serve: Serve, project: Path) -> None:
    server = serve(project)
    page = opened(f"{server.url}/agents")
    page.get_by_role("button", name="Stop replacing prompts …").click()
    page.get_by_role("button", name="Leave them").click()
    page.get_by_text("left as the agent sends them").wait_for()
    page.get_by_role("button", name="Replace prompts …").click()
    page.get_by_role("button", name="Replace them").click()
    page.get_by_text("replaced by the active release").wait_for()


def test_a_key_is_made_shown_once_and_revoked(opened: Opened, serve: Serve, project: Path) -> None:
    server = serve(project)
    page = opened(f"{server.url}/settings")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make a key").click()
    page.get_by_text("The key of laptop, shown only now").wait_for()
    row = page.get_by_role("table", name="Keys").get_by_role("row").filter(has_text="laptop")
    row.get_by_role("button", name="Revoke …").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Revoke").click()
    row.get_by_text("revoked").wait_for()
    page.reload()
    page.get_by_role("table", name="Keys").wait_for()
    assert page.get_by_text("shown only now").count() == 0


def test_a_person_logs_in_and_a_revoked_key_shows_the_login_again(
    opened: Opened, serve: Serve, project: Path, complaints: Complaints
) -> None:
    with Store.open(url_of(project)) as store:
        key, secret = store.keys.create("reader", ("read",), time.time())
    server = serve(project, require_key=True)
    page = opened(f"{server.url}/runs")
    page.get_by_label("Key").fill("rk_" + "x" * 40)
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("The key is unknown").wait_for()
    page.get_by_label("Key").fill(secret)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("table", name="Runs").wait_for()
    assert secret not in page.evaluate("document.cookie + JSON.stringify(localStorage)")
    page.goto(f"{server.url}/settings")
    page.get_by_text("need a key with the scope admin").wait_for()
    page.get_by_role("button", name="log out").click()
    page.get_by_label("Key").fill(secret)
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("need a key with the scope admin").wait_for()
    page.goto(f"{server.url}/traces")
    page.get_by_role("table", name="Traces").wait_for()
    with Store.open(url_of(project)) as store:
        store.keys.revoke(key.id, time.time())
    page.get_by_label("Key").wait_for()
    complaints.clear()  # the browser notes each 401


def test_a_server_that_goes_away_is_announced_and_comes_back_by_itself(
    opened: Opened, serve: Serve, project: Path, complaints: Complaints
) -> None:
    server = serve(project)
    page = opened(f"{server.url}/runs")
    page.get_by_role("table", name="Runs").wait_for()
    port = int(server.url.rpartition(":")[2])
    server.stop()
    page.get_by_text("The server is away").wait_for()
    page.get_by_role("table", name="Runs").wait_for()  # what was shown stays
    serve(project, port=port)
    page.get_by_text("The server is away").wait_for(state="hidden")
    complaints.clear()  # the browser notes each refused connection


def test_a_trace_becomes_a_task_and_is_taken_out_again(
    opened: Opened, serve: Serve, project: Path
) -> None:
    with Store.open(url_of(project)) as store:
        name = store.datasets.list()[0].name
        before = store.datasets.latest(name)
    assert before is not None
    server = serve(project)
    page = opened(f"{server.url}/traces/{1_003:032x}")
    page.get_by_role("button", name="Add to a dataset …").click()
    page.get_by_label("Dataset").fill(name)
    page.get_by_role("alertdialog").get_by_role("button", name="Add").click()
    page.get_by_text("1 task in").wait_for()
    with Store.open(url_of(project)) as store:
        grown = store.datasets.latest(name)
        assert grown is not None
        assert len(grown.tasks) == len(before.tasks) + 1
        assert grown.parent == before.version
    page.get_by_role("button", name="undo").click()
    page.get_by_role("button", name="Add to a dataset …").wait_for()
    with Store.open(url_of(project)) as store:
        again = store.datasets.latest(name)
    assert again is not None
    assert again.version == before.version


def test_a_task_that_a_person_writes_is_added_and_the_page_says_so(
    opened: Opened, serve: Serve, project: Path
) -> None:
    with Store.open(url_of(project)) as store:
        name = store.datasets.list()[0].name
    server = serve(project)
    page = opened(f"{server.url}/datasets/{name}")
    page.get_by_role("button", name="Add a task …").click()
    dialog = page.get_by_role("alertdialog")
    confirm = dialog.get_by_role("button", name="Save as a new version")
    assert confirm.is_disabled()
    dialog.get_by_label("Input").fill("which module reads zip files")
    dialog.get_by_label("Expected").fill('["zipfile.ZipFile"]')
    dialog.get_by_label("Split").select_option("val")
    confirm.click()
    done = page.get_by_role("status", name="Done")
    done.get_by_text("The task is added, in a new version.").wait_for()
    done.get_by_role("button", name="Dismiss").click()
    done.get_by_text("The task is added").wait_for(state="hidden")
    with Store.open(url_of(project)) as store:
        grown = store.datasets.latest(name)
    assert grown is not None
    task = grown.tasks[-1]
    assert (task.input, task.expected) == ("which module reads zip files", ["zipfile.ZipFile"])
    assert grown.splits[task.id] == "val"


def test_a_task_is_edited_and_the_edit_is_taken_back(
    opened: Opened, serve: Serve, project: Path
) -> None:
    with Store.open(url_of(project)) as store:
        name = store.datasets.list()[0].name
        before = store.datasets.latest(name)
    assert before is not None
    task = before.tasks[0]
    server = serve(project)
    page = opened(f"{server.url}/datasets/{name}?task={task.id}&q={task.id}")
    page.get_by_role("button", name="Edit …").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_label("Expected").fill('"another answer"')
    dialog.get_by_role("button", name="Save as a new version").click()
    page.get_by_text(f"Edited: {task.id}.").first.wait_for()
    with Store.open(url_of(project)) as store:
        edited = store.datasets.latest(name)
    assert edited is not None
    assert edited.parent == before.version
    assert "another answer" in str(edited.tasks[0].expected)
    page.get_by_role("button", name="undo").click()
    page.get_by_text(f"Edited: {task.id}.").first.wait_for(state="hidden")
    with Store.open(url_of(project)) as store:
        again = store.datasets.latest(name)
    assert again is not None
    assert again.version == before.version


def test_what_results_say_of_a_dataset_is_shown_when_it_is_asked_for(
    opened: Opened, serve: Serve, project: Path
) -> None:
    with Store.open(url_of(project)) as store:
        name = store.datasets.list()[0].name
    page = opened(f"{serve(project).url}/datasets/{name}")
    page.get_by_text("What the results of candidates say about it").click()
    page.get_by_text("Test tasks are never changed for their results").wait_for()


def test_two_traces_stand_side_by_side_step_by_step(opened: Opened, reading: RunningServer) -> None:
    page = opened(f"{reading.url}/traces/{1_003:032x}")
    page.get_by_role("button", name="Compare …").click()
    page.get_by_role("combobox", name="Trace").fill(f"{1_004:032x}")
    page.get_by_role("alertdialog").get_by_role("button", name="Compare").click()
    steps = page.get_by_role("table", name="Steps of both traces")
    steps.wait_for()
    assert f"with={1_004:032x}" in page.url
    steps.get_by_role("button", name="chat gpt-4o-mini").click()
    page.locator(".sides article").nth(1).wait_for()
    assert page.locator(".sides article h2").all_inner_texts() == ["chat gpt-4o-mini"] * 2
    page.reload()
    page.locator(".sides article").nth(1).wait_for()
    page.get_by_role("link", name="stop comparing").click()
    page.get_by_role("tree", name="Spans").wait_for()


def test_a_chart_is_saved_as_a_picture(opened: Opened, reading: RunningServer) -> None:
    page = opened(f"{reading.url}/runs")
    page.get_by_role("table").get_by_role("link").first.click()
    with page.expect_download() as saved:
        page.get_by_role("button", name=re.compile("^Save run-.* as PNG$")).click()
    content = Path(saved.value.path()).read_bytes()
    assert content.startswith(b"\x89PNG")
    width = int.from_bytes(content[16:20], "big")
    assert width > 400
    assert len(content) > 4_000  # not an empty one


def test_a_person_logs_in_at_a_provider_and_out_again(
    opened: Opened, serve: Serve, project: Path, complaints: Complaints
) -> None:
    provider = Provider()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    oidc = OidcSettings(
        issuer=provider.url,
        client_id=CLIENT,
        url=f"http://127.0.0.1:{port}",
        secret_env="OIDC_SECRET",
        name="Example",
        allow={"read": ("@example.com",)},
    )
    server = serve(project, port=port, require_key=True, oidc=oidc, environ={"OIDC_SECRET": SECRET})
    page = opened(f"{server.url}/datasets")
    page.get_by_role("link", name="Log in with Example").click()
    page.get_by_text("login:ann@example.com").wait_for()
    assert page.url == f"{server.url}/datasets"
    page.get_by_role("button", name="log out").click()
    provider.claims = {"email": "eve@elsewhere.com"}
    page.get_by_role("link", name="Log in with Example").click()
    page.get_by_text("may not use this server").wait_for()
    provider.close()
    complaints.clear()  # the browser notes each 401
