"""A worker in Python, with nothing but the standard library: python3 worker.py (see docs/guide/http.md).

HOLDFAST_API: where the server is. HOLDFAST_TOKEN: an operator's token. HOLDFAST_QUEUES: what to work on, with commas.
"""
import json, os, signal, sys, threading, time, urllib.error, urllib.request, uuid

API = os.environ.get("HOLDFAST_API", "http://127.0.0.1:8080") + "/api/v1"
QUEUES = os.environ.get("HOLDFAST_QUEUES", "default").split(",")
LEASE_S, IDLE_S = float(os.environ.get("LEASE_S", "30")), float(os.environ.get("IDLE_S", "1"))
WORKER = f"python-{uuid.uuid4()}"  # a new one at every start: the fence tells two of us apart by it
stopping, held = threading.Event(), {}  # what is ours, with its epoch

def run(task, data):
    """Your work. What it returns is the result; what it raises is tried again."""
    if task == "py.add": return data["a"] + data["b"]
    raise ValueError(f"no such task: {task}")

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
            time.sleep(float(error.headers.get("Retry-After", 1)))
        except (OSError, ValueError): time.sleep(min(5, 0.1 * 2**tries))  # the server is away, or died in the middle
    raise RuntimeError("the server is away")

def keep():
    """Beside the work, so that a lease is extended before half of it is over."""
    while True:
        time.sleep(LEASE_S / 3)
        for job, epoch in list(held.items()):
            try: ask(f"/leases/{job}/extend", {"worker": WORKER, "epoch": epoch, "lease": LEASE_S * 1000})
            except RuntimeError: held.pop(job, None)  # somebody else's by now

def settle(job, outcome):
    epoch = held.pop(job, None)
    if epoch is None: return  # lost: whatever we say about it would be refused
    try: ask(f"/leases/{job}/settle", {"worker": WORKER, "epoch": epoch, **outcome}, f"settle-{job}-{epoch}")
    except RuntimeError as error: print(f"{job} was not settled: {error}", file=sys.stderr)

def work(lease):
    try: return {"as": "done", "result": run(lease["task"], lease["input"])}
    except Exception as error: return {"as": "failed", "error": {"name": type(error).__name__, "message": str(error)}, "attempt": lease["attempt"]}

signal.signal(signal.SIGTERM, lambda *_: stopping.set())
threading.Thread(target=keep, daemon=True).start()
while not stopping.is_set():
    leases = ask("/leases/acquire", {"worker": WORKER, "queues": QUEUES, "limit": 10, "lease": LEASE_S * 1000})["leases"]
    held.update({lease["id"]: lease["epoch"] for lease in leases})
    for lease in leases: settle(lease["id"], {"as": "released"} if stopping.is_set() else work(lease))
    if not leases: stopping.wait(IDLE_S)
