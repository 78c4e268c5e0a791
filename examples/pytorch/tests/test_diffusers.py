"""The processor in WanTransformer3DModel of the diffusers package, with random weights, beside masked dense attention in the
same class."""

import copy

import pytest
import torch

import reference
import sparge_torch
from sparge_torch import Rule, Schedule, SelfAttentionProcessor, sparsify
from sparge_torch.diffusers import self_attention_modules

diffusers = pytest.importorskip("diffusers", reason="needs the diffusers package")
wan = pytest.importorskip("diffusers.models.transformers.transformer_wan")

# Wan 1.3B on a GPU with two of its thirty layers, 5 x 30 x 52 = 7,800 tokens: 17 frames of 480 x 832. On the CPU a small one of
# the same form.
SHAPES = {"cuda": dict(heads=12, head_dim=128, ffn=8960, text=4096, latent=(5, 60, 104)),
          "cpu": dict(heads=2, head_dim=64, ffn=128, text=32, latent=(3, 24, 20))}
SCHEDULE = Schedule(Rule(0.1, 0.2))


def model_and_inputs(device, dtype=torch.bfloat16):
    torch.manual_seed(11)
    shape = SHAPES[device]
    model = wan.WanTransformer3DModel(patch_size=(1, 2, 2), num_attention_heads=shape["heads"],
                                      attention_head_dim=shape["head_dim"], num_layers=2, ffn_dim=shape["ffn"],
                                      text_dim=shape["text"]).to(device, dtype).eval()
    for _, module in self_attention_modules(model):  # of a random model, which barely attends: sharper, and louder
        module.norm_q.weight.data.fill_(2.0)
        module.to_out[0].weight.data.mul_(8)
    inputs = dict(hidden_states=torch.randn(1, 16, *shape["latent"], device=device, dtype=dtype),
                  timestep=torch.tensor([500], device=device),
                  encoder_hidden_states=torch.randn(1, 64, shape["text"], device=device, dtype=dtype), return_dict=False)
    return model, inputs


class MaskedDense:
    """The model's own processor with an attention mask over tokens: masked dense attention of the same class."""

    def __init__(self, own, tokens):
        self.own, self.tokens = own, tokens

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, rotary_emb=None):
        return self.own(attn, hidden_states, encoder_hidden_states, self.tokens, rotary_emb)


def recorded_run(model, inputs):
    """Sparse output, and the token mask of each layer. A report needs the masks; without one nobody sees them, for the same bits."""
    sparse = sparsify(model, SCHEDULE, report=True)
    masks, build = [], sparse.stack.mask

    def record(layer, choice, q, k, layout):
        masks.append((build(layer, choice, q, k, layout), k.transpose(1, 2), q.shape[1]))
        return masks[-1][0]
    sparse.stack.mask = record
    with torch.no_grad():
        out, = model(**inputs)
        sparse.restore()
        alone = sparsify(model, SCHEDULE)
        assert torch.equal(model(**inputs)[0], out)
        alone.restore()
    return out, [reference.token_mask(reference.keep_of(mask, k), tokens, tokens, (128, 64)) for mask, k, tokens in masks]


def masked_dense_run(model, inputs, masks):
    modules = [module for _, module in self_attention_modules(model)]
    for module, mask in zip(modules, masks, strict=True):
        module.set_processor(MaskedDense(module.processor, mask))
    with torch.no_grad():
        out, = model(**inputs)
    for module in modules:
        module.set_processor(module.processor.own)
    return out


