#!/usr/bin/python
"""Ansible module: which ports are taken on this host, and which other hosts it cannot reach."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: hagane_reach
short_description: looks for taken ports and unreachable neighbours
options:
  ports:
    description: TCP ports that should be free here.
    type: list
    elements: int
    default: []
  addresses:
    description: Addresses of the neighbours.
    type: list
    elements: str
    default: []
  remote_ports:
    description: A TCP port that is open at each of them, in the same order.
    type: list
    elements: int
    default: []
"""

LISTENING = "0A"
SECONDS = 5


def taken():
    """Ports that something listens on."""
    ports = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as table:
                rows = [line.split() for line in table.readlines()[1:]]
        except OSError:
            continue
        ports.update(int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == LISTENING)
    return ports


def reaches(place):
    """Whether a TCP connection can be made."""
    try:
        with socket.create_connection(place, timeout=SECONDS):
            return True
    except OSError:
        return False


def main():
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "int", "default": []},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "remote_ports": {"type": "list", "elements": "int", "default": []},
        },
        supports_check_mode=True,
    )
    listening = taken()
    places = list(zip(module.params["addresses"], module.params["remote_ports"]))
    with ThreadPoolExecutor(max_workers=32) as pool:
        answers = list(pool.map(reaches, places))
    unreached = [f"{address} port {port}" for (address, port), reached in zip(places, answers) if not reached]
    module.exit_json(
        changed=False,
        busy=[port for port in module.params["ports"] if port in listening],
        unreached=unreached,
    )


if __name__ == "__main__":
    main()
