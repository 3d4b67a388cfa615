#!/usr/bin/env python3
"""A Weaver worker in Python, with the standard library only.

It leases tasks from a server, runs them one at a time, keeps each lease alive while its handler runs, and reports how
it ended. Whatever goes wrong with the worker, the task is run again by somebody when its lease has ended.

    WEAVER_URL=http://127.0.0.1:7117 WEAVER_TOKEN=$(weaver token) python3 examples/python_worker.py

Write your own handlers below: a function that takes the payload and the context, and returns what can be written as
JSON. An exception is a failure and is retried; `Fatal` is not.
"""

import json
import os
import secrets
import signal
import socket
import sys
import threading
import urllib.error
import urllib.request

URL = os.environ.get("WEAVER_URL", "http://127.0.0.1:7117").rstrip("/")
TOKEN = os.environ.get("WEAVER_TOKEN")
NAMESPACE = os.environ.get("WEAVER_NAMESPACE", "default")
QUEUES = os.environ.get("WEAVER_QUEUES", "default").split(",")
WORKER = os.environ.get("WEAVER_WORKER", f"python-{socket.gethostname()}-{os.getpid()}")
# Stop when there has been nothing to do for one poll: for tests and cron jobs.
ONCE = os.environ.get("WEAVER_ONCE") == "1"
LEASE_TTL_MS = 30_000
POLL_MS = 20_000


class Fatal(Exception):
    """No retry can mend it."""


class Stopped(Exception):
    """The task was cancelled or its lease lost: the handler should end."""


class Context:
    """What a handler knows and can do."""

    def __init__(self, leased):
        self.task = leased["task"]
        self.lease = leased["lease"]
        # Grows with every attempt: hand it to the systems you write to, and let them refuse a smaller one.
        self.fence = self.lease["version"]
        self.stop = threading.Event()
        self.cancelled = False
        self.latest_progress = None

    def check(self):
        """Raises if the handler should stop; call it often in long work."""
        if self.stop.is_set():
            raise Stopped()

    def progress(self, fraction, message=""):
        """Says how far the work is; sent with the next renewal."""
        self.check()
        self.latest_progress = {"fraction": fraction, "message": message}

    def log(self, line):
        """Adds a line to the attempt's log."""
        stream = f"task/{self.lease['id']}/{self.lease['attempt']}"
        append = {"namespace": self.lease["namespace"], "stream": stream, "entries": [str(line)], "lease": self.lease}
        call("append", {"appends": [append]})


def add(payload, context):
    """An example: adds numbers."""
    context.log(f"adding {payload}")
    return sum(payload)


def fail(payload, context):
    """An example: fails, for good if it is told to."""
    if payload and payload.get("fatal"):
        raise Fatal("told to fail for good")
    raise RuntimeError("told to fail")


HANDLERS = {"add": add, "fail": fail}


def call(verb, body, timeout_s=40):
    """One of the calls a worker makes; answers the decoded JSON, or None if there was no content."""
    headers = {"Content-Type": "application/json"}
    if TOKEN:
        headers["Authorization"] = f"Bearer {TOKEN}"
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{URL}/api/v1/work/{verb}", data=data, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=timeout_s) as response:
        text = response.read()
    return json.loads(text) if text else None


def keep_alive(context, done):
    """Renews the lease at a third of its time, until the handler has ended or the lease is gone."""
    while not done.wait(LEASE_TTL_MS / 3000):
        renewal = {"lease": context.lease}
        if context.latest_progress is not None:
            renewal["progress"] = context.latest_progress
        try:
            result = call("renew", {"renewals": [renewal]}, timeout_s=10)["results"][0]
        except (OSError, urllib.error.HTTPError):
            continue  # The lease lasts for two more tries.
        if result in ("cancelled", "lost"):
            context.cancelled = result == "cancelled"
            context.stop.set()
            return


def run(leased):
    """Runs one task and reports its end."""
    context = Context(leased)
    done = threading.Event()
    keeper = threading.Thread(target=keep_alive, args=(context, done), daemon=True)
    keeper.start()
    end = {"lease": context.lease}
    try:
        handler = HANDLERS.get(context.task["task_type"])
        if handler is None:
            known = ", ".join(sorted(HANDLERS))
            raise Fatal(f"no handler for `{context.task['task_type']}`; this worker has: {known}")
        end.update(outcome="succeeded", result=handler(context.task.get("payload"), context))
    except Stopped:
        end = None
    except Fatal as error:
        end.update(outcome="failed", error=str(error), fatal=True)
    except Exception as error:  # Whatever a handler raises is its failure, not the worker's end.
        end.update(outcome="failed", error=f"{type(error).__name__}: {error}")
    finally:
        done.set()
        keeper.join()
    if end is not None:
        call("finish", {"ends": [end]})
    elif context.cancelled:
        call("confirm-stopped", {"leases": [context.lease]})


def main():
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    print(f"{WORKER} works for {URL}, namespace {NAMESPACE}, queues {', '.join(QUEUES)}", flush=True)
    while not stopping.is_set():
        request = {
            "namespace": NAMESPACE,
            "queues": QUEUES,
            "worker": WORKER,
            "token": secrets.token_hex(16),
            "max": 1,
            "ttl_ms": LEASE_TTL_MS,
            "wait_ms": 0 if ONCE else POLL_MS,
        }
        try:
            tasks = call("lease", request)["tasks"]
            for leased in tasks:
                run(leased)
        except urllib.error.HTTPError as error:
            print(f"{error.code}: {error.read().decode(errors='replace')}", file=sys.stderr, flush=True)
            if error.code < 500:
                return 1
            stopping.wait(1)
        except OSError as error:
            print(f"{URL} does not answer: {error}", file=sys.stderr, flush=True)
            stopping.wait(1)
        else:
            if ONCE and not tasks:
                return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
