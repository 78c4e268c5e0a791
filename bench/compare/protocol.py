"""The order of measuring and what is made of the samples. Needs no framework and no GPU.

Sustained: 0.6 s of the same work first, then, without a pause, one burst of 25 ms or more between two events.
Burst: 0.4 s of idling, then one call. Every round measures every pair of item and protocol once, in random order.
"""

import math
import random
import statistics
import time

LOAD_S = 0.6
BURST_MS = 25.0
IDLE_S = 0.4
BETWEEN_S = 0.01  # what the host does between two measurements, roughly
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


def round_seconds(pairs, load_s=LOAD_S):
    return sum(seconds_of(protocol, item.estimate_ms, load_s) + BETWEEN_S for item, protocol in pairs)


def fit(items, protocols, rounds, seconds, load_s=LOAD_S):
    """The (item, protocol) pairs of a round. Where the rounds would not fit the time, lone calls (burst) are given up, from
    the last item back, as long as their items are also measured under load. The rest is for run_rounds() to end."""
    pairs = [(item, protocol) for item in items for protocol in protocols]
    if "sustained" not in protocols:
        return pairs
    excess = rounds * round_seconds(pairs, load_s) - seconds
    kept = []
    for item, protocol in reversed(pairs):
        if excess > 0 and protocol == "burst":
            excess -= rounds * round_seconds([(item, protocol)], load_s)
        else:
            kept.append((item, protocol))
    return kept[::-1]


def run_rounds(pairs, measure, rounds, seed, seconds_left, clock=time.monotonic, say=lambda text: None):
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
        order = list(pairs)
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
