"""Markdown from records. Needs no framework."""

from . import cases, records, relations
from . import protocol as rules

NAMES = {"sparge": "sparge", "sparge_portable": "sparge, portable kernel", "cudnn": "cuDNN", "fa2": "FlashAttention-2",
         "fa3": "FlashAttention-3", "fa4": "FlashAttention-4", "flex": "FlexAttention", "vsa": "VSA", "sla": "SLA",
         "torch": "torch"}
OPS = {"copy": "Copy", "matmul": "Matrix product", "pool": "Pooling", "select": "Selection", "mask": "Mask", "mask_forward": "Mask + forward",
       "forward": "Forward", "backward": "Backward"}
DENSE_OP = relations.DENSE_OP
TOLERANCE = 0.05  # within which medians of two days count as the same
MASK_TEXTS = {"random": "random", "ones": "all kept", "rule": "the rule's", "dense": "none (dense)",
              "uneven": "uneven", "even": "even", "lines": "dense lines", "band": "band"}
HEAD = ("| what | who | mask | sparsity | ms sustained (min - max) | TFLOP/s | GB/s | against dense cuDNN | at 26 of 512 | "
        "per pair, of cuDNN | per pair, of the even mask | ms burst | extra memory | other days | |\n" + "|---" * 15 + "|")


def number(value, digits=3):
    """Three significant digits without an exponent; empty for 0."""
    if not value:
        return ""
    text = f"{float(f'{value:.{digits}g}'):.10f}".rstrip("0").rstrip(".")
    return text


def mask_text(record):
    """Masks of one kind and share are told apart by their names."""
    text = MASK_TEXTS.get(record["mask"], record["mask"])
    return text if record["mask"] in ("random", "ones", "dense", record["mask_name"]) else f"{text} ({record['mask_name']})"


def bytes_text(count):
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{number(count / size)} {unit}"
    return "0" if not count else f"{count} B"


def sparsity(record):
    if not record["all_pairs"] or record["mask"] == "dense":
        return ""
    return f"{100 * (1 - record['kept_pairs'] / record['all_pairs']):.1f} %"


def days_cell(record, days):
    """Whether this median repeats on other days."""
    of_record = days.get(records.thing_of(record), {})
    if len(of_record) < 2:
        return "none"
    apart = records.spread(of_record)
    text = f"{len(of_record)} days, {100 * apart:.1f} % apart"
    return text if apart <= TOLERANCE else f"**{text}**"


def remarks(record):
    found = []
    if record["check"] != "passed":
        found.append(f"**WRONG RESULT: {record['check_says']}**")
    if record["rounds"] < rules.LEAST_ROUNDS:
        found.append(f"only {record['rounds']} rounds")
    if record.get("host_ms", 0) > 0.9 * record["ms"]:
        found.append("the host takes as long to enqueue it")
    return "; ".join(found)


def line(record, burst, index, days):
    spread = f"{number(record['ms'])} ({number(record['ms_min'])} - {number(record['ms_max'])})"
    who = NAMES.get(record["who"], record["who"])
    if record["variant"] != "default":
        who += f" ({record['variant']})"
    related = index.of(record)

    def times(field):
        return f"{number(related[field])}x" if related.get(field) else ""

    cells = [OPS.get(record["op"], record["op"]), who, mask_text(record), sparsity(record),
             spread, number(record.get("tflops", 0)), number(record["gbps"]), times("times_dense"),
             times("times_dense_at_26_of_512"), times("pair_speed_of_dense"), times("pair_speed_of_even"),
             number(burst["ms"]) if burst else "", bytes_text(record.get("extra_bytes", 0)),
             days_cell(record, days), remarks(record)]
    return "| " + " | ".join(cells) + " |"


def title(shape):
    batch, heads, kv_heads, q_tokens, kv_tokens, head_dim = shape
    if not batch:
        return "Ceilings"
    groups = "" if kv_heads == heads else f", {kv_heads} kv heads"
    tokens = f"{q_tokens}" if q_tokens == kv_tokens else f"{q_tokens} x {kv_tokens}"
    return f"batch {batch}, {heads} heads{groups}, {tokens} tokens, head dimension {head_dim}"


def order(record):
    ops, who = list(OPS), list(NAMES)
    share = record["kept_pairs"] / record["all_pairs"] if record["all_pairs"] else 0
    return (ops.index(record["op"]) if record["op"] in ops else 99, record["mask"], share,
            who.index(record["who"]) if record["who"] in who else 99, record["variant"])


def render(lines, history=()):
    """One table a shape, from the records of one or more runs. `history`: all records, to tell what repeats."""
    main = "sustained" if any(record["protocol"] == "sustained" for record in lines) else "burst"
    burst = {records.key_of(record)[1:]: record for record in lines if record["protocol"] == "burst"}
    days = records.by_days([*history, *lines])
    index, shapes = relations.Index([*history, *lines]), {}
    for record in lines:
        if record["protocol"] == main:
            shapes.setdefault(records.shape_of(record), []).append(record)
    texts = []
    for shape, group in shapes.items():
        body = [line(record, burst.get(records.key_of(record)[1:]), index, days)
                for record in sorted(group, key=order)]
        name = next((f"{record['case']}: " for record in group if record.get("case")), "")
        texts.append(f"### {name}{title(shape)}\n\n{HEAD}\n" + "\n".join(body))
    return "\n\n".join(texts)


def where(record):
    return (f"{record['protocol']}: {record['op']} {record['who']} {record['variant']}, "
            f"{record['case'] or 'ceiling'}, {record['mask_name']}")


def days_text(history, tolerance=TOLERANCE):
    """Whether the medians of the main cases repeat on different days."""
    main = [record for record in history if record.get("case") in cases.GROUPS["main"]]
    if not main:
        return "The main cases have not been measured yet."
    dates = sorted({record["date"] for record in main})
    if len(dates) == 1:
        return (f"**All figures of the main cases are of one day, {dates[0]}: whether they repeat on another day "
                "is not known.**")
    things = list(records.by_days(main).values())
    again = [days for days in things if len(days) > 1]
    far = [days for days in again if records.spread(days) > tolerance]
    text = (f"Main cases, days {', '.join(dates)}: of {len(things)} medians {len(again)} were measured on more than one day; "
            f"{len(again) - len(far)} of those repeat within {100 * tolerance:.0f} %, {len(far)} do not.")
    if len(again) < len(things):
        text += f" Of the other {len(things) - len(again)} it is not known."
    rows = [f"- {where(next(iter(days.values())))}: " +
            ", ".join(f"{number(record['ms'])} ms on {date} ({record['commit']})" for date, record in sorted(days.items()))
            for days in far]
    return "\n".join([text, *([""] + rows if rows else [])])


def comparison_text(new, old, tolerance=TOLERANCE):
    """Whether a run repeats what earlier ones found."""
    compared = records.compare(new, old)
    if not compared:
        return "No earlier run in the file has these items on this model of GPU."
    far = records.beyond(compared, tolerance)
    percent = f"{100 * tolerance:.0f} %"
    runs = ", ".join(sorted({other["run"] for _, other, _ in compared}))
    if not far:
        return f"All {len(compared)} medians are within {percent} of those of the earlier run ({runs})."
    rows = [f"- {where(record)}: {number(record['ms'])} ms, "
            f"earlier {number(other['ms'])} ms ({100 * (ratio - 1):+.1f} %)"
            for record, other, ratio in far]
    return (f"{len(far)} of {len(compared)} medians are NOT within {percent} of those of the earlier run ({runs}):\n"
            + "\n".join(rows))
