"""Programs that want to reach somebody."""

from __future__ import annotations

from typing import Any

from tests.sandbox.hostile.program import hostile


@hostile("connects to a TCP server of this machine")
def tcp(facts: dict[str, Any]) -> list[str]:
    import socket

    with socket.create_connection(("127.0.0.1", facts["tcp_port"]), 2) as made:
        made.sendall(b"here I am")
    return ["connected"]


@hostile("connects over IPv6")
def tcp_over_ipv6(facts: dict[str, Any]) -> list[str]:
    import socket

    with socket.create_connection(("::1", facts["tcp6_port"]), 2) as made:
        made.sendall(b"here I am")
    return ["connected"]


@hostile("opens a TCP connection by sending (fast open), past a check of `connect`")
def tcp_fast_open(facts: dict[str, Any]) -> list[str]:
    import socket

    with socket.socket() as made:
        made.sendto(b"here I am", 0x20000000, ("127.0.0.1", facts["tcp_port"]))
    return ["sent"]


@hostile("sends a UDP packet")
def udp(facts: dict[str, Any]) -> list[str]:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.sendto(b"here I am", ("127.0.0.1", facts["udp_port"]))
    return ["sent"]


@hostile("asks a name server", raises=("gaierror",))
def dns(facts: dict[str, Any]) -> list[str]:
    import socket

    return [str(found) for found in socket.getaddrinfo("secret-data.example.org", 443)]


@hostile("connects to an abstract unix socket")
def unix_abstract(facts: dict[str, Any]) -> list[str]:
    import socket

    with socket.socket(socket.AF_UNIX) as made:
        made.connect("\0" + facts["abstract"])
    return ["connected"]


@hostile("connects to a unix socket by its path, as to a container daemon's")
def unix_path(facts: dict[str, Any]) -> list[str]:
    import socket

    with socket.socket(socket.AF_UNIX) as made:
        made.connect(facts["unix_path"])
    return ["connected"]


@hostile("sends to a unix datagram socket without connecting")
def unix_datagram(facts: dict[str, Any]) -> list[str]:
    import socket

    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendto(b"here I am", facts["unix_datagram"])
    return ["sent"]


@hostile("reads packets of the whole machine (raw and packet sockets)")
def raw_sockets(facts: dict[str, Any]) -> list[str]:
    import socket

    got = []
    for family, kind, protocol in (
        (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
        (socket.AF_PACKET, socket.SOCK_RAW, 0x0300),
    ):
        try:
            socket.socket(family, kind, protocol).close()
            got.append(str(family))
        except OSError:
            pass
    return got


@hostile("talks to the hypervisor or the kernel (vsock, netlink, alg)")
def other_families(facts: dict[str, Any]) -> list[str]:
    import socket

    got = []
    for family, kind in (
        (40, socket.SOCK_STREAM),
        (16, socket.SOCK_RAW),
        (38, socket.SOCK_SEQPACKET),
    ):
        try:
            socket.socket(family, kind).close()
            got.append(str(family))
        except OSError:
            pass
    return got


@hostile("offers a server to others")
def listens(facts: dict[str, Any]) -> list[str]:
    import socket

    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen()
    return ["listening"]


@hostile("fetches a page")
def http(facts: dict[str, Any]) -> list[str]:
    import urllib.request

    urllib.request.urlopen(f"http://127.0.0.1:{facts['tcp_port']}/", timeout=2).close()
    return ["fetched"]
