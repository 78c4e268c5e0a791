"""How much a block mask keeps: plain counting, no framework."""

import fractions
import math


def keep_count(share, blocks):
    """ceil(share * blocks), without the rounding of the share: 5 % of 512 is 26, 20 % of 5 is 1."""
    exact = fractions.Fraction(share).limit_denominator(10**6) * blocks
    return min(blocks, math.ceil(exact))


def uneven_counts(shares, blocks):
    """(least, most): the whole numbers of blocks between two shares, at least one."""
    least, most = (fractions.Fraction(share).limit_denominator(10**6) * blocks for share in shares)
    least = max(1, math.ceil(least))
    return least, max(least, math.floor(most))


def even_counts(total, rows):
    """`total` over the rows: none has more than one above another, and those that do are spread out."""
    return [(row + 1) * total // rows - row * total // rows for row in range(rows)]


def block_tokens(block, tokens, size):
    """Tokens of a block; the last may be partial."""
    return max(0, min(size, tokens - block * size))


def kept_token_pairs(pairs_of_last, tokens_q, tokens_k, q_block, kv_block):
    """Token pairs of a mask, from its block pairs told apart by whether they touch a last block:
    {(is_last_q, is_last_k): block pairs}."""
    last_q = block_tokens((tokens_q - 1) // q_block, tokens_q, q_block)
    last_k = block_tokens((tokens_k - 1) // kv_block, tokens_k, kv_block)
    return sum(pairs * (last_q if is_last_q else q_block) * (last_k if is_last_k else kv_block)
               for (is_last_q, is_last_k), pairs in pairs_of_last.items())


def row_words(kv_blocks):
    return (kv_blocks + 31) // 32


def rule_count(prob_in_order, top_k, top_p, min_blocks=1):
    """Blocks that the hybrid rule keeps of a row, from its probabilities in the order of the rule."""
    candidates = len(prob_in_order)
    by_k = min(max(math.ceil(top_k * candidates - 1e-3), min_blocks), candidates)
    if top_p <= 0:
        return by_k
    if top_p >= 1:
        return candidates
    mass, by_p = 0.0, candidates
    for index, prob in enumerate(prob_in_order):
        mass += prob
        if mass >= top_p:
            by_p = index + 1
            break
    return max(by_k, by_p)
