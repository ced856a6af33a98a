"""Ansible callback: one JSON line per play, task and result, to the file named by HAGANE_PROGRESS_FILE.

It tells names, states and times, and of what failed the message and the end of the output; never arguments, nor anything
of a task that keeps its log secret. An error in it never reaches the run.
"""

from __future__ import annotations

import functools
import json
import os
import time

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: hagane_progress
type: notification
short_description: writes progress lines for hagane
description:
  - Writes one JSON line per play, task and result to the file named by the environment variable HAGANE_PROGRESS_FILE.
"""

NAME_LENGTH_MAX = 256
# More than is shown: what is secret in it is found whole, and cut away by the reader.
OUTPUT_LENGTH_MAX = 16 * 1024
LENGTHS = {"message": 2048}
FILE_SIZE_MAX = 32 * 1024 * 1024
# Seconds between two signs of life.
ALIVE_EVERY = 5
SECRET = "the task keeps what it says secret (no_log)"


def never_fails(handler):
    """Keeps whatever goes wrong in a handler inside it."""

    @functools.wraps(handler)
    def wrapped(*arguments, **keywords):
        try:
            return handler(*arguments, **keywords)
        except Exception:  # pylint: disable=broad-except
            return None

    return wrapped


def told(result):
    """What a task that failed says: its message, and the end of its output."""
    said = result._result
    # Of a loop the first item that failed.
    broken = [item for item in said.get("results") or [] if isinstance(item, dict) and is_broken(item)]
    if result._task.no_log or is_secret(said) or any(is_secret(item) for item in broken):
        return SECRET, ""
    said = broken[0] if broken else said
    message = text(said.get("msg") or said.get("reason") or "")
    names = ("stdout", "module_stdout", "stderr", "module_stderr", "exception")
    parts = [text(said.get(name))[-OUTPUT_LENGTH_MAX:].rstrip() for name in names]
    # A long message is more than a line: its end is the output.
    if len(message) > LENGTHS["message"] or "\n" in message:
        parts.append(message[-OUTPUT_LENGTH_MAX:])
    return message, "\n".join(part for part in parts if part)


def is_broken(item):
    return bool(item.get("failed") or item.get("unreachable"))


def is_secret(said):
    return bool(said.get("_ansible_no_log")) or "censored" in said


def text(value):
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, default=str)


class CallbackModule(CallbackBase):
    """The callback; Ansible finds it by this name."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "hagane_progress"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.stream = None
        self.size = 0
        self.total = 0
        self.counts = {}
        self.begun = {}
        self.alive_at = 0
        self.open()

    @never_fails
    def open(self):
        path = os.environ.get("HAGANE_PROGRESS_FILE")
        if path:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
            # One unbuffered write a line: a reader sees whole lines, and a killed run loses none.
            self.stream = os.fdopen(descriptor, "wb", buffering=0)

    def write(self, event, important=False, **fields):
        if self.stream is None:
            return
        if self.size > FILE_SIZE_MAX and not important:
            self.alive()
            return
        for key, value in fields.items():
            if isinstance(value, str):
                kept = value[-OUTPUT_LENGTH_MAX:] if key == "output" else value[: LENGTHS.get(key, NAME_LENGTH_MAX)]
                # Half of a character pair, as a file name may hold, is no legal JSON.
                fields[key] = kept.encode("utf-8", "replace").decode()
        fields["at"] = round(time.monotonic(), 3)
        line = json.dumps({"event": event, **fields}, ensure_ascii=True).encode("ascii") + b"\n"
        self.size += len(line)
        self.stream.write(line)

    @never_fails
    def alive(self, *arguments, **keywords):
        """Tells now and then that something goes on within a task: an item of a loop, or another try."""
        now = time.monotonic()
        if now >= self.alive_at:
            self.alive_at = now + ALIVE_EVERY
            self.write("alive", important=True)

    v2_runner_retry = alive
    v2_runner_item_on_ok = alive
    v2_runner_item_on_failed = alive
    v2_runner_item_on_skipped = alive
    v2_runner_on_async_poll = alive

    @never_fails
    def v2_playbook_on_start(self, playbook):
        self.write("playbook")
        for play in playbook.get_plays():
            count = self.count_play(play)
            self.counts[play._uuid] = count
            self.total += count
        self.write("total", tasks=self.total)

    def count_play(self, play):
        """Tasks that the play will announce: all but meta tasks, handlers and what is included at run time."""
        count = 1 if play.gather_facts is not False else 0
        for block in play.compile():
            count += self.count_block(block)
        return count

    def count_block(self, block):
        count = 0
        for part in list(block.block) + list(block.always):
            if hasattr(part, "block"):
                count += self.count_block(part)
            elif part.action not in ("meta", "ansible.builtin.meta"):
                count += 1
        return count

    @never_fails
    def v2_playbook_on_play_start(self, play):
        self.play = play
        self.write("play", play=play.get_name().strip())

    @never_fails
    def v2_playbook_on_no_hosts_matched(self):
        self.total -= self.counts.get(self.play._uuid, 0)
        self.write("total", tasks=self.total)

    @never_fails
    def v2_playbook_on_task_start(self, task, is_conditional):
        self.write("task", task=task.get_name().strip())

    @never_fails
    def v2_playbook_on_handler_task_start(self, task):
        self.write("handler", task=task.get_name().strip())

    @never_fails
    def v2_runner_on_start(self, host, task):
        self.begun[(host.get_name(), task._uuid)] = time.monotonic()

    def result(self, result, state):
        begun = self.begun.pop((result._host.get_name(), result._task._uuid), None)
        seconds = None if begun is None else round(time.monotonic() - begun, 3)
        broken = state in ("failed", "unreachable")
        message, output = told(result) if broken else (None, None)
        self.write(
            "result",
            important=broken,
            task=result._task.get_name().strip(),
            host=result._host.get_name(),
            state=state,
            seconds=seconds,
            **({"message": message, "output": output} if broken else {}),
        )

    @never_fails
    def v2_runner_on_ok(self, result):
        self.result(result, "changed" if result.is_changed() else "ok")

    @never_fails
    def v2_runner_on_failed(self, result, ignore_errors=False):
        self.result(result, "ignored" if ignore_errors else "failed")

    @never_fails
    def v2_runner_on_unreachable(self, result):
        self.result(result, "unreachable")

    @never_fails
    def v2_runner_on_skipped(self, result):
        self.result(result, "skipped")

    @never_fails
    def v2_playbook_on_stats(self, stats):
        hosts = {}
        for host in sorted(stats.processed):
            summary = stats.summarize(host)
            hosts[host] = {
                "ok": summary["ok"],
                "changed": summary["changed"],
                "failed": summary["failures"],
                "unreachable": summary["unreachable"],
                "skipped": summary["skipped"],
            }
        self.write("stats", important=True, hosts=hosts)
