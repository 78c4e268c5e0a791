#!/usr/bin/env python3
"""Measures the library beside its peers in one process, checks every result, and keeps the figures. See bench/README.md.

    python3 bench/compare_torch.py --library build/libsparge.so --cases main
    python3 bench/compare_torch.py --library build/libsparge.so --cases main --operations backward
    python3 bench/compare_torch.py --library build/libsparge.so --suite forward
"""

import argparse
import hashlib
import os
import sys
import time

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(ROOT, "bench"))

from compare import cases, estimate, protocol, records, relations, suites, summary, table  # noqa: E402

STARTED = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - STARTED:6.1f} s] {text}", flush=True)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=os.path.join(ROOT, "build", "libsparge.so"), help="libsparge.so")
    parser.add_argument("--suite", default="", choices=["", *suites.SUITES], metavar="SUITE",
                        help="; ".join(f"{name}: {suite.shows}".replace("%", "%%") for name, suite in suites.SUITES.items()) +
                        ". Other options take from it or replace what it sets")
    parser.add_argument("--cases", default=None, help=f"main, all, sweep, or some of: {', '.join(cases.CASES)}")
    parser.add_argument("--masks", default="usual", help=f"of forward and backward: {', '.join(cases.MASKS)}; usual = those "
                        "of the case")
    parser.add_argument("--operations", "--ops", default="usual",
                        help=f"{', '.join(cases.OPERATIONS)}; usual = those of the case")
    parser.add_argument("--who", default=None, help="only these contenders, such as sparge_portable,cudnn,fa2,flex")
    parser.add_argument("--rule-forms", default=cases.TORCH_RULE_FORMS[0],
                        help=f"of the rule in torch: {', '.join(cases.TORCH_RULE_FORMS)}; bisect takes long to compile")
    parser.add_argument("--protocols", default=None, help=f"of {', '.join(protocol.PROTOCOLS)}")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--runs", type=int, default=1, help="so often the rounds, each time recorded as a run of its own")
    parser.add_argument("--load", type=float, default=protocol.LOAD_S, help="seconds of load before a sustained sample")
    parser.add_argument("--time-limit", type=float, default=None,
                        help="seconds for all, from the start of the program; see bench/README.md for what is given up")
    parser.add_argument("--seed", type=int, default=None, help="of the order; default: drawn and recorded")
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "benchmarks", "h200.jsonl"))
    parser.add_argument("--replace", action="store_true", help="drop earlier runs of this day, GPU and selection")
    parser.add_argument("--kernels", action=argparse.BooleanOptionalAction, default=None,
                        help="at the end, list what each kernel of the library takes (usual in suites)")
    parser.add_argument("--markdown", default="", help="also write the tables here")
    parser.add_argument("--dry-run", action="store_true", help="make and check the items, one round, write nothing")
    options = parser.parse_args(arguments)
    set_defaults(options)
    known = {"cases": cases.CASES, "masks": cases.MASKS, "operations": cases.OPERATIONS,
             "protocols": protocol.PROTOCOLS, "rule_forms": cases.TORCH_RULE_FORMS, "who": table.NAMES}
    groups = {"cases": {"": [], **cases.GROUPS}, "masks": {"usual": []}, "operations": {"usual": []}}
    for name, names in known.items():
        try:
            setattr(options, name, cases.choose(getattr(options, name), names, groups.get(name)))
        except ValueError as error:
            parser.error(f"--{name.replace('_', '-')}: {error}")
    try:
        options.parts = suites.parts_of(suites.SUITES.get(options.suite), options.cases, options.operations, options.masks)
    except ValueError as error:
        parser.error(f"--cases: {error}")
    options.seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "little")
    return options


def set_defaults(options):
    """What was not asked for is as the suite has it, and without one as is usual."""
    suite = suites.SUITES.get(options.suite)
    usual = {"cases": "main", "who": "all", "protocols": ",".join(protocol.PROTOCOLS), "rounds": protocol.LEAST_ROUNDS,
             "time_limit": 550, "kernels": False}
    if suite:
        usual = {"cases": "", "who": ",".join(suite.who), "protocols": ",".join(suite.protocols), "rounds": suite.rounds,
                 "time_limit": suite.time_limit, "kernels": True}
    for name, value in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, value)


