"""The first call in Python: block-sparse attention over random tensors, beside dense attention. Needs a GPU and the library."""

import torch

from sparge_torch import dense_attention, sparge_attention

shape = 1, 12, 32760, 128  # batch, heads, tokens, head_dim
q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
out, stats = sparge_attention(q, k, v, top_k=0.03, top_p=0.2, return_stats=True)
error = (out - dense_attention(q, k, v)).norm() / out.norm()
print(f"{tuple(out.shape)}, {100 * stats.sparsity.mean().item():.1f} % of block pairs dropped, "
      f"{100 * stats.pooled_mass.mean().item():.1f} % of the pooled mass kept, {error.item():.3f} away from dense attention")
