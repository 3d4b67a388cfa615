#!/usr/bin/env python3
"""A Weaver worker in Python, with the standard library only.

It leases tasks from a server, runs each handler in its own process, renews the lease while the handler runs, and reports
the outcome. If the lease cannot be renewed, the handler is killed before lease expiry, because another worker may run the
task after that. The handler of a cancelled task is killed within a second.

    WEAVER_URL=http://127.0.0.1:7117 WEAVER_TOKEN=$(weaver token) python3 examples/python_worker.py

Write your own handlers below: a function that takes the payload and the context, and returns a JSON value. An exception
is a failure and is retried; `Fatal` is not. Handlers are looked up by name in a fresh process, so they and what they use
must be defined at the top level of the module.
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
# Exit when a poll returns no task: for tests and cron jobs.
ONCE = os.environ.get("WEAVER_ONCE") == "1"
LEASE_TTL_MS = 30_000
POLL_MS = 20_000
LOG_EVERY_S = 1
# Of a longer log the head and the tail are kept. A line is one entry of at most 64 KiB.
LOG_HEAD_BYTES, LOG_TAIL_BYTES, LOG_LINE_BYTES = 768 * 1024, 256 * 1024, 60 * 1024
# No proxy from the environment: the token is only for the server.
HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Fatal(Exception):
    """A failure that is not retried: the task is dead."""


class Undecodable(Exception):
    """A leased task whose payload Python cannot decode; carries its lease."""

    def __init__(self, lease, why):
        super().__init__(why)
        self.lease = lease


class Context:
    """The context of a handler, in the handler's process. It talks to the worker through a pipe."""

    def __init__(self, leased, pipe):
        self.task = leased["task"]
        # Fencing token, grows with every attempt: pass it to the systems you write to, and let them refuse a smaller one.
        self.fence = leased["lease"]["version"]
        self._pipe = pipe

    def progress(self, fraction, message=""):
        """Sets the progress, from 0 to 1; sent with the next lease renewal."""
        self._pipe.send(("progress", {"fraction": fraction, "message": message}))

    def log(self, line):
        """Adds a line to the attempt's log; sent within a second."""
        self._pipe.send(("log", str(line)))


def add(payload, context):
    """An example: adds numbers."""
    context.log(f"adding {payload}")
    return sum(payload)


def fail(payload, context):
    """An example: fails, permanently if the payload asks for it."""
    if payload and payload.get("fatal"):
        raise Fatal("permanent failure requested")
    raise RuntimeError("failure requested")


HANDLERS = {"add": add, "fail": fail}