class Absent:
    """Who could not be measured, and why; each reason once."""

    def __init__(self):
        self.reasons = []

    def __call__(self, who, reason):
        text = f"{who}: {reason}"
        if text not in self.reasons:
            self.reasons.append(text)
            say(f"absent: {text}")


class Budget:
    """Leaves a peer out where the rounds of what is already there fill the time: its compiler alone may take a minute."""

    OPTIONAL = ("flex", "vsa", "sla", "torch")
    RESERVE_S = 20

    def __init__(self, options, absent):
        self.options, self.absent, self.ready = options, absent, []

    def left(self):
        return self.options.time_limit - (time.monotonic() - STARTED)

    def is_full(self):
        protocols = [name for name in self.options.protocols if name == "sustained"] or self.options.protocols
        pairs = [(item, name) for item in self.ready for name in protocols]
        rounds = 1 if self.options.dry_run else self.options.rounds * self.options.runs
        return rounds * protocol.round_seconds(pairs, self.options.load) > self.left() - self.RESERVE_S

    def admits(self, who, what):
        if who not in self.OPTIONAL or not self.is_full():
            return True
        self.absent(who, f"{what}: left out, the rounds of the others fill --time-limit")
        return False


def make_items(options, budget, absent):
    """All items of all cases, each run once by its maker or by the check that follows."""
    from compare.contenders import ceilings, dense
    from compare.contenders.ours import Ours
    from compare.contenders.workload import Workload

    ours = Ours(options.library) if any(who.startswith("sparge") for who in options.who) else None
    asked = {op for part in options.parts for op in part.operations}
    if options.suite or "torch" in options.who:
        yield from (item for item in ceilings.items() if item.op in asked)
    for part in options.parts:
        name, mask_names, operations = part.case, part.masks, part.operations
        work = Workload(cases.CASES[name])

        def wanted(op, who=None):
            """`who` may be left open."""
            return op in operations and (who is None or (who in options.who and budget.admits(who, f"{name}, {op}")))

        say(f"case {name}")
        if ours:
            yield from ours.items(work, mask_names, wanted, absent)
        yield from dense.items(work, wanted, absent)
        if {"torch", "flex"} & set(options.who):  # these load torch's compiler
            from compare.contenders import flex, torch_rule
            yield from torch_rule.items(work, mask_names, wanted, options.rule_forms, absent)
            yield from flex.items(work, mask_names, wanted, absent)
        if {"vsa", "sla"} & set(options.who):
            from compare.contenders import sparse_peers
            yield from sparse_peers.items(work, mask_names, wanted, absent)


def prepare(items, meter, budget, absent):
    """Checks, estimates and weighs each item. A peer that fails to run is absent; the library is not allowed to."""
    from compare import gpu
    for item in items:
        try:
            item.verdict = item.check(item.run())
            meter.estimate(item)
            item.extra_bytes = gpu.extra_bytes(item)
        except Exception as error:
            if item.who.startswith("sparge"):
                raise
            absent(item.who, f"{item.name}: {type(error).__name__}: {str(error).strip()[:160]}")
            continue
        budget.ready.append(item)
        mark = "" if item.verdict[0] else "  WRONG"
        say(f"{item.name}: {item.estimate_ms:.4f} ms, {item.verdict[1]}{mark}")
    return budget.ready


def plan_rounds(options, items, budget):
    """The measurements of a round, and how many rounds a run has."""
    rounds = 1 if options.dry_run else options.rounds
    left = budget.left() - 5  # to write what was found
    pairs = protocol.fit(items, options.protocols, rounds * options.runs, left, options.load)
    say(f"{len(items)} items, {len(pairs)} measurements, about {protocol.round_seconds(pairs, options.load):.0f} s a round, "
        f"{options.runs} x {rounds} rounds, {left:.0f} s left")
    if len(pairs) < len(items) * len(options.protocols):
        say(f"{len(items) * len(options.protocols) - len(pairs)} lone calls (burst) are given up for want of time")
    return pairs, rounds


