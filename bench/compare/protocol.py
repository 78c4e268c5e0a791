"""The order of measuring and what is made of the samples. Needs no framework and no GPU.

Sustained: 0.6 s of the same work first, then, without a pause, one burst of 25 ms or more between two events.
Burst: 0.4 s of idling, then one call. Every round measures every item under every protocol once, in random order.
"""

import math
import random
import statistics
import time

LOAD_S = 0.6
BURST_MS = 25.0
IDLE_S = 0.4
LEAST_ROUNDS = 7
PROTOCOLS = ("sustained", "burst")


def calls_for(milliseconds, estimate_ms):
    """Calls that last at least so long."""
    return max(1, math.ceil(milliseconds / max(estimate_ms, 1e-3)))


def seconds_of(protocol, estimate_ms, load_s=LOAD_S):
    """What one measurement takes."""
    if protocol == "burst":
        return IDLE_S + 2e-3 + estimate_ms * 1e-3
    calls = calls_for(load_s * 1e3, estimate_ms) + calls_for(BURST_MS, estimate_ms)
    return calls * estimate_ms * 1e-3


def round_seconds(items, protocols, load_s=LOAD_S):
    return sum(seconds_of(protocol, item.estimate_ms, load_s) for item in items for protocol in protocols)


def run_rounds(items, protocols, measure, rounds, seed, seconds_left, clock=time.monotonic, say=lambda text: None):
    """Calls measure(item, protocol) -> ms for all pairs in every round. Stops before a round that no longer fits the
    time left, so that every item has as many samples as any other. Returns the number of rounds."""
    end = clock() + seconds_left
    shuffle = random.Random(seed)
    longest = 0.0
    for done in range(rounds):
        if done > 0 and clock() + longest > end:
            say(f"time is up after {done} of {rounds} rounds")
            return done
        start = clock()
        order = [(item, protocol) for item in items for protocol in protocols]
        shuffle.shuffle(order)
        for item, protocol in order:
            item.samples.setdefault(protocol, []).append(measure(item, protocol))
        longest = max(longest, clock() - start)
        say(f"round {done + 1} of {rounds}: {clock() - start:.1f} s")
    return rounds


def summarize(samples):
    """Median, least, most, count."""
    if not samples:
        raise ValueError("no sample was taken")
    return statistics.median(samples), min(samples), max(samples), len(samples)
