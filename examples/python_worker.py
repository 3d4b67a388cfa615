#!/usr/bin/env python3
"""A Weaver worker in Python, with the standard library only.

It leases tasks from a server, runs each in a process of its own, keeps its lease alive while the handler runs, and reports
how it ended. A worker that cannot renew kills its handler before the lease ends: by then another worker may run the task.
A cancelled task's handler is killed within a second.

    WEAVER_URL=http://127.0.0.1:7117 WEAVER_TOKEN=$(weaver token) python3 examples/python_worker.py

Write your own handlers below: a function that takes the payload and the context, and returns what can be written as
JSON. An exception is a failure and is retried; `Fatal` is not. Handlers are looked up by name in a fresh process, so
they and what they use must be defined at the top level of the module.
"""

import collections
import json
import multiprocessing
import os
import secrets
import signal
import socket
import sys
import threading
import time
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
LOG_EVERY_S = 1
# Of a longer log the beginning and the end are kept. A line is one entry, of at most 64 KiB.
LOG_HEAD_BYTES, LOG_TAIL_BYTES, LOG_LINE_BYTES = 768 * 1024, 256 * 1024, 60 * 1024
# Never through a proxy of the environment: the token is for the server alone.
HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Fatal(Exception):
    """No retry can mend it."""


class Undecodable(Exception):
    """A leased task whose payload Python cannot decode; carries its lease."""

    def __init__(self, lease, why):
        super().__init__(why)
        self.lease = lease


class Context:
    """What a handler knows and can do. It lives in the handler's process and talks to the worker through a pipe."""

    def __init__(self, leased, pipe):
        self.task = leased["task"]
        # Grows with every attempt: hand it to the systems you write to, and let them refuse a smaller one.
        self.fence = leased["lease"]["version"]
        self._pipe = pipe

    def progress(self, fraction, message=""):
        """Says how far the work is; sent with the next renewal."""
        self._pipe.send(("progress", {"fraction": fraction, "message": message}))

    def log(self, line):
        """Adds a line to the attempt's log; sent within a second."""
        self._pipe.send(("log", str(line)))


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


def now():
    """Seconds that never jump and, where the system can, count the time a laptop sleeps: leases go on without it."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def call(verb, body, timeout_s=40):
    """One of the calls a worker makes; answers the decoded JSON, or None if there was no content."""
    text = call_raw(verb, json.dumps(body), timeout_s)
    return json.loads(text) if text else None


def call_raw(verb, text, timeout_s):
    headers = {"Content-Type": "application/json"}
    if TOKEN:
        headers["Authorization"] = f"Bearer {TOKEN}"
    request = urllib.request.Request(f"{URL}/api/v1/work/{verb}", data=text.encode(), headers=headers, method="POST")
    with HTTP.open(request, timeout=timeout_s) as response:
        return response.read().decode()


def lease_one():
    """Leases at most one task; answers it (or None), as text too, and when its lease began at the latest."""
    request = {
        "namespace": NAMESPACE,
        "queues": QUEUES,
        "worker": WORKER,
        "token": secrets.token_hex(16),
        "max": 1,
        "ttl_ms": LEASE_TTL_MS,
        "wait_ms": 0 if ONCE else POLL_MS,
    }
    # A lease counts from before its request was sent: whatever the answer's way took is already spent.
    sent_at = now()
    text = call_raw("lease", json.dumps(request), timeout_s=40)
    try:
        answer = json.loads(text)
    except RecursionError as error:
        # Only a payload nests this deeply. The lease comes before it, and is all that is needed to report the failure.
        start = text.index('"lease":') + len('"lease":')
        raise Undecodable(json.JSONDecoder().raw_decode(text, start)[0], f"the payload: {error}") from None
    # While the server waited for a task there was no lease yet.
    began_at = sent_at + answer.get("waited_ms", 0) / 1000
    return (answer["tasks"][0] if answer["tasks"] else None), text, began_at


def handle(text, pipe):
    """The handler's process: runs the handler, and sends how it ended. Payload and result cross as JSON text, so that
    nothing but JSON limits what they may be."""
    if hasattr(os, "setsid"):
        os.setsid()  # What it starts is killed with it.
    threading.Thread(target=die_with_worker, daemon=True).start()
    try:
        end = outcome_of(json.loads(text)["tasks"][0], pipe)
    except BaseException as error:  # Whatever a handler raises is its failure, not the worker's end.
        end = json.dumps({"outcome": "failed", "error": f"{type(error).__name__}: {error}"})
    pipe.send(("end", end))


def die_with_worker():
    """A handler whose worker was killed has nobody who renews its lease."""
    multiprocessing.parent_process().join()
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def outcome_of(leased, pipe):
    task_type = leased["task"]["task_type"]
    handler = HANDLERS.get(task_type)
    try:
        if handler is None:
            raise Fatal(f"no handler for `{task_type}`; this worker has: {', '.join(sorted(HANDLERS))}")
        if "payload_hex" in leased["task"]:
            # No text, or JSON that no client can be expected to read: another worker may know what to do with it.
            raise ValueError("the payload is nothing this worker can read")
        result = handler(leased["task"].get("payload"), Context(leased, pipe))
        # Written here, where what is no JSON is the handler's failure.
        return json.dumps({"outcome": "succeeded", "result": result})
    except Fatal as error:
        return json.dumps({"outcome": "failed", "error": str(error), "fatal": True})


class Log:
    """Lines of an attempt's log that wait to be sent: its beginning as it comes, its end when the handler has ended."""

    def __init__(self):
        self.head_bytes, self.waiting = 0, []
        self.tail_bytes, self.tail = 0, collections.deque()
        self.dropped = 0
        self.lock = threading.Lock()

    def add(self, line):
        with self.lock:
            self._add(line)

    def _add(self, line):
        line = line.encode(errors="replace")[:LOG_LINE_BYTES].decode(errors="replace")
        if not self.tail and self.head_bytes + len(line) < LOG_HEAD_BYTES:
            self.head_bytes += len(line) + 16
            self.waiting.append(line)
            return
        self.tail.append(line)
        self.tail_bytes += len(line) + 16
        while self.tail_bytes > LOG_TAIL_BYTES:
            self.tail_bytes -= len(self.tail.popleft()) + 16
            self.dropped += 1

    def take(self, is_end):
        with self.lock:
            return self._take(is_end)

    def _take(self, is_end):
        lines, self.waiting = self.waiting, []
        if is_end:
            if self.dropped:
                keeps = f"this log keeps its first {LOG_HEAD_BYTES} and its last {LOG_TAIL_BYTES} bytes"
                lines.append(f"… {self.dropped} lines are missing here: {keeps}")
            lines.extend(self.tail)
            self.tail.clear()
        return lines


