"""An agent whose tools act outside in many ways, and swallow the errors that they get."""

import asyncio
import contextlib
import ctypes
import http.client
import multiprocessing
import os
import shutil
import signal
import smtplib
import socket
import struct
import subprocess
import threading
import urllib.request
from pathlib import Path
from shutil import rmtree as tidy

LIBC = ctypes.CDLL(None, use_errno=True)


def run(task):
    try:
        return str(WAYS[task["way"]](task))[:200]
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:200]


def _errno(result):
    return "reached" if result == 0 else os.strerror(ctypes.get_errno())


def raw_connect(task):
    with socket.socket() as sent:
        sent.connect(("127.0.0.1", task["port"]))
    return "reached"


def create_connection_by_name(task):
    socket.create_connection(("smtp.example.com", 587), timeout=5)
    return "reached"


def send_by_smtplib(task):
    smtplib.SMTP("127.0.0.1", task["port"], timeout=5)
    return "reached"


def send_by_urllib(task):
    urllib.request.urlopen(f"http://localhost:{task['port']}/", timeout=5)
    return "reached"


def send_by_http_client(task):
    http.client.HTTPConnection("127.0.0.1", task["port"], timeout=5).request("POST", "/", b"x")
    return "reached"


def send_by_httpx(task):
    import httpx

    httpx.post(f"http://127.0.0.1:{task['port']}/", content=b"x", timeout=5)
    return "reached"


def send_by_requests(task):
    import requests

    requests.post(f"http://127.0.0.1:{task['port']}/", data=b"x", timeout=5)
    return "reached"


def asyncio_streams(task):
    asyncio.run(asyncio.open_connection("127.0.0.1", task["port"]))
    return "reached"


def udp_sendto(task):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", task["port"]))
    return "sent"


def udp_connected(task):
    sent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sent.connect(("127.0.0.1", task["port"]))
    sent.send(b"x")
    return "sent"


def udp_sendmsg(task):
    sent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sent.sendmsg([b"x"], [], 0, ("127.0.0.1", task["port"]))
    return "sent"


def ctypes_connect(task):
    descriptor = LIBC.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    address = struct.pack("=H", socket.AF_INET) + task["port"].to_bytes(2, "big")
    address += bytes([127, 0, 0, 1]) + bytes(8)
    return _errno(LIBC.connect(descriptor, address, 16))


def in_a_thread(task):
    got = []
    thread = threading.Thread(target=lambda: got.append(run({**task, "way": "raw_connect"})))
    thread.start()
    thread.join()
    return got[0]


def in_a_process(task):
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe()
    process = context.Process(
        target=lambda: sender.send(run({**task, "way": "raw_connect"})), daemon=True
    )
    process.start()
    got = receiver.recv()
    process.join()
    return got


def ipv6(task):
    with socket.socket(socket.AF_INET6) as sent:
        sent.connect(("::1", task["port"]))
    return "reached"


def look_up(task):
    return socket.gethostbyname("secret-of-the-customer.example.net")


def unix_socket(task):
    socket.socket(socket.AF_UNIX).connect(task["unix"])
    return "reached"


def abstract_socket(task):
    socket.socket(socket.AF_UNIX).connect("\0" + task["abstract"])
    return "reached"


def subprocess_run(task):
    subprocess.run(["touch", f"{task['folder']}/new"], check=True)
    return "reached"


def os_system(task):
    return "reached" if os.system(f"touch {task['folder']}/new") == 0 else "failed"


def os_popen(task):
    return "reached" if os.popen("echo here").read() else "failed"


def execv_in_a_fork(task):
    pid = os.fork()
    if not pid:
        with contextlib.suppress(OSError):
            os.execv("/bin/touch", ["touch", f"{task['folder']}/new"])
        os._exit(9)
    return "failed" if os.waitpid(pid, 0)[1] else "reached"


def ctypes_execve(task):
    pid = os.fork()
    if not pid:
        words = (ctypes.c_char_p * 3)(b"touch", f"{task['folder']}/new".encode(), None)
        LIBC.execve(b"/bin/touch", words, None)
        os._exit(9)
    return "failed" if os.waitpid(pid, 0)[1] else "reached"


def posix_spawn(task):
    pid = os.posix_spawn("/bin/touch", ["touch", f"{task['folder']}/new"], {})
    return "failed" if os.waitpid(pid, 0)[1] else "reached"


def asyncio_subprocess(task):
    async def start():
        process = await asyncio.create_subprocess_exec("touch", f"{task['folder']}/new")
        return await process.wait()

    return "failed" if asyncio.run(start()) else "reached"


def by_the_loader(task):
    loaders = [*Path("/lib64").glob("ld-linux*"), *Path("/lib").glob("ld-linux*")]
    subprocess.run([str(loaders[0]), "/bin/touch", f"{task['folder']}/new"], check=True)
    return "reached"


def copied_program(task):
    place = os.path.join(os.environ.get("TMPDIR", "/tmp"), "own-touch")
    shutil.copy("/bin/touch", place)
    subprocess.run([place, f"{task['folder']}/new"], check=True)
    return "reached"


def rmtree_by_alias(task):
    tidy(f"{task['folder']}/tree")
    return "deleted"


def unlink_by_getattr(task):
    getattr(os, "unl" + "ink")(f"{task['folder']}/kept.txt")
    return "deleted"


def pathlib_unlink(task):
    Path(task["folder"], "kept.txt").unlink()
    return "deleted"


def ctypes_unlink(task):
    return LIBC.unlink(f"{task['folder']}/kept.txt".encode())


def rename_away(task):
    os.rename(f"{task['folder']}/kept.txt", f"{task['folder']}/other.txt")
    return "renamed"


def open_to_write(task):
    Path(task["folder"], "kept.txt").write_text("changed")
    return "written"


def truncate(task):
    os.truncate(f"{task['folder']}/kept.txt", 0)
    return "truncated"


def through_a_symlink(task):
    link = os.path.join(os.environ.get("TMPDIR", "/tmp"), "own-link")
    os.symlink(f"{task['folder']}/kept.txt", link)
    Path(link).write_text("changed")
    return "written"


def through_a_hardlink(task):
    link = os.path.join(os.environ.get("TMPDIR", "/tmp"), "own-hardlink")
    os.link(f"{task['folder']}/kept.txt", link)
    Path(link).write_text("changed")
    return "written"


def chmod(task):
    os.chmod(f"{task['folder']}/kept.txt", 0o777)
    return "changed"


def home_write(task):
    place = Path.home() / ".tool" / "memory"
    before = place.read_text()
    place.write_text("remembered")
    return before


def shared_memory(task):
    Path(task["shared"]).write_text("changed")
    return "written"


def raw_socket(task):
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    return "reached"


def kill(task):
    os.kill(task["pid"], signal.SIGKILL)
    return "sent"


def kill_group(task):
    os.killpg(task["pid"], signal.SIGKILL)
    return "sent"


def ptrace(task):
    return LIBC.ptrace(16, task["pid"], None, None)


def memory_of_another(task):
    with open(f"/proc/{task['pid']}/mem", "r+b", buffering=0) as file:
        file.read(1)
    return "reached"


WAYS = {
    **{name: value for name, value in globals().items() if callable(value)},
    "smtplib": send_by_smtplib,
    "urllib": send_by_urllib,
    "http_client": send_by_http_client,
    "httpx": send_by_httpx,
    "requests": send_by_requests,
}
