"""docs/benchmarks/*.jsonl: one object a line and item, many runs a file. Needs no framework."""

import json
import os
import re

from . import protocol as rules

# What makes two records the same item of different runs.
KEY = ("protocol", "op", "who", "variant", "batch", "heads", "kv_heads", "q_tokens", "kv_tokens", "head_dim", "dtype",
       "q_block", "kv_block", "mask", "mask_name")


def key_of(record):
    return tuple(record.get(field) for field in KEY)


def shape_of(record):
    return tuple(record.get(field) for field in ("batch", "heads", "kv_heads", "q_tokens", "kv_tokens", "head_dim"))


def of_item(item, protocol, machine, run):
    """The record of an item under one protocol."""
    ms, least, most, rounds = rules.summarize(item.samples[protocol])
    case = item.case
    record = {"run": run["id"], "date": machine["date"], "commit": machine["commit"], "gpu": machine["gpu"],
              "protocol": protocol, "op": item.op, "who": item.who, "variant": item.variant}
    record.update({"batch": case.batch, "heads": case.heads, "kv_heads": case.kv_heads or case.heads,
                   "q_tokens": case.tokens, "kv_tokens": case.tokens, "head_dim": case.head_dim, "dtype": case.dtype}
                  if case else {"batch": 0, "heads": 0, "kv_heads": 0, "q_tokens": 0, "kv_tokens": 0, "head_dim": 0,
                                "dtype": "bf16"})
    record.update({"q_block": item.q_block, "kv_block": item.kv_block, "mask": item.mask, "mask_name": item.mask_name,
                   "kept_pairs": item.kept_pairs, "all_pairs": item.all_pairs})
    record.update({"ms": rounded(ms), "ms_min": rounded(least), "ms_max": rounded(most), "rounds": rounds,
                   "gbps": rounded(item.moved_bytes / ms * 1e-6), "tflops": rounded(item.flop / ms * 1e-9),
                   "extra_bytes": item.extra_bytes, "sm_mhz": middle(item.sm_mhz.get(protocol)),
                   "check": "passed" if item.verdict[0] else "FAILED", "check_says": item.verdict[1],
                   "host_ms": rounded(item.host_ms),
                   "kernel": item.kernel, "case": case.name if case else "",
                   "sources": machine.get("sources", ""), "selection": run["selection"], "driver": machine.get("driver", ""),
                   "torch": machine.get("torch", ""), "cudnn": machine.get("cudnn", ""), "seed": run["seed"]})
    return record


def rounded(value, digits=5):
    """To significant digits, so that a line stays readable."""
    return float(f"{value:.{digits}g}")


def middle(readings):
    readings = sorted(reading for reading in readings or [] if reading > 0)
    return readings[len(readings) // 2] if readings else 0


def read(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def replaced_runs(old, new):
    """Runs that a new one stands for: the same selection, GPU and date, other than by id."""
    same = [(r["selection"], r["gpu"], r["date"]) for r in new[:1]]
    return {r["run"] for r in old if (r.get("selection"), r["gpu"], r["date"]) in same or r["run"] == new[0]["run"]}


def short_name(kernel):
    """Without its return type, namespaces and template arguments. The library's kernels are all `entry` of a class, which names
    them."""
    found = re.search(r"entry<(?:\w+::)*(\w+)", kernel) or re.search(r"(\w+)(?:<|\()", kernel)
    return found.group(1) if found else kernel


def set_kernels(lines, items):
    """Into the records of the last run: what each kernel of an item takes."""
    of = {(item.name, item.case.name if item.case else ""): item.kernels for item in items if item.kernels}
    for record in lines:
        name = "/".join([record["op"], record["case"] or "-", record["mask_name"], record["who"], record["variant"]])
        kernels = of.get((name, record["case"]))
        if kernels and record["run"] == lines[-1]["run"] and record["protocol"] == "sustained":
            record["kernels"] = {kernel: rounded(ms) for kernel, ms in kernels.items()}


def write(path, new, replace=False):
    """Adds runs. With `replace` drops earlier ones of the same day, GPU and selection, as a whole."""
    if not new:
        raise ValueError("a run without records is not written")
    old = read(path)
    dropped = replaced_runs(old, new) if replace else set()
    lines = [json.dumps(record) for record in [*(r for r in old if r["run"] not in dropped), *new]]
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    os.replace(path + ".new", path)
    return dropped


def latest(records):
    """Of each item, the record of the last run in the file that has it."""
    found = {}
    for record in records:
        found[key_of(record)] = record
    return list(found.values())


def by_days(records):
    """{(item, GPU, kernel): {date: record}}: of each day the last one. Another kernel of the library is another thing."""
    found = {}
    for record in records:
        found.setdefault(thing_of(record), {})[record["date"]] = record
    return found


def thing_of(record):
    return key_of(record), record["gpu"], record.get("kernel", "")


def spread(days):
    """How far the medians of several days are apart: largest / least - 1."""
    medians = [record["ms"] for record in days.values()]
    return max(medians) / min(medians) - 1


def compare(new, old):
    """[(record, earlier record, ratio)] of the items that earlier runs of this GPU model have too; the latest counts."""
    earlier = {}
    for record in old:
        if record["run"] != new[0]["run"] and record["gpu"] == new[0]["gpu"]:
            earlier[key_of(record)] = record
    pairs = [(record, earlier[key_of(record)]) for record in new if key_of(record) in earlier]
    return [(record, other, record["ms"] / other["ms"]) for record, other in pairs]


def beyond(compared, tolerance=0.05):
    return [entry for entry in compared if abs(entry[2] - 1) > tolerance]