def now():
    """Monotonic seconds that include suspended time where the system supports it: leases expire during a suspend, too."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def call(verb, body, timeout_s=40):
    """One API call of a worker; returns the decoded JSON, or None if there was no content."""
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
    """Leases at most one task; returns it (or None), its text, and the latest time at which its lease began."""
    request = {
        "namespace": NAMESPACE,
        "queues": QUEUES,
        "worker": WORKER,
        "token": secrets.token_hex(16),
        "max": 1,
        "ttl_ms": LEASE_TTL_MS,
        "wait_ms": 0 if ONCE else POLL_MS,
    }
    # Taken before the request is sent: the round trip counts against the lease.
    sent_at = now()
    text = call_raw("lease", json.dumps(request), timeout_s=40)
    try:
        answer = json.loads(text)
    except RecursionError as error:
        # Only a payload nests this deeply. The lease comes before it, and is enough to report the failure.
        start = text.index('"lease":') + len('"lease":')
        raise Undecodable(json.JSONDecoder().raw_decode(text, start)[0], f"the payload: {error}") from None
    # While the server waited for a task there was no lease yet.
    began_at = sent_at + answer.get("waited_ms", 0) / 1000
    return (answer["tasks"][0] if answer["tasks"] else None), text, began_at


def handle(text, pipe):
    """The handler's process: runs the handler and sends its outcome. Payload and result are passed as JSON text, so that
    pickling does not restrict them."""
    if hasattr(os, "setsid"):
        os.setsid()  # Its own process group: children are killed with it.
    threading.Thread(target=die_with_worker, daemon=True).start()
    try:
        end = outcome_of(json.loads(text)["tasks"][0], pipe)
    except BaseException as error:  # Any exception is the handler's failure and must not end the worker.
        end = json.dumps({"outcome": "failed", "error": f"{type(error).__name__}: {error}"})
    pipe.send(("end", end))


def die_with_worker():
    """Kills the handler when its worker is killed: the lease is not renewed any more."""
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
            # Not text, or not plain JSON: another worker may be able to decode it.
            raise ValueError("this worker cannot decode the payload")
        result = handler(leased["task"].get("payload"), Context(leased, pipe))
        # Encoded here, so that a value that is not JSON is the handler's failure.
        return json.dumps({"outcome": "succeeded", "result": result})
    except Fatal as error:
        return json.dumps({"outcome": "failed", "error": str(error), "fatal": True})


class Log:
    """Log lines of an attempt that are not sent yet: the head is sent as it is written, the tail at the end."""

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
    """One running task: its process, its lease, and the threads that talk to the server for it."""

    def __init__(self, leased, text, began_at):
        self.lease = leased["lease"]
        self.ttl_s = self.lease["ttl_ms"] / 1000
        self.began_at = began_at
        self.timeout_ms = leased["task"].get("timeout_ms")
        self.renew_now = threading.Event()
        self.done = threading.Event()
        self.stop_reason = None  # "cancelled" or "lost"
        self.progress = None
        self.log = Log()
        self.pipe, theirs = PROCESSES.Pipe()
        self.process = PROCESSES.Process(target=handle, args=(text, theirs))
        self.process.start()
        theirs.close()  # So that the pipe ends when the process does.

    def stop_at(self):
        """Before lease expiry, with time to spare for the kill itself."""
        return self.began_at + 0.9 * self.ttl_s

    def keep_alive(self):
        """Renews every third of the lease TTL, or at once when the task may have been cancelled; sends the log."""
        next_renewal = self.began_at + self.ttl_s / 3
        while not self.done.is_set():
            if now() >= next_renewal or self.renew_now.is_set():
                self.renew_now.clear()
                # A failed renewal is retried soon, while the lease is still valid.
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
            self.stop_reason = result
            self.done.set()
        return result != "busy"

    def watch(self):
        """Long poll for the cancellation of the task; then the lease is renewed at once, which reports it."""
        while not self.done.is_set():
            try:
                if call("cancelled", {"leases": [self.lease], "wait_ms": POLL_MS})["cancelled"]:
                    self.renew_now.set()
            except (OSError, ValueError):
                pass  # The next renewal reports it.
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
                print(f"sending {len(entries)} log lines failed: {error}", file=sys.stderr, flush=True)

    def wait(self):
        """Waits for the handler; returns its outcome, or None if it was killed. An API call could delay the kill: none here."""
        times_out_at = now() + self.timeout_ms / 1000 if self.timeout_ms else float("inf")
        while not self.done.is_set():
            if now() >= self.stop_at():
                print(f"task {self.lease['id']}: lease not renewed; handler killed", file=sys.stderr, flush=True)
                self.stop_reason = "lost"
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
            pass  # It has ended, or has not created its process group yet.
        self.process.kill()
        self.process.join()

    def report(self, end):
        """Reports the outcome until the server has recorded it or the lease expires; a refused result becomes a failure."""
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
                    is_refused, end = True, failed(f"the server refused the outcome: {why}")
            except OSError:
                pass
            time.sleep(0.5)


def failed(error):
    return json.dumps({"outcome": "failed", "error": error})


def ends(lease, end):
    """A report of one outcome, as text: a result may nest more deeply than Python can encode."""
    return '{"ends":[{"lease":' + json.dumps(lease) + "," + end[1:] + "]}"


def run(leased, text, began_at):
    """Runs one task and reports its outcome."""
    task = Run(leased, text, began_at)
    renewer = threading.Thread(target=task.keep_alive, daemon=True)
    renewer.start()
    threading.Thread(target=task.watch, daemon=True).start()
    try:
        end = task.wait()
    finally:
        task.done.set()
        task.renew_now.set()
        task.kill()
    if task.stop_reason == "cancelled":
        call("confirm-stopped", {"leases": [task.lease]})
    elif end is not None and task.stop_reason is None:
        renewer.join(timeout=task.ttl_s / 2)
        task.send_log(is_end=True)
        task.report(end)


def refuse(lease, why):
    """Reports a task that could not be decoded as failed, so that it does not wait for lease expiry."""
    call_raw("finish", ends(lease, failed(f"this worker cannot decode the task: {why}")), timeout_s=10)


def main():
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    print(f"worker {WORKER}: server {URL}, namespace {NAMESPACE}, queues {', '.join(QUEUES)}", flush=True)
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
            print(f"{URL} cannot be reached: {error}", file=sys.stderr, flush=True)
            stopping.wait(1)
    return 0


# A fresh process for each handler, not a fork: a fork would copy locks held by threads that do not exist in it.
PROCESSES = multiprocessing.get_context(
    "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
)

if __name__ == "__main__":
    sys.exit(main())
