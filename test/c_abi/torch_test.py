"""torch_test.py LIBRARY: torch CUDA tensors on torch's stream through sparge_ctypes.py. Exits with 4 (skipped) without them."""

import os
import sys
import unittest

from sparge_ctypes import (BF16, BackwardArgs, BlockListsArgs, BuildMaskArgs, ByteMaskArgs, CalibrateArgs, DistillationLossArgs,
                           DistillationProblem, ForwardArgs, InterpolateArgs, Library, MaskRule, MaskStatsArgs, PoolArgs,
                           Problem, SelectBlocksArgs, TransposeMaskArgs, current_stream, dtype_of, mask, mask_pairs, scratch,
                           tensor)

LIBRARY = sys.argv[1]

try:
    import torch
except ImportError:
    print("skipped: needs torch")
    sys.exit(4)
if not torch.cuda.is_available():
    required = os.environ.get("SPARGE_REQUIRE_GPU") == "1"
    print("a GPU is required, and torch sees none" if required else "skipped: needs a GPU")
    sys.exit(1 if required else 4)

Q_BLOCK, KV_BLOCK = 128, 64


def attention(q, k, v, kept, working):
    """Plain attention over the kept (query, key) pairs: softmax in f32, weights and v in the working type."""
    scores = (q.float() @ k.float().transpose(-1, -2)) / q.shape[-1] ** 0.5
    weights = torch.softmax(scores.masked_fill(~kept, float("-inf")), dim=-1).nan_to_num(0.0)
    return (weights.to(working).double() @ v.double()), torch.logsumexp(scores.masked_fill(~kept, float("-inf")), dim=-1)


def gradients(q, k, v, kept, grad_out, grad_lse, working):
    """Of attention() through out and lse, by autograd; k and v have fewer heads than q."""
    leaves = [x.detach().to(working).requires_grad_() for x in (q, k, v)]
    keys, values = (x.repeat_interleave(2, 1) for x in leaves[1:])
    scores = (leaves[0] @ keys.transpose(-1, -2)) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(~kept, float("-inf"))
    out, lse = torch.softmax(scores, dim=-1) @ values, torch.logsumexp(scores, dim=-1)
    torch.autograd.backward([out, lse], [grad_out.to(working), grad_lse.to(working)])
    return [x.grad.double() for x in leaves]


class TorchTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.sparge = Library(LIBRARY)
        self.device = self.sparge.query_device(torch.cuda.current_device())
        self.problem = p = Problem(batch=2, heads=4, kv_heads=2, q_tokens=300, kv_tokens=2100, head_dim=64)
        # [batch, tokens, heads, head_dim] in memory, seen in logical order.
        q, k, v = (torch.randn(2, tokens, heads, 64, device="cuda", dtype=torch.bfloat16)
                   for tokens, heads in ((300, 4), (2100, 2), (2100, 2)))
        self.q, self.k, self.v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        self.words = torch.full((2, 4, p.q_blocks, -(-p.kv_blocks // 32)), -1, device="cuda", dtype=torch.int32)
        self.rule = MaskRule(top_k=0.1, top_p=0.3, min_blocks=1, has_band=1, band_tokens=70)

    def run_call(self, name, plan, args):
        workspace = scratch(plan)
        getattr(self.sparge, name)(plan, args, workspace.data_ptr(), plan.workspace_bytes, current_stream())
        torch.cuda.synchronize()

    def build_mask(self):
        plan = self.sparge.plan_build_mask(self.problem, BF16, self.device)
        self.run_call("build_mask", plan, BuildMaskArgs(q=tensor(self.q), k=tensor(self.k), rule=self.rule, mask=mask(self.words)))
        return mask_pairs(self.words, self.problem.kv_blocks)

    def pool(self):
        p = self.problem
        pooled_q = torch.full((2, 4, p.q_blocks, 64), float("nan"), device="cuda")
        pooled_k = torch.full((2, 2, p.kv_blocks, 64), float("nan"), device="cuda")
        plan = self.sparge.plan_pool(p, BF16, self.device)
        self.run_call("pool", plan, PoolArgs(q=tensor(self.q), k=tensor(self.k), pooled_q=pooled_q.data_ptr(),
                                             pooled_k=pooled_k.data_ptr()))
        return pooled_q, pooled_k

    def kept_tokens(self, pairs):
        return pairs.repeat_interleave(Q_BLOCK, 2)[:, :, :300].repeat_interleave(KV_BLOCK, 3)[..., :2100]

    def test_forward_matches_plain_attention_over_the_mask(self):
        pairs = self.build_mask()
        out = torch.full((2, 300, 4, 64), float("nan"), device="cuda", dtype=torch.bfloat16).transpose(1, 2)
        lse = torch.full((2, 4, 300), float("nan"), device="cuda")
        plan = self.sparge.plan_forward(self.problem, BF16, self.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.run_call("forward", plan, ForwardArgs(q=tensor(self.q), k=tensor(self.k), v=tensor(self.v),
                                                       mask=mask(self.words), out=tensor(out), lse=lse.data_ptr()))
        kept = self.kept_tokens(pairs)
        k, v = (x.repeat_interleave(2, 1) for x in (self.k, self.v))
        truth, truth_lse = attention(self.q, k, v, kept, torch.float32)
        naive, _ = attention(self.q, k, v, kept, torch.bfloat16)
        largest = truth.abs().max().item()
        allowed = 2 * (naive - truth).abs().max().item() + largest * 2**-8
        self.assertLessEqual((out.double() - truth).abs().max().item(), allowed)
        self.assertLessEqual((lse - truth_lse).abs().max().item(), 1e-5 * truth_lse.abs().max().item())

    def test_backward_matches_autograd_of_plain_attention(self):
        kept = self.kept_tokens(self.build_mask())
        out, lse = torch.empty_like(self.q), torch.empty(2, 4, 300, device="cuda")
        plan = self.sparge.plan_forward(self.problem, BF16, self.device)
        self.run_call("forward", plan, ForwardArgs(q=tensor(self.q), k=tensor(self.k), v=tensor(self.v),
                                                   mask=mask(self.words), out=tensor(out), lse=lse.data_ptr()))
        grad_out, grad_lse = torch.randn_like(self.q), torch.randn_like(lse)
        found = [torch.full_like(x, float("nan")) for x in (self.q, self.k, self.v)]
        args = BackwardArgs(q=tensor(self.q), k=tensor(self.k), v=tensor(self.v), out=tensor(out), grad_out=tensor(grad_out),
                            lse=lse.data_ptr(), grad_lse=grad_lse.data_ptr(), mask=mask(self.words),
                            grad_q=tensor(found[0]), grad_k=tensor(found[1]), grad_v=tensor(found[2]))
        self.run_call("backward", self.sparge.plan_backward(self.problem, BF16, self.device), args)
        truth, naive = (gradients(self.q, self.k, self.v, kept, grad_out, grad_lse, working)
                        for working in (torch.float64, torch.bfloat16))
        for name, x, exact, rough in zip("qkv", found, truth, naive):
            allowed = 2 * (rough - exact).abs().max().item() + exact.abs().max().item() * 2**-8
            self.assertLessEqual((x.double() - exact).abs().max().item(), allowed, f"grad_{name}")

    def test_distillation_loss_is_that_of_torch(self):
        problem = DistillationProblem(samples=3, sample_elements=5 * 1003)
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            student, teacher = (torch.randn(3, 5, 1003, device="cuda", dtype=dtype) for _ in range(2))
            weights, loss = torch.rand(3, device="cuda"), torch.full((1,), float("nan"), device="cuda")
            scale = torch.full((1,), 1024.0, device="cuda")
            grad = torch.full_like(student, float("nan"))
            plan = self.sparge.plan_distillation_loss(problem, dtype_of(student), self.device)
            self.run_call("distillation_loss", plan, DistillationLossArgs(
                dtype=dtype_of(student), student=student.data_ptr(), teacher=teacher.data_ptr(), weights=weights.data_ptr(),
                grad_loss=scale.data_ptr(), loss=loss.data_ptr(), grad_student=grad.data_ptr()))
            exact = student.double().requires_grad_()
            truth = (weights.double()[:, None, None] * (exact - teacher.double()) ** 2).mean()
            (1024 * truth).backward()
            self.assertLessEqual(abs(loss.item() / truth.item() - 1), 1e-6)
            # Rounded once to dtype, after a few roundings in f32; the last term is for the subnormal numbers of f16.
            kind = torch.finfo(dtype)
            error = (grad.double() - exact.grad).abs() - (kind.eps / 2 + 2**-21) * exact.grad.abs()
            self.assertLessEqual(error.max().item(), kind.eps * kind.tiny)

    def test_interpolation_is_that_of_torch(self):
        problem = DistillationProblem(samples=3, sample_elements=1003)
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            x0, x1 = (torch.randn(3, 1003, device="cuda", dtype=dtype) for _ in range(2))
            t, x_t = torch.tensor([0.0, 0.3, 1.0], device="cuda"), torch.full_like(x0, float("nan"))
            plan = self.sparge.plan_interpolate(problem, dtype_of(x0), self.device)
            self.sparge.interpolate(plan, InterpolateArgs(dtype=dtype_of(x0), x0=x0.data_ptr(), x1=x1.data_ptr(),
                                                          t=t.data_ptr(), x_t=x_t.data_ptr()), current_stream())
            torch.cuda.synchronize()
            self.assertTrue(torch.equal(x_t[0], x0[0]) and torch.equal(x_t[2], x1[2]))
            truth = t.double()[:, None] * x1.double() + (1 - t.double())[:, None] * x0.double()
            self.assertLessEqual((x_t.double() - truth).abs().max().item(), torch.finfo(dtype).eps * 8)

    def test_pool_is_the_mean_of_each_block(self):
        pooled_q, pooled_k = self.pool()
        for x, pooled, block in ((self.q, pooled_q, Q_BLOCK), (self.k, pooled_k, KV_BLOCK)):
            means = torch.stack([part.double().mean(2) for part in x.split(block, 2)], 2)
            self.assertLessEqual((pooled - means).abs().max().item(), 2**-22 * x.abs().max().item())

    def test_selection_from_pooled_vectors_is_that_of_build_mask(self):
        built = self.build_mask().clone()
        pooled_q, pooled_k = self.pool()
        self.words.fill_(-1)
        plan = self.sparge.plan_select_blocks(self.problem, self.device)
        self.run_call("select_blocks", plan, SelectBlocksArgs(pooled_q=pooled_q.data_ptr(), pooled_k=pooled_k.data_ptr(),
                                                              rule=self.rule, mask=mask(self.words)))
        self.assertTrue(torch.equal(mask_pairs(self.words, self.problem.kv_blocks), built))
        self.assertGreaterEqual(built.sum(-1).min().item(), 4)  # top_k 0.1 of 33

    def test_mask_stats_count_the_mask(self):
        pairs = self.build_mask()
        pooled_q, pooled_k = self.pool()
        stats = torch.full((2, 4, 7), -1, device="cuda", dtype=torch.int64)
        plan = self.sparge.plan_mask_stats(self.problem, self.device)
        self.run_call("mask_stats", plan, MaskStatsArgs(pooled_q=pooled_q.data_ptr(), pooled_k=pooled_k.data_ptr(),
                                                        rule=self.rule, mask=mask(self.words), stats=stats.data_ptr()))
        kept, total, both, by_k, by_p, forced = stats[..., :6].unbind(-1)
        mass = stats.view(torch.float64)[..., 6]
        self.assertTrue(torch.equal(kept, pairs.sum((2, 3))))
        self.assertTrue(torch.equal(kept, both + by_k + by_p + forced))
        self.assertTrue(bool((total == 3 * 33).all()))
        self.assertTrue(bool(((mass > 0) & (mass <= 1)).all()))

    def test_calibration_gives_masks_of_the_wanted_sparsity(self):
        pooled_q, pooled_k = self.pool()
        top_p = torch.full((4,), float("nan"), device="cuda")
        report = torch.full((4, 8), -1, device="cuda", dtype=torch.int64)
        plan = self.sparge.plan_calibrate(self.problem, self.device)
        self.run_call("calibrate", plan, CalibrateArgs(pooled_q=pooled_q.data_ptr(), pooled_k=pooled_k.data_ptr(), rule=self.rule,
                                                       target=0.4, top_p_of_head=top_p.data_ptr(), report=report.data_ptr()))
        self.rule.top_p_of_head = top_p.data_ptr()
        kept = self.build_mask().sum((0, 2, 3))
        self.assertTrue(torch.equal(report[:, 0], kept))
        self.assertTrue(bool((report[:, 1] == 2 * 3 * 33).all()))
        self.assertTrue(bool((kept <= 0.6 * 2 * 3 * 33).all() and (kept > 0.5 * 2 * 3 * 33).all()))
        self.assertTrue(torch.equal(report.view(torch.float32)[:, 14], top_p))
        self.assertTrue(bool((report.view(torch.int32)[:, 15] == 1).all()))

    def test_forms_of_a_mask_agree(self):
        p, stream = self.problem, current_stream()
        pairs = self.build_mask()
        plan = self.sparge.plan_mask_form(p, self.device)
        transposed = torch.full((2, 4, p.kv_blocks, 1), -1, device="cuda", dtype=torch.int32)
        as_bytes = torch.full(pairs.shape, 9, device="cuda", dtype=torch.uint8)
        counts = torch.full(pairs.shape[:3], -7, device="cuda", dtype=torch.int32)
        indices = torch.full(pairs.shape, -7, device="cuda", dtype=torch.int32)
        back = torch.full_like(self.words, -1)
        self.sparge.transpose_mask(plan, TransposeMaskArgs(mask=mask(self.words), transposed=mask(transposed)), stream)
        to_bytes = ByteMaskArgs(mask=mask(self.words), bytes=as_bytes.data_ptr(), bytes_count=as_bytes.numel())
        self.sparge.mask_to_bytes(plan, to_bytes, stream)
        lists = BlockListsArgs(mask=mask(self.words), counts=counts.data_ptr(), indices=indices.data_ptr(), capacity=p.kv_blocks)
        self.sparge.mask_to_lists(plan, lists, stream)
        self.assertTrue(torch.equal(mask_pairs(transposed, p.q_blocks), pairs.transpose(2, 3)))
        self.assertTrue(torch.equal(as_bytes.bool(), pairs))
        self.assertTrue(torch.equal(counts.long(), pairs.sum(-1)))
        for call, args in (("mask_from_bytes", to_bytes), ("mask_from_lists", lists)):
            args.mask = mask(back.fill_(-1))
            getattr(self.sparge, call)(plan, args, stream)
            self.assertTrue(torch.equal(back, self.words), call)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