class Run:
    """One task under way: its process, its lease, and the threads that talk to the server for it."""

    def __init__(self, leased, text, began_at):
        self.lease = leased["lease"]
        self.ttl_s = self.lease["ttl_ms"] / 1000
        self.began_at = began_at
        self.timeout_ms = leased["task"].get("timeout_ms")
        self.renew_now = threading.Event()
        self.done = threading.Event()
        self.told = None  # "cancelled" or "lost", by a renewal
        self.progress = None
        self.log = Log()
        self.pipe, theirs = PROCESSES.Pipe()
        self.process = PROCESSES.Process(target=handle, args=(text, theirs))
        self.process.start()
        theirs.close()  # So that the pipe ends when the process does.

    def stop_at(self):
        """Before the lease ends, with time to spare for the kill itself."""
        return self.began_at + 0.9 * self.ttl_s

    def keep_alive(self):
        """Renews at a third of the lease's time, or at once when the task may have been cancelled; sends the log."""
        next_renewal = self.began_at + self.ttl_s / 3
        while not self.done.is_set():
            if now() >= next_renewal or self.renew_now.is_set():
                self.renew_now.clear()
                # One that fails is tried again soon: the lease lasts for a few more tries.
                next_renewal = now() + (self.ttl_s / 3 if self.renew() else 1)
            self.send_log()
            self.renew_now.wait(min(LOG_EVERY_S, max(0, next_renewal - now())))

    def renew(self):
        renewal = {"lease": self.lease}
        if self.progress is not None:
            renewal["progress"] = self.progress
        sent_at = now()
        try:
            result = call("renew", {"renewals": [renewal]}, timeout_s=self.ttl_s / 4)["results"][0]
        except (OSError, ValueError):
            return False
        if result == "extended":
            self.began_at = sent_at
        elif result in ("cancelled", "lost"):
            self.told = result
            self.done.set()
        return result != "busy"

    def watch(self):
        """Waits for the cancellation of the task, and has the lease renewed then: the answer says so."""
        while not self.done.is_set():
            try:
                if call("cancelled", {"leases": [self.lease], "wait_ms": POLL_MS})["cancelled"]:
                    self.renew_now.set()
            except (OSError, ValueError):
                pass  # An older server, or none: the next renewal tells.
            self.done.wait(1)

    def send_log(self, is_end=False):
        stream = f"task/{self.lease['id']}/{self.lease['attempt']}"
        lines = self.log.take(is_end)
        # A call carries at most 1 MiB.
        for start in range(0, len(lines), 16):
            entries = lines[start : start + 16]
            append = {"namespace": self.lease["namespace"], "stream": stream, "entries": entries, "lease": self.lease}
            try:
                call("append", {"appends": [append]}, timeout_s=self.ttl_s / 4)
            except (OSError, ValueError) as error:
                print(f"{len(entries)} lines of a log are lost: {error}", file=sys.stderr, flush=True)

    def wait(self):
        """Waits for the handler; answers how it ended, or None if it was killed. Makes no call: nothing delays the kill."""
        times_out_at = now() + self.timeout_ms / 1000 if self.timeout_ms else float("inf")
        while not self.done.is_set():
            if now() >= self.stop_at():
                print(f"task {self.lease['id']}: the lease cannot be renewed; killed", file=sys.stderr, flush=True)
                self.told = "lost"
                return None
            if now() >= times_out_at:
                return json.dumps({"outcome": "timed_out"})
            if not self.pipe.poll(0.1):
                continue
            try:
                kind, value = self.pipe.recv()
            except EOFError:
                self.process.join()
                return failed(f"the handler's process died ({self.process.exitcode})")
            if kind == "end":
                return value
            if kind == "progress":
                self.progress = value
            if kind == "log":
                self.log.add(value)
        return None

    def kill(self):
        try:
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # It has ended, or has not made its group yet.
        self.process.kill()
        self.process.join()

    def report(self, end):
        """Reports the end until the server has it or the lease is over; a result it refuses is a failure."""
        is_refused = False
        while now() < self.stop_at():
            try:
                call_raw("finish", ends(self.lease, end), timeout_s=self.ttl_s / 4)
                return
            except urllib.error.HTTPError as error:
                why = error.read().decode(errors="replace")
                print(f"{error.code}: {why}", file=sys.stderr, flush=True)
                if error.code < 500:
                    if is_refused:
                        return
                    is_refused, end = True, failed(f"the server refused the end: {why}")
            except OSError:
                pass
            time.sleep(0.5)


