"""Refusals name the field, the value, and what would work."""

import pytest
import torch

from sparge_torch import Error, build_mask, distillation_loss, sparge_attention
from support import qkv


def refused(kind, words, function, *arguments, **options):
    with pytest.raises(kind) as caught:
        function(*arguments, **options)
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


def test_arguments_that_need_no_library_to_be_wrong():
    """On tensors without memory: the fake kernels refuse, as they do while a model is compiled."""
    q, k, v = (x.to("meta") for x in qkv("cpu"))
    refused(TypeError, ["top_k", "mask", "0.03"], sparge_attention, q, k, v)
    refused(ValueError, ["layout", "'hbnd'", "'bnhd'"], sparge_attention, q, k, v, top_k=0.1, layout="hbnd")
    refused(TypeError, ["q.dtype", "torch.float32", "torch.bfloat16", "autocast"], sparge_attention, q.float(), k, v, top_k=0.1)
    refused(TypeError, ["k.dtype", "torch.float16", "q.dtype"], sparge_attention, q, k.half(), v, top_k=0.1)
    refused(ValueError, ["k has 3 heads", "q has 4", "divide"], sparge_attention, q, k[:, :3], v[:, :3], top_k=0.1)
    refused(ValueError, ["v.shape", "(2, 4, 499, 64)", "k.shape"], sparge_attention, q, k, v[:, :, 1:], top_k=0.1)
    refused(ValueError, ["k.shape", "head_dim must agree"], sparge_attention, q, k[..., :32], v, top_k=0.1)
    refused(ValueError, ["q has 3 axes"], build_mask, q[0], k)
    mask = build_mask(q, k, top_k=0.1)
    longer = k.repeat(1, 1, 5, 1)
    refused(ValueError, ["mask.shape", "(2, 4, 3, 1)", "128 by 64", "(2, 4, 3, 2)"], sparge_attention, q, longer, longer, mask=mask)
    refused(TypeError, ["mask.dtype", "torch.bool", "pack_blocks"], sparge_attention, q, k, v, mask=mask.bool())


def test_losses_that_need_no_library_to_be_wrong():
    student, teacher = torch.empty(2, 5, device="meta"), torch.empty(2, 5, device="meta")
    refused(ValueError, ["teacher.shape", "(2, 4)"], distillation_loss, student, teacher[:, :4])
    refused(TypeError, ["teacher", "torch.float16", "cast"], distillation_loss, student, teacher.half())
    refused(ValueError, ["weights", "(3,)", "(2,)"], distillation_loss, student, teacher, torch.ones(3, device="meta"))


def test_a_teacher_gets_no_gradient(device):
    x = torch.ones(2, 8, device=device, requires_grad=True)
    refused(ValueError, ["teacher.requires_grad", "detach"], distillation_loss, x, x * 2)


@pytest.mark.gpu
def test_what_the_library_refuses():
    q, k, v = qkv("cuda")
    refused(Error, ["top_k", "1.5"], sparge_attention, q, k, v, top_k=1.5)
    refused(Error, ["q_block", "96"], sparge_attention, q, k, v, top_k=0.1, q_block=96)
    refused(Error, ["scale", "-1"], sparge_attention, q, k, v, top_k=0.1, scale=-1.0)
    refused(Error, ["head_dim", "96"], sparge_attention, *qkv("cuda", head_dim=96), top_k=0.1)
    odd = torch.empty(2, 4, 300, 65, device="cuda", dtype=q.dtype)[..., :64]
    refused(Error, ["q.stride[1]", "19500", "multiple of 16 bytes"], sparge_attention, odd, k, v, top_k=0.1)
    refused(Error, ["q.stride[3]", "300", "dense"], sparge_attention, q.transpose(2, 3).contiguous().transpose(2, 3), k, v, top_k=0.1)
    refused(ValueError, ["mask is on the CPU", "cuda:0"], sparge_attention, q, k, v, mask=build_mask(q, k, top_k=0.1).cpu())
    refused(ValueError, ["top_k_of_head", "(3,)", "(4,)"], sparge_attention, q, k, v, top_k=torch.ones(3, device="cuda"))
    sparge_attention(q, k, v, top_k=0.1)  # the next valid call succeeds
    torch.cuda.synchronize()


@pytest.mark.gpu
def test_errors_have_the_fields_of_a_status():
    q, k, v = qkv("cuda", head_dim=96)
    with pytest.raises(Error) as caught:
        sparge_attention(q, k, v, top_k=0.1)
    assert caught.value.field.endswith("head_dim") and caught.value.given == 96 and caught.value.code == 2


def test_a_library_that_is_not_there_is_named(monkeypatch):
    from sparge_torch import library
    monkeypatch.setenv("SPARGE_LIBRARY", "nowhere/libsparge.so")
    with pytest.raises(ImportError, match="SPARGE_LIBRARY.*nowhere/libsparge.so"):
        library.library.__wrapped__()
