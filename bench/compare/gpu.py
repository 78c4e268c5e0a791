"""Timing on the GPU, and what a run should say of the machine."""

import datetime
import hashlib
import os
import subprocess
import time

import torch

from . import protocol as rules
from . import records

HEAD_START_CYCLES = 2_000_000  # about a millisecond, in which the host enqueues what a single call launches


class Meter:
    """measure(item, protocol) -> ms."""

    def __init__(self, load_s=rules.LOAD_S):
        self.load_s = load_s
        self.start = torch.cuda.Event(enable_timing=True)
        self.stop = torch.cuda.Event(enable_timing=True)
        self.clock = SmClock()

    def estimate(self, item):
        """Warms up, and sets what a call takes on the GPU and, to enqueue, on the host: the least of three."""
        item.run()
        torch.cuda.synchronize()
        gpu_ms, host_ms = [], []
        for _ in range(3):
            torch.cuda._sleep(HEAD_START_CYCLES)
            self.start.record()
            began = time.perf_counter()
            item.run()
            host_ms.append((time.perf_counter() - began) * 1e3)
            self.stop.record()
            self.stop.synchronize()
            gpu_ms.append(self.start.elapsed_time(self.stop))
        item.estimate_ms, item.host_ms = min(gpu_ms), min(host_ms)

    def __call__(self, item, protocol):
        return self.burst(item) if protocol == "burst" else self.sustained(item)

    def burst(self, item):
        torch.cuda.synchronize()
        time.sleep(rules.IDLE_S)
        torch.cuda._sleep(HEAD_START_CYCLES)
        self.start.record()
        item.run()
        self.stop.record()
        self.stop.synchronize()
        return self.start.elapsed_time(self.stop)

    def sustained(self, item):
        for _ in range(rules.calls_for(self.load_s * 1e3, item.estimate_ms)):
            item.run()
        calls = rules.calls_for(rules.BURST_MS, item.estimate_ms)
        self.start.record()
        for _ in range(calls):
            item.run()
        self.stop.record()
        item.sm_mhz.setdefault("sustained", []).append(self.clock.read())
        self.stop.synchronize()
        return self.start.elapsed_time(self.stop) / calls


class SmClock:
    """Megahertz through NVML, 0 where it cannot be read."""

    def __init__(self):
        self.handle = None
        try:
            import pynvml
            pynvml.nvmlInit()
            uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
            uuid = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
            try:
                self.handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            except Exception:
                self.handle = pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device())
            self.nvml = pynvml
        except Exception as error:  # an optional reading must not end a run
            print(f"SM clock not read: {error}", flush=True)

    def read(self):
        if self.handle is None:
            return 0
        try:
            return self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM)
        except Exception:
            return 0


def extra_bytes(item):
    """Peak memory of a call beyond inputs and outputs."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = item.run()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    del result
    return max(0, peak - item.output_bytes) + item.own_bytes


def kernel_ms(item, warm_ms=100.0, calls=4):
    """{kernel: ms a call} of one item, by the profiler: the sum of all launches of that name."""
    from torch.profiler import ProfilerActivity, profile
    for _ in range(rules.calls_for(warm_ms, item.estimate_ms)):
        item.run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for _ in range(calls):
            item.run()
        torch.cuda.synchronize()
    found = {}
    for event in trace.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            name = records.short_name(event.name)
            found[name] = found.get(name, 0.0) + event.time_range.elapsed_us() * 1e-3 / calls
    return found


def command(*words, cwd=None):
    try:
        return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    except Exception:
        return ""


def commit(root):
    """The commit, or where there is no repository the hash of the sources."""
    head = command("git", "rev-parse", "--short=12", "HEAD", cwd=root)
    if head:
        changed = command("git", "status", "--porcelain", "--untracked-files=no", cwd=root)
        return head + ("+changes" if changed else "")
    return "sources " + command("bash", os.path.join("ci", "source_hash.sh"), cwd=root)[:12]


def sources(root):
    """A hash of what the library is made from, so that runs of one library are known as such across commits."""
    digest = hashlib.sha256()
    for folder in ("include", "src"):
        for path, folders, files in os.walk(os.path.join(root, folder)):
            folders.sort()
            for name in sorted(files):
                with open(os.path.join(path, name), "rb") as file:
                    digest.update(name.encode() + file.read())
    return digest.hexdigest()[:12]


def describe_machine(root):
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": commit(root),
        "sources": sources(root),
        "gpu": torch.cuda.get_device_name(),
        "driver": command("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0],
        "torch": torch.__version__,
        "cudnn": str(torch.backends.cudnn.version()),
    }