def failed(error):
    return json.dumps({"outcome": "failed", "error": error})


def ends(lease, end):
    """A report of one end. The end is put in as the text it is: a result may nest more deeply than Python can write."""
    return '{"ends":[{"lease":' + json.dumps(lease) + "," + end[1:] + "]}"


def run(leased, text, began_at):
    """Runs one task and reports its end."""
    task = Run(leased, text, began_at)
    keeper = threading.Thread(target=task.keep_alive, daemon=True)
    keeper.start()
    threading.Thread(target=task.watch, daemon=True).start()
    try:
        end = task.wait()
    finally:
        task.done.set()
        task.renew_now.set()
        task.kill()
    if task.told == "cancelled":
        call("confirm-stopped", {"leases": [task.lease]})
    elif end is not None and task.told is None:
        keeper.join(timeout=task.ttl_s / 2)
        task.send_log(is_end=True)
        task.report(end)


def refuse(lease, why):
    """Reports a task that could not even be decoded, so that it is not leased for nothing until it is dead."""
    call_raw("finish", ends(lease, failed(f"this worker cannot decode the task: {why}")), timeout_s=10)


def main():
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    print(f"{WORKER} works for {URL}, namespace {NAMESPACE}, queues {', '.join(QUEUES)}", flush=True)
    while not stopping.is_set():
        try:
            leased, text, began_at = lease_one()
            if leased is not None:
                run(leased, text, began_at)
            elif ONCE:
                return 0
        except Undecodable as error:
            refuse(error.lease, error)
        except urllib.error.HTTPError as error:
            print(f"{error.code}: {error.read().decode(errors='replace')}", file=sys.stderr, flush=True)
            if error.code < 500:
                return 1
            stopping.wait(1)
        except OSError as error:
            print(f"{URL} does not answer: {error}", file=sys.stderr, flush=True)
            stopping.wait(1)
    return 0


# A fresh process for each handler, not a fork of this one: a fork would copy the locks of threads that do not go along.
PROCESSES = multiprocessing.get_context(
    "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
)

if __name__ == "__main__":
    sys.exit(main())