def measure(options, items, meter, budget, machine):
    """The records of all runs, as far as the time allows. A run in which no round fits is not begun, but for the first."""
    pairs, rounds = plan_rounds(options, items, budget)
    selection = selection_of(options)
    digest = hashlib.sha256(f"{selection}{options.seed}{time.time_ns()}".encode()).hexdigest()[:8]
    lines, began = [], time.monotonic()
    for number in range(1 if options.dry_run else options.runs):
        longest_round = (time.monotonic() - began) / max(1, number * rounds)
        if number > 0 and budget.left() - 5 < longest_round:
            say(f"time is up after {number} of {options.runs} runs")
            break
        for item in items:
            item.samples, item.sm_mhz = {}, {}
        protocol.run_rounds(pairs, meter, rounds, options.seed + number, budget.left() - 5, say=say)
        run = {"id": f"{machine['date']}-{digest}" + (f".{number + 1}" if options.runs > 1 else ""), "selection": selection,
               "seed": options.seed + number}
        lines += [records.of_item(item, name, machine, run) for item in items for name in options.protocols
                  if item.samples.get(name)]
    return lines


def list_kernels(items, budget, absent):
    """What each kernel of the library takes, on a GPU that has just been measured. Sets item.kernels."""
    from compare import gpu
    for item in items:
        if item.who.startswith("sparge") and budget.left() > 10:
            try:
                item.kernels = gpu.kernel_ms(item)
            except Exception as error:
                absent("kernel times", f"{type(error).__name__}: {str(error).strip()[:160]}")
                return


def selection_of(options):
    masks, operations = (",".join(names) or "usual" for names in (options.masks, options.operations))
    names = ",".join(dict.fromkeys(part.case for part in options.parts))
    suite = f"suite={options.suite};" if options.suite else ""
    return (f"{suite}cases={names};masks={masks};ops={operations};"
            f"who={','.join(options.who)};rule_forms={','.join(options.rule_forms)};"
            f"protocols={','.join(options.protocols)}")


def report(options, items, lines, machine, absent):
    """Prints and writes. Returns whether every check passed."""
    lines = relations.with_relations(lines)
    earlier = records.read(options.out)
    history = [*earlier, *lines]
    texts = [table.render(records.latest(lines), history), summary.render(records.latest(lines), history),
             table.days_text(history), table.comparison_text(lines, earlier)]
    if absent.reasons:
        texts.append("Not measured:\n" + "\n".join(f"- {reason}" for reason in absent.reasons))
    text = "\n\n".join(part for part in texts if part)
    heading = (f"Run {', '.join(dict.fromkeys(record['run'] for record in lines))}, commit {machine['commit']}, "
               f"{machine['gpu']}, driver {machine['driver']}, torch {machine['torch']}, cuDNN {machine['cudnn']}.")
    print(f"\n{heading}\n\n{text}\n", flush=True)
    if not options.dry_run:
        dropped = records.write(options.out, lines, options.replace)
        say(f"{len(lines)} records in {options.out}" + (f", in place of {', '.join(sorted(dropped))}" if dropped else ""))
    if options.markdown:
        os.makedirs(os.path.dirname(os.path.abspath(options.markdown)), exist_ok=True)
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write(f"{heading}\n\n{text}\n")
    wrong = [item.name for item in items if not item.verdict[0]]
    for name in wrong:
        print(f"WRONG RESULT: {name}", file=sys.stderr)
    return not wrong


def say_estimate(options):
    expected = estimate.Estimate(options.parts, options.who, options.protocols, options.load)
    rounds = 1 if options.dry_run else options.rounds * options.runs
    unknown = [name for name in estimate.UNKNOWN if name in options.who]
    say(f"about {expected.seconds(rounds):.0f} s: {expected.before:.0f} s before and after, {rounds} rounds of "
        f"{expected.round:.0f} s; the limit is {options.time_limit:.0f} s" +
        (f"; not counting {', '.join(unknown)}" if unknown else ""))


def main(arguments=None):
    options = parse(arguments)
    say_estimate(options)
    import torch
    if not torch.cuda.is_available():
        print("compare_torch.py measures on a GPU, and torch sees none here", file=sys.stderr)
        return 2
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    from compare import gpu
    absent, meter = Absent(), gpu.Meter(options.load)
    budget = Budget(options, absent)
    machine = gpu.describe_machine(ROOT)
    items = prepare(make_items(options, budget, absent), meter, budget, absent)
    if not items:
        print("nothing was asked for that can be measured here", file=sys.stderr)
        return 2
    lines = measure(options, items, meter, budget, machine)
    if options.kernels:
        list_kernels(items, budget, absent)
        records.set_kernels(lines, items)
    return 0 if report(options, items, lines, machine, absent) else 1


if __name__ == "__main__":
    sys.exit(main())
