"""Block masks on the device: bool [batch, heads, q_blocks, kv_blocks], and the forms that contenders read."""

import torch

from . import counts


def random_keep(case, share, seed, device="cuda", q_block=None, kv_block=None):
    """Keeps ceil(share * kv_blocks) random key blocks in every row."""
    q_blocks = -(-case.tokens // (q_block or case.q_block))
    kv_blocks = -(-case.tokens // (kv_block or case.kv_block))
    kept = counts.keep_count(share, kv_blocks)
    source = torch.Generator(device=device).manual_seed(seed)
    keep = torch.zeros((case.batch, case.heads, q_blocks, kv_blocks), dtype=torch.bool, device=device)
    noise = torch.rand(keep.shape, generator=source, device=device)
    return keep.scatter_(3, noise.topk(kept, dim=3).indices, True)


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
