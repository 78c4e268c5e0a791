"""Activation checkpointing with the same mask on recompute."""

import functools

import torch
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from . import operators  # noqa: F401, registers the operators


def keep_masks():
    """A context_fn that saves masks, one bit for each pair of blocks, and leaves everything else to recompute."""
    return create_selective_checkpoint_contexts([torch.ops.sparge.build_mask.default])


checkpoint = functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=False, context_fn=keep_masks)
checkpoint.__doc__ = """torch.utils.checkpoint.checkpoint() that keeps masks: recompute runs with the masks of forward."""
