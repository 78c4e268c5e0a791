"""The tables that answer one question each, from all runs of the same library. Needs no framework.

Every figure is the median over runs of what a run found, with the least, the most and the number of runs where there are
several.
"""

from . import records, relations, table


def cell(median, unit=""):
    if not median:
        return ""
    middle, least, most, runs = median
    text = f"{table.number(middle)}{unit}"
    return text if runs == 1 else f"{text} ({table.number(least)} - {table.number(most)}, {runs} runs)"


def percent(median):
    return cell(median and (*(100 * value for value in median[:3]), median[3]), " %")


def grid(head, rows):
    if not rows:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)])


def chosen(lines, *operations):
    """Sustained records of the library and of sparse peers, those of a case together."""
    found = [record for record in lines if record["protocol"] == "sustained" and record["op"] in operations
             and record["who"] not in ("cudnn", "fa2", "fa3", "fa4") and record["batch"] and record["check"] == "passed"]
    return sorted(found, key=lambda record: (operations.index(record["op"]), *order_of_case(record), *table.order(record)[1:]))


def order_of_case(record):
    return -record["heads"], record["q_tokens"], -record["head_dim"]


def name_of(record):
    who = table.NAMES.get(record["who"], record["who"])
    return who if record["variant"] == "default" else f"{who} ({record['variant']})"


def case_of(record):
    return f"H{record['heads']} N{record['q_tokens']} D{record['head_dim']}"


def speed_text(lines, runs, operation):
    """Against dense cuDNN: as it is, converted to 26 of 512 blocks kept, and per kept pair."""
    fields = ("times_dense", "times_dense_at_26_of_512", "pair_speed_of_dense")
    rows = []
    for record in chosen(lines, operation):
        medians = [runs.median(record, field) for field in fields]
        if any(medians):
            rows.append([case_of(record), table.mask_text(record), table.sparsity(record), name_of(record),
                         cell(runs.median(record, "ms")), cell(runs.median(record, "dense_ms")),
                         *(cell(median, "x") for median in medians)])
    return grid(["case", "mask", "sparsity", "who", "ms", "dense cuDNN ms", "times as fast", "at 26 of 512 blocks",
                 "per kept pair"], rows)


def uneven_text(lines, runs):
    """Per kept pair against the even mask of equal work."""
    rows = []
    for record in chosen(lines, "forward", "backward"):
        median = runs.median(record, "pair_speed_of_even")
        if median:
            even = next(run["even_mask"] for run in runs.found[runs.key(record)].values() if run.get("even_mask"))
            rows.append([table.OPS[record["op"]], case_of(record), record["mask_name"], table.sparsity(record),
                         name_of(record), cell(runs.median(record, "ms")), cell(runs.median(record, "tflops")), even,
                         cell(median, "x")])
    return grid(["what", "case", "mask", "sparsity", "who", "ms", "TFLOP/s", "even mask", "speed per pair"], rows)


def mask_text(lines, runs):
    """Building against reading Q and K once, and mask + forward against dense attention."""
    rows = []
    for record in chosen(lines, "pool", "select", "mask", "mask_forward"):
        medians = [runs.median(record, field)
                   for field in ("times_reading", "times_dense", "times_fa2")]
        rows.append([table.OPS[record["op"]], case_of(record), record["mask_name"], table.sparsity(record), name_of(record),
                     cell(runs.median(record, "ms")), cell(runs.median(record, "reading_ms")),
                     *(cell(median, "x") for median in medians), percent(runs.median(record, "mask_share"))])
    return grid(["what", "case", "mask", "sparsity", "who", "ms", "reading Q and K ms", "times reading", "times dense cuDNN",
                 "times dense FlashAttention-2", "share of the mask"], rows)


def kernels_text(lines):
    """What each kernel takes, as the profiler saw it in the last run that looked."""
    rows = []
    for record in chosen(lines, "pool", "select", "mask", "mask_forward", "forward", "backward"):
        if record.get("kernels"):
            parts = sorted(record["kernels"].items(), key=lambda entry: -entry[1])
            rows.append([table.OPS[record["op"]], case_of(record), record["mask_name"], name_of(record),
                         table.number(record["ms"]), ", ".join(f"{name} {table.number(ms)}" for name, ms in parts)])
    return grid(["what", "case", "mask", "who", "ms", "ms of its kernels"], rows)


def last_with_kernels(lines, history):
    """Of the same items."""
    keys = {records.key_of(record) for record in lines}
    return records.latest([record for record in history if record.get("kernels") and records.key_of(record) in keys])


def texts(lines, history):
    """{name of a part of the document: Markdown}, of the items in `lines`."""
    runs = relations.Runs(history)
    return {"forward": speed_text(lines, runs, "forward"), "backward": speed_text(lines, runs, "backward"),
            "uneven": uneven_text(lines, runs), "mask": mask_text(lines, runs), "kernels": kernels_text(last_with_kernels(lines, history))}


TITLES = {"forward": "Forward against dense cuDNN", "backward": "Backward against dense cuDNN",
          "uneven": "Uneven masks against even ones", "mask": "Mask building", "kernels": "Kernels of the library"}


def render(lines, history):
    return "\n\n".join(f"### {TITLES[name]}\n\n{text}" for name, text in texts(lines, history).items() if text)
