"""Block-sparse attention of the sparge library in PyTorch. docs/pytorch.md is the guide."""

from sparge_ctypes import Error

from .attention import build_mask, dense_attention, mask_stats, sparge_attention
from .blocks import dense_mask, pack_blocks, unpack_blocks
from .checkpoint import checkpoint, keep_masks
from .diffusers import SelfAttentionProcessor, sparsify
from .distillation import distillation_loss
from .report import Report
from .rule import Keep, Rule
from .schedule import Choice, Schedule
from .stack import Stack
from .stats import MaskStats

__all__ = ["Choice", "Error", "Keep", "MaskStats", "Report", "Rule", "Schedule", "SelfAttentionProcessor", "Stack", "build_mask",
           "checkpoint", "dense_attention", "dense_mask", "distillation_loss", "keep_masks", "mask_stats", "pack_blocks",
           "sparge_attention", "sparsify", "unpack_blocks"]
