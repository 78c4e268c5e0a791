"""Block masks on the device: bool [batch, heads, q_blocks, kv_blocks], and the forms that contenders read."""

import torch

from . import counts
from .cases import UNEVEN_SHARES


def blocks_of(case, q_block=None, kv_block=None):
    return -(-case.tokens // (q_block or case.q_block)), -(-case.tokens // (kv_block or case.kv_block))


def noise_of(shape, seed, device):
    return torch.rand(shape, generator=torch.Generator(device=device).manual_seed(seed), device=device)


def best(score, count):
    """Keeps the `count` largest of the last axis."""
    keep = torch.zeros(score.shape, dtype=torch.bool, device=score.device)
    return keep.scatter_(-1, score.topk(min(count, score.shape[-1]), dim=-1).indices, True)


def with_counts(row_counts, kv_blocks, seed):
    """Random key blocks, as many in each row as int64 [batch, heads, q_blocks] says."""
    order = noise_of((*row_counts.shape, kv_blocks), seed, row_counts.device).argsort(-1)
    rank = torch.arange(kv_blocks, device=row_counts.device)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, rank < row_counts.unsqueeze(-1))


def random_keep(case, mask, seed, device="cuda", q_block=None, kv_block=None):
    """Keeps ceil(share * kv_blocks) random key blocks in every row."""
    q_blocks, kv_blocks = blocks_of(case, q_block, kv_block)
    noise = noise_of((case.batch, case.heads, q_blocks, kv_blocks), seed, device)
    return best(noise, counts.keep_count(mask.share, kv_blocks))


def uneven_keep(case, _, seed, device="cuda"):
    """Random key blocks, their number uniform between the two shares, row by row."""
    least, most = counts.uneven_counts(UNEVEN_SHARES, case.kv_blocks)
    source = torch.Generator(device=device).manual_seed(seed)
    row_counts = torch.randint(least, most + 1, (case.batch, case.heads, case.q_blocks), generator=source, device=device)
    return with_counts(row_counts, case.kv_blocks, seed + 1)


def lines_keep(case, mask, seed, device="cuda"):
    """A random mask, and whole rows and columns of each head on top."""
    keep = random_keep(case, mask, seed, device)
    head = (case.batch, case.heads)
    rows = best(noise_of((*head, case.q_blocks), seed + 1, device), mask.dense_rows)
    columns = best(noise_of((*head, case.kv_blocks), seed + 2, device), mask.dense_columns)
    return keep | rows.unsqueeze(3) | columns.unsqueeze(2)


def band_keep(case, mask, seed, device="cuda", alike_rows=8):
    """As many as a random mask, half of them next to the diagonal. The rest is drawn for `alike_rows` rows together, and
    a little noise sets those apart, so that neighbours keep much the same."""
    kept = counts.keep_count(mask.share, case.kv_blocks)
    queries = torch.arange(case.q_blocks, device=device)
    centre = (queries + 0.5) * (case.q_block / case.kv_block) - 0.5
    distance = (torch.arange(case.kv_blocks, device=device) - centre.unsqueeze(1)).abs()
    band = best(-distance, kept // 2)
    shape = (case.batch, case.heads, -(-case.q_blocks // alike_rows), case.kv_blocks)
    together = noise_of(shape, seed, device).index_select(2, queries // alike_rows)
    alone = noise_of(together.shape, seed + 1, device)
    return best(together + mask.share / 4 * alone + 2.0 * band, kept)


def even_keep(keep, seed):
    """Random key blocks, as many in all as `keep` has, and in no row more than one above another."""
    rows = keep[..., 0].numel()
    row_counts = counts.even_counts(int(keep.sum()), rows)
    row_counts = torch.tensor(row_counts, device=keep.device).view(keep.shape[:3])
    return with_counts(row_counts, keep.shape[3], seed)


MAKERS = {"random": random_keep, "ones": random_keep, "uneven": uneven_keep, "lines": lines_keep, "band": band_keep}


def pack_bits(keep):
    """int32 [batch, heads, q_blocks, words]: key block j is bit j mod 32 of word j // 32."""
    batch, heads, q_blocks, kv_blocks = keep.shape
    words = counts.row_words(kv_blocks)
    padded = torch.nn.functional.pad(keep, (0, 32 * words - kv_blocks)).view(batch, heads, q_blocks, words, 32)
    weights = torch.bitwise_left_shift(torch.ones(32, dtype=torch.int64, device=keep.device),
                                       torch.arange(32, device=keep.device))
    bits = (padded.to(torch.int64) * weights).sum(-1)
    return torch.where(bits >= 2**31, bits - 2**32, bits).to(torch.int32)


def unpack_bits(bits, kv_blocks):
    batch, heads, q_blocks, words = bits.shape
    lanes = torch.arange(32, device=bits.device, dtype=torch.int32)
    spread = torch.bitwise_right_shift(bits.unsqueeze(-1), lanes) & 1
    return spread.view(batch, heads, q_blocks, 32 * words)[..., :kv_blocks].bool()


def lists(keep):
    """counts int32 [.., q_blocks], indices int32 [.., q_blocks, kv_blocks]: the kept ones ascending, then the dropped."""
    order = torch.argsort(keep.to(torch.uint8), dim=3, descending=True, stable=True)
    return keep.sum(3, dtype=torch.int32), order.to(torch.int32)


def kept(keep, case, q_block=None, kv_block=None):
    """(block pairs, token pairs)."""
    q_block, kv_block = q_block or case.q_block, kv_block or case.kv_block
    total = int(keep.sum())
    last_q, last_k = int(keep[:, :, -1].sum()), int(keep[:, :, :, -1].sum())
    corner = int(keep[:, :, -1, -1].sum())
    parts = {(True, True): corner, (True, False): last_q - corner, (False, True): last_k - corner,
             (False, False): total - last_q - last_k + corner}
    return total, counts.kept_token_pairs(parts, case.tokens, case.tokens, q_block, kv_block)
