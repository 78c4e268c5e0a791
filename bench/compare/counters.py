"""Hardware counters: which are read, what Nsight Compute's CSV says of them, and what they say of a kernel's limit."""

import csv
import io

from . import records, suites

# Field of a record: metrics, of which the first that the GPU has is read.
FIELDS = {
    "cycles": ("sm__cycles_elapsed.max", "sm__cycles_elapsed.avg"),
    "tensor_percent": ("sm__pipe_tensor_op_gmma_cycles_active.avg.pct_of_peak_sustained_active",
                       "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
                       "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
                       "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"),
    "exp_percent": ("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",),
    "issue_percent": ("sm__inst_issued.avg.pct_of_peak_sustained_active", "sm__instruction_throughput.avg.pct_of_peak_sustained_active"),
    "l2_percent": ("lts__t_sectors.avg.pct_of_peak_sustained_elapsed",),
    "memory_percent": ("dram__throughput.avg.pct_of_peak_sustained_elapsed",),
    "read_bytes": ("dram__bytes_read.sum",),
    "written_bytes": ("dram__bytes_write.sum",),
}
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "%": 1, "cycle": 1}
HIGHEST_MHZ = 1980  # of an H200
BENCH_MASKS = {"random95": "keep_5", "random90": "keep_10", "random80": "keep_20", "ones": "keep_100", "rule": "rule"}  # their names in the benchmark programs
KERNELS = {"ForwardSm90": "O", "BackwardDkdvSm90": "dK, dV", "BackwardDqSm90": "dQ"}


def items_of(operation):
    """(case, mask) of the suite of an operation, as far as the benchmark programs have them. Of backward one mask a case: with
    everything kept a launch takes seconds under ncu."""
    return [(part.case, mask) for part in suites.SUITES[operation].parts
            for mask in (part.masks if operation == "forward" else part.masks[:1]) if mask in BENCH_MASKS]


def choose(known):
    """The metrics to ask for, of those that the GPU knows by their base names."""
    chosen = []
    for candidates in FIELDS.values():
        found = [metric for metric in candidates if metric.split(".")[0] in known]
        chosen += found[:1]
    return chosen


def parse(text):
    """One record a launch, from `ncu --csv`."""
    start = text.find('"ID"')
    if start < 0:
        raise ValueError(f"no counters: {text[-300:]}")
    field_of = {metric: field for field, candidates in FIELDS.items() for metric in candidates}
    launches = {}
    for row in csv.DictReader(io.StringIO(text[start:])):
        if row["Metric Name"] not in field_of:
            continue
        kernel = KERNELS.get(records.short_name(row["Kernel Name"]))
        if kernel is None:
            raise ValueError(f"a kernel that no table knows: {row['Kernel Name'][:80]}")
        record = launches.setdefault(row["ID"], {"kernel": kernel})
        value = float(row["Metric Value"].replace(",", "")) * UNITS[row["Metric Unit"]]
        record[field_of[row["Metric Name"]]] = round(value, 2)
    return list(launches.values())


def limit_of(record, mhz):
    """What the kernel is nearest to: its busiest unit; and the power limit, where the clock stays far below the highest under load."""
    units = {"tensor cores": "tensor_percent", "exponentials": "exp_percent", "issue slots": "issue_percent", "L2": "l2_percent",
             "device memory": "memory_percent"}
    busiest = max(units, key=lambda unit: record.get(units[unit], 0))
    share = record.get(units[busiest], 0)
    reasons = [f"{busiest} ({share:.0f} %)" if share >= 60 else f"latency ({busiest} {share:.0f} %)"]
    if 0 < mhz < 0.9 * HIGHEST_MHZ:
        reasons.append(f"power ({mhz:.0f} of {HIGHEST_MHZ} MHz)")
    return ", ".join(reasons)


def mhz_under_load(counted, lines):
    """{(op, case, mask): the SM's clock in a sustained measurement}: cycles of its kernels over the time of a call, which holds a little
    more. What NVML reads while a burst is enqueued lags behind."""
    found = {}
    for record in counted:
        found.setdefault((record["op"], record["case"], record["mask_name"]), {})[record["kernel"]] = record.get("cycles", 0)
    ms = {(line["op"], line["case"], line["mask_name"]): line["ms"] for line in lines
          if line["protocol"] == "sustained" and line["who"] == "sparge"}
    return {key: sum(cycles.values()) / ms[key] * 1e-3 for key, cycles in found.items() if key in ms}


def table(counted, lines):
    """Markdown; the last line of each case and kernel. `lines`: records of the comparison, for the clock under load."""
    rows = ["| what | case | mask | kernel | tensor cores | exponentials | issue slots | L2 | device memory | read, written | limited by |",
            "|---|---|---|---|---|---|---|---|---|---|---|"]
    last = {(record["op"], record["case"], record["mask_name"], record["kernel"]): record for record in counted}
    mhz = mhz_under_load(list(last.values()), lines)
    for (op, case, mask, kernel), record in last.items():
        percents = " | ".join(f"{record[field]:.0f} %" if field in record else "" for field in
                              ("tensor_percent", "exp_percent", "issue_percent", "l2_percent", "memory_percent"))
        traffic = f"{record.get('read_bytes', 0) / 1e9:.2f}, {record.get('written_bytes', 0) / 1e9:.2f} GB"
        limit = limit_of(record, mhz.get((op, case, mask), 0))
        rows.append(f"| {op.capitalize()} | {case} | {mask} | {kernel} | {percents} | {traffic} | {limit} |")
    return "\n".join(rows) if last else ""