def test_the_output_is_that_of_masked_dense_attention_in_the_same_class(device):
    model, inputs = model_and_inputs(device)
    with torch.no_grad():
        full, = model(**inputs)
    sparse, masks = recorded_run(model, inputs)
    shares = [mask.double().mean().item() for mask in masks]
    assert all(0.05 < share < 0.7 for share in shares), shares

    dense = masked_dense_run(model, inputs, masks)
    exact_inputs = {name: x.float() if torch.is_tensor(x) and x.is_floating_point() else x for name, x in inputs.items()}
    exact = masked_dense_run(copy.deepcopy(model).float(), exact_inputs, masks)
    size = exact.norm()
    error, of_dense, of_full = ((x - exact).norm() / size for x in (sparse, dense, full))
    assert error <= 1.5 * of_dense + 1e-3, f"sparse {error:.2e}, masked dense in bf16 {of_dense:.2e}"
    assert of_full > 5 * error, f"full attention {of_full:.2e}: the mask makes a difference that is seen"
    with torch.no_grad():
        assert torch.equal(model(**inputs)[0], full), "restore() gives the model back as it was"


def test_self_attention_is_replaced_and_cross_attention_left_alone(device):
    model, _ = model_and_inputs(device)
    before = dict(model.attn_processors)
    sparse = sparsify(model, SCHEDULE)
    assert sparse.layers == ["blocks.0.attn1", "blocks.1.attn1"]
    for name, processor in model.attn_processors.items():
        if ".attn1." in name:
            assert isinstance(processor, SelfAttentionProcessor)
        else:
            assert processor is before[name]
    sparse.restore()
    assert dict(model.attn_processors) == before


def test_a_dense_schedule_changes_nothing_but_rounding(device):
    model, inputs = model_and_inputs(device)
    with torch.no_grad():
        full, = model(**inputs)
        sparse = sparsify(model, Schedule(Rule(0.1), dense_layers=2), report=True)
        out, = model(**inputs)
    assert (out - full).norm() <= 5e-3 * full.norm()
    assert sparse.report.summary()["dense, first layers"] == 2


def test_fused_projections_give_the_same(device):
    model, inputs = model_and_inputs(device)
    sparsify(model, SCHEDULE)
    with torch.no_grad():
        apart, = model(**inputs)
        model.fuse_qkv_projections()
        fused, = model(**inputs)
    assert (apart - fused).norm() <= 2e-2 * apart.norm()


def test_it_compiles_trains_and_checkpoints(device):
    model, inputs = model_and_inputs(device)
    sparse = sparsify(model, SCHEDULE, report=True)
    run = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        plain, compiled = model(**inputs)[0], run(**inputs)[0]
    assert (plain - compiled).norm() <= 1e-2 * plain.norm()
    assert sparse.report.summary()["sparse, mask built"] == 4

    def gradients():
        model.zero_grad()
        model(**inputs)[0].float().square().mean().backward()
        return [module.to_q.weight.grad.clone() for _, module in self_attention_modules(model)]
    plain = gradients()
    model.train()
    for checkpoint in (None, sparge_torch.checkpoint):  # diffusers' own, and the one that keeps masks
        model.enable_gradient_checkpointing(checkpoint)
        for a, b in zip(plain, gradients(), strict=True):  # dense cross-attention's backward has other bits each time on a GPU
            assert 0 < a.norm() and (a - b).norm() <= 1e-2 * a.norm()


def test_what_the_processor_would_get_wrong_is_refused(device):
    model, inputs = model_and_inputs(device)
    sparsify(model, SCHEDULE)
    module = model.blocks[0].attn1
    x = torch.zeros(1, 8, module.to_q.in_features, device=device, dtype=torch.bfloat16)
    with pytest.raises(NotImplementedError, match="encoder_hidden_states"):
        module.processor(module, x, encoder_hidden_states=x)
    with pytest.raises(NotImplementedError, match="attention_mask"):
        module.processor(module, x, attention_mask=torch.ones(8, 8, dtype=torch.bool, device=device))
    module.processor._parallel_config = object()
    with pytest.raises(NotImplementedError, match="context parallelism"):
        module(x)
    with pytest.raises(ValueError, match="Linear has no self-attention module"):
        sparsify(torch.nn.Linear(2, 2), SCHEDULE)
