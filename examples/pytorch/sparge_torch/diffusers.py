"""An attention processor for diffusion transformers of the diffusers package and classes shaped like them.

Self-attention runs through a Stack; cross-attention keeps its own processor. diffusers itself is not imported: an attention
module is whatever has `heads`, `to_q`, `to_k`, `to_v`, `norm_q`, `norm_k`, `to_out` and `set_processor()`, as WanAttention
has."""

import torch

from .report import Report
from .stack import Stack


class SelfAttentionProcessor:
    """Of one layer: projections, norms and rotation as the model has them, attention of the Stack's choice, on [batch, tokens,
    heads, head_dim] throughout, so that nothing is transposed in memory."""

    _parallel_config = None  # set by diffusers' context parallelism

    def __init__(self, stack, layer):
        self.stack, self.layer = stack, layer

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, rotary_emb=None):
        self.refuse(encoder_hidden_states, attention_mask)
        q, k, v = projections(attn, hidden_states)
        q, k = attn.norm_q(q), attn.norm_k(k)
        q, k, v = (x.unflatten(2, (attn.heads, -1)) for x in (q, k, v))
        if rotary_emb is not None:
            q, k = rotate(q, *rotary_emb), rotate(k, *rotary_emb)
        out = self.stack.attend(self.layer, q, k, v, layout="bnhd").flatten(2, 3).type_as(hidden_states)
        for module in attn.to_out:
            out = module(out)
        return out

    def refuse(self, encoder_hidden_states, attention_mask):
        """What this processor would get wrong."""
        if encoder_hidden_states is not None:
            raise NotImplementedError("encoder_hidden_states is given; this processor is for self-attention: leave "
                                      "cross-attention its own processor, as sparsify() does")
        if attention_mask is not None:
            raise NotImplementedError("attention_mask is given; blocks are all or nothing here: pass None, or keep the layer's own "
                                      "processor")
        if self._parallel_config is not None:
            raise NotImplementedError("the model is in diffusers' context parallelism, of which this processor knows nothing: "
                                      "sparsify() it without enable_parallelism()")


def projections(attn, x):
    """q, k, v [batch, tokens, channels]: of one product where the model has fused them."""
    if getattr(attn, "fused_projections", False):
        return attn.to_qkv(x).chunk(3, dim=-1)
    return attn.to_q(x), attn.to_k(x), attn.to_v(x)


def rotate(x, cos, sin):
    """Rotary position embedding of [batch, tokens, heads, head_dim]: neighbouring channels are a pair, and cos and sin hold
    each value twice."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos[..., 0::2], sin[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2).type_as(x)


def self_attention_modules(model):
    """(name, module) of the self-attention of each layer, in the model's order."""
    parts = ("heads", "to_q", "to_k", "to_v", "norm_q", "norm_k", "to_out", "set_processor")
    for name, module in model.named_modules():
        if all(hasattr(module, part) for part in parts) and getattr(module, "is_cross_attention", None) is False:
            yield name, module


class Sparsified:
    """A model whose self-attention is sparse. `layers`: names of the modules that were replaced; `report`: a Report or None."""

    def __init__(self, model, schedule, report):
        found = list(self_attention_modules(model))
        if not found:
            raise ValueError(f"{type(model).__name__} has no self-attention module that is known here: one with "
                             "is_cross_attention = False, to_q, to_k, to_v, norm_q, norm_k, to_out, heads and set_processor()")
        self.layers = [name for name, _ in found]
        self.report = Report(len(found), device=next(model.parameters()).device) if report else None
        self.stack = Stack(len(found), schedule, self.report)
        self.modules, self.before = [module for _, module in found], [module.processor for _, module in found]
        for layer, module in enumerate(self.modules):
            module.set_processor(SelfAttentionProcessor(self.stack, layer))

    def start_step(self, step, branch=""):
        """Before each step: see Stack."""
        self.stack.start_step(step, branch)

    def restore(self):
        """Gives every layer its old processor back."""
        for module, processor in zip(self.modules, self.before, strict=True):
            module.set_processor(processor)


def sparsify(model, schedule, report=False):
    """Replaces the processors of all self-attention modules of `model`, in place. Returns a Sparsified."""
    return Sparsified(model, schedule, report)
