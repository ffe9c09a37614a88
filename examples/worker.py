"""A worker in Python, with nothing but the standard library: python3 worker.py (see docs/guide/http.md).

HOLDFAST_API: where the server is. HOLDFAST_TOKEN: an operator's token. HOLDFAST_QUEUES: what to work on, with commas.
"""
import json, os, signal, sys, threading, time, urllib.error, urllib.request, uuid

API = os.environ.get("HOLDFAST_API", "http://127.0.0.1:8080") + "/api/v1"
QUEUES = os.environ.get("HOLDFAST_QUEUES", "default").split(",")
LEASE_S, IDLE_S = float(os.environ.get("LEASE_S", "30")), float(os.environ.get("IDLE_S", "1"))
STOP_S = float(os.environ.get("STOP_S", "10"))  # how long a stopping worker waits for a server that is away
WORKER = f"python-{uuid.uuid4()}"  # a new one at every start: the fence tells two of us apart by it
stopping, stop_by, held = threading.Event(), [float("inf")], {}  # held: what is ours, with its epoch

class GiveUp(Exception):
    """Raise it in a task when another attempt cannot help."""

def add(data):
    if not isinstance(data, dict) or not {"a", "b"} <= data.keys(): raise GiveUp("py.add needs a and b")
    return data["a"] + data["b"]

TASKS = {"py.add": add}  # your work: what a function returns is the result; what it raises is retried

def rest(seconds):
    """Between two tries. A worker that stops does not wait longer than STOP_S in all."""
    if stopping.is_set(): time.sleep(min(seconds, 0.2))
    else: stopping.wait(seconds)
    if time.monotonic() > stop_by[0]: raise RuntimeError("the server is away, and the worker stops")

def ask(path, body, key=None):
    """Sends until there is an answer. The key makes sure that what is sent twice is done once."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": key or str(uuid.uuid4())}
    if "HOLDFAST_TOKEN" in os.environ: headers["Authorization"] = "Bearer " + os.environ["HOLDFAST_TOKEN"]
    request = urllib.request.Request(API + path, json.dumps(body).encode(), headers)
    for tries in range(100):
        try:
            with urllib.request.urlopen(request, timeout=10) as answer: return json.load(answer)
        except urllib.error.HTTPError as error:
            problem = json.load(error)
            if error.code < 500 and error.code != 429 and problem["code"] != "UNDER_WAY": raise RuntimeError(problem["detail"])
            rest(float(error.headers.get("Retry-After", 1)))
        except (OSError, ValueError): rest(min(5, 0.1 * 2**tries))  # the server is away, or died in the middle
        if stopping.is_set() and path == "/leases/acquire": return {"leases": []}
    raise RuntimeError("the server is away")

def keep():
    """Beside the work, so that a lease is extended before half of it is over."""
    while True:
        time.sleep(LEASE_S / 3)
        for job, epoch in list(held.items()):
            try: ask(f"/leases/{job}/extend", {"worker": WORKER, "epoch": epoch, "lease": LEASE_S * 1000})
            except RuntimeError: held.pop(job, None)  # another worker's by now

def settle(job, outcome):
    epoch = held.pop(job, None)
    if epoch is None: return  # lost: whatever we say about it would be refused
    try: ask(f"/leases/{job}/settle", {"worker": WORKER, "epoch": epoch, **outcome}, f"settle-{job}-{epoch}")
    except RuntimeError as error: print(f"{job} was not settled: {error}", file=sys.stderr)

def work(lease):
    try: return {"as": "done", "result": TASKS[lease["task"]](lease["input"])}
    except Exception as error:
        failure = {"name": type(error).__name__, "message": str(error)}
        return {"as": "failed", "error": failure, "attempt": lease["attempt"], "final": isinstance(error, GiveUp)}

def stop(*_):
    stop_by[0] = time.monotonic() + STOP_S
    stopping.set()

signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
threading.Thread(target=keep, daemon=True).start()
while not stopping.is_set():
    wanted = {"worker": WORKER, "queues": QUEUES, "tasks": list(TASKS), "limit": 10, "lease": LEASE_S * 1000}
    try: leases = ask("/leases/acquire", wanted)["leases"]
    except RuntimeError as error: sys.exit(0 if stopping.is_set() else f"worker.py: {error}")
    held.update({lease["id"]: lease["epoch"] for lease in leases})
    for lease in leases: settle(lease["id"], {"as": "released"} if stopping.is_set() else work(lease))
    if not leases: stopping.wait(IDLE_S)
