"""The library through its C ABI: the same calls that any other language would make."""

import os
import sys

import torch

from .. import check, masks, rule, verdict
from ..cases import RULE_TOP_K, Item, rule_masks

ROOT = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "examples", "pytorch"))
import sparge_ctypes as abi  # noqa: E402


class Call:
    """A plan with its arguments and workspace, ready to be enqueued. `keep_alive` is what the arguments point to."""

    def __init__(self, function, plan, args, keep_alive):
        self.function, self.plan, self.args, self.keep_alive = function, plan, args, keep_alive
        self.scratch = abi.scratch(plan)

    def __call__(self):
        self.function(self.plan, self.args, self.scratch.data_ptr(), self.plan.workspace_bytes, abi.current_stream())


class Ours:
    """Items of the library. A refused plan or call raises: the library may not be absent."""

    def __init__(self, path):
        self.library = abi.Library(path)
        self.device = self.library.query_device(torch.cuda.current_device())

    def problem(self, case):
        return abi.Problem(batch=case.batch, heads=case.heads, kv_heads=case.heads, q_tokens=case.tokens,
                           kv_tokens=case.tokens, head_dim=case.head_dim, q_block=case.q_block, kv_block=case.kv_block)

    def kernel_name(self, index):
        return self.library.supported_kernel(index).name.decode()

    def forward_plans(self, case):
        """{who: plan}: the one the library chooses, and the best portable one where that is another."""
        problem = self.problem(case)
        chosen = self.library.plan_forward(problem, abi.BF16, self.device)
        if self.kernel_name(chosen.kernel).startswith("sm80"):
            return {"sparge_portable": chosen}
        plans = {"sparge": chosen}
        for index in range(self.library.supported_kernels()):
            try:
                if not self.kernel_name(index).startswith("sm80"):
                    continue
                options = abi.Options(has_force_kernel=1, force_kernel=index)
                plans["sparge_portable"] = self.library.plan_forward(problem, abi.BF16, self.device, options)
                break
            except abi.Error:
                continue  # of another head_dim, or not in this build
        return plans

    def backward_kernel_names(self, plan):
        return [self.library.supported_backward_kernel(index).name.decode() for index in (plan.kernel, plan.dq_kernel)]

    def backward_plans(self, case):
        """{who: plan}, as forward_plans(). Of two passes one can be forced, so the portable plan is that of a device like this one
        that has no newer kernels."""
        problem = self.problem(case)
        chosen = self.library.plan_backward(problem, abi.BF16, self.device)
        if all("sm80" in name for name in self.backward_kernel_names(chosen)):
            return {"sparge_portable": chosen}
        older = type(self.device).from_buffer_copy(self.device)
        older.capability_major, older.capability_minor = 8, 0
        return {"sparge": chosen, "sparge_portable": self.library.plan_backward(problem, abi.BF16, older)}

    def forward_call(self, work, plan, mask_name, bits, out, lse=None):
        q, k, v = work.qkv(mask_name)
        args = abi.ForwardArgs(q=abi.tensor(q), k=abi.tensor(k), v=abi.tensor(v), mask=abi.mask(bits), out=abi.tensor(out),
                               lse=lse.data_ptr() if lse is not None else None)
        return Call(self.library.forward, plan, args, (q, k, v, bits, out, lse))

    def forward_with_lse(self, work, plan, mask_name, bits):
        """out and lse, of one call."""
        case = work.case
        out = poisoned(work)
        lse = torch.full((case.batch, case.heads, case.tokens), float("nan"), device=work.device)
        self.forward_call(work, plan, mask_name, bits, out, lse)()
        return out, lse

    def build_call(self, work, mask_name, bits):
        case, x = work.case, work.rule_inputs(mask_name)
        plan = self.library.plan_build_mask(self.problem(case), abi.BF16, self.device)
        of_rule = self.rule(x)
        args = abi.BuildMaskArgs(q=abi.tensor(x.q), k=abi.tensor(x.k), rule=of_rule, mask=abi.mask(bits))
        return Call(self.library.build_mask, plan, args, (x, bits, of_rule))

    @staticmethod
    def rule(inputs):
        return abi.MaskRule(top_k=RULE_TOP_K, top_p=1.0 - inputs.tail, min_blocks=1)

    def empty_bits(self, work):
        case = work.case
        words = self.library.mask_words(self.problem(case))
        bits = torch.empty((case.batch, case.heads, case.q_blocks, -(-case.kv_blocks // 32)), dtype=torch.int32,
                           device=work.device)
        if bits.numel() != words:
            raise RuntimeError(f"mask_words says {words}, the format says {bits.numel()}")
        return bits

    # ---- Items ----

    def forward_item(self, work, who, plan, mask_name):
        out, bits = poisoned(work), masks.pack_bits(work.keep(mask_name))
        call = self.forward_call(work, plan, mask_name, bits, out)

        def judge(result):
            """Without lse, as it is timed, and once more with it."""
            truth = work.forward_check(mask_name)
            out_beside_lse, lse = self.forward_with_lse(work, plan, mask_name, bits)
            return verdict.all_of(truth(result), verdict.named("with lse", truth(out_beside_lse)),
                                  verdict.named("lse", truth.lse(lse)))

        return Item(work.case, "forward", who, returning(call, out), judge, own_bytes=plan.workspace_bytes,
                    kernel=self.kernel_name(plan.kernel),
                    **{**work.fields(mask_name), "output_bytes": 0})

    def backward_item(self, work, who, plan, mask_name):
        """On out and lse of one forward beforehand, both checked."""
        q, k, v = work.qkv(mask_name)
        bits = masks.pack_bits(work.keep(mask_name))
        forward_plan = self.library.plan_forward(self.problem(work.case), abi.BF16, self.device)
        out, lse = self.forward_with_lse(work, forward_plan, mask_name, bits)
        gradients = tuple(poisoned(work) for _ in range(3))
        views = {name: abi.tensor(x) for name, x in zip(("grad_q", "grad_k", "grad_v"), gradients)}
        args = abi.BackwardArgs(q=abi.tensor(q), k=abi.tensor(k), v=abi.tensor(v), out=abi.tensor(out),
                                grad_out=abi.tensor(work.grad_out), lse=lse.data_ptr(), mask=abi.mask(bits), **views)
        call = Call(self.library.backward, plan, args, (q, k, v, out, work.grad_out, lse, bits, gradients))

        def judge(result):
            truth = work.forward_check(mask_name)
            return verdict.all_of(work.gradient_check(mask_name)(result), verdict.named("out", truth(out)),
                                  verdict.named("lse", truth.lse(lse)))

        fields = {**work.fields(mask_name, operation="backward"), "output_bytes": 0}
        return Item(work.case, "backward", who, returning(call, gradients), judge, own_bytes=plan.workspace_bytes,
                    kernel=" + ".join(self.backward_kernel_names(plan)), **fields)

    def pool_item(self, work):
        case = work.case
        q, k, _ = work.clustered
        pooled = tuple(torch.full((case.batch, case.heads, blocks, case.head_dim), float("nan"),
                                  device=work.device)
                       for blocks in (case.q_blocks, case.kv_blocks))
        plan = self.library.plan_pool(self.problem(case), abi.BF16, self.device)
        args = abi.PoolArgs(q=abi.tensor(q), k=abi.tensor(k), pooled_q=pooled[0].data_ptr(), pooled_k=pooled[1].data_ptr())
        call = Call(self.library.pool, plan, args, (q, k, pooled))
        moved = 2.0 * case.tensor_bytes + sum(x.nbytes for x in pooled)
        return Item(case, "pool", "sparge", returning(call, pooled), check.PoolCheck(case, q, k), q_block=case.q_block,
                    kv_block=case.kv_block, moved_bytes=moved, own_bytes=plan.workspace_bytes)

    def select_item(self, work, mask_name):
        """The mask from pooled vectors, which are made once."""
        case, x = work.case, work.rule_inputs(mask_name)
        pooled = tuple(rule.pool(tensor, block) for tensor, block in ((x.q, case.q_block), (x.k, case.kv_block)))
        bits = self.empty_bits(work)
        plan = self.library.plan_select_blocks(self.problem(case), self.device)
        of_rule = self.rule(x)
        args = abi.SelectBlocksArgs(pooled_q=pooled[0].data_ptr(), pooled_k=pooled[1].data_ptr(), rule=of_rule,
                                    mask=abi.mask(bits))
        call = Call(self.library.select_blocks, plan, args, (pooled, bits, of_rule))
        call()
        fields = work.fields(mask_name, masks.unpack_bits(bits, case.kv_blocks))
        fields.update(flop=0.0, output_bytes=0)
        return Item(case, "select", "sparge", returning(call, bits),
                    lambda result: work.mask_check(mask_name)(masks.unpack_bits(result, case.kv_blocks)),
                    moved_bytes=bits.nbytes + sum(x.nbytes for x in pooled), own_bytes=plan.workspace_bytes, **fields)

    def mask_item(self, work, mask_name):
        case = work.case
        bits = self.empty_bits(work)
        call = self.build_call(work, mask_name, bits)
        call()
        fields = work.fields(mask_name, masks.unpack_bits(bits, case.kv_blocks))
        fields.update(flop=0.0, output_bytes=0)
        return Item(case, "mask", "sparge", returning(call, bits),
                    lambda result: work.mask_check(mask_name)(masks.unpack_bits(result, case.kv_blocks)),
                    moved_bytes=2.0 * case.tensor_bytes + bits.nbytes, own_bytes=call.plan.workspace_bytes, **fields)

    def mask_forward_item(self, work, who, plan, mask_name):
        case = work.case
        bits, out = self.empty_bits(work), poisoned(work)
        build, attend = self.build_call(work, mask_name, bits), self.forward_call(work, plan, mask_name, bits, out)

        def run():
            build()
            attend()
            return out, bits

        def judge(result):
            return work.mask_then_forward_check(mask_name, result[0], masks.unpack_bits(result[1], case.kv_blocks))

        build()
        fields = {**work.fields(mask_name, masks.unpack_bits(bits, case.kv_blocks)), "output_bytes": 0}
        own = build.plan.workspace_bytes + plan.workspace_bytes + bits.nbytes
        return Item(case, "mask_forward", who, run, judge, own_bytes=own, kernel=self.kernel_name(plan.kernel), **fields)

    def items(self, work, mask_names, wanted, absent):
        if wanted("pool", "sparge"):
            yield self.pool_item(work)
        for mask_name in rule_masks(mask_names):
            if wanted("select", "sparge"):
                yield self.select_item(work, mask_name)
            if wanted("mask", "sparge"):
                yield self.mask_item(work, mask_name)
        forward_plans = self.forward_plans(work.case) if wanted("forward") or wanted("mask_forward") else {}
        backward_plans = self.backward_plans(work.case) if wanted("backward") else {}
        for op, plans in (("forward", forward_plans), ("backward", backward_plans)):
            if wanted(op, "sparge") and "sparge" not in plans and not wanted(op, "sparge_portable"):
                absent("sparge", f"{work.case.name}, {op}: the library's own choice is sparge_portable, which was not asked for")
        for who, plan in forward_plans.items():
            for mask_name in rule_masks(mask_names):
                if wanted("mask_forward", who):
                    yield self.mask_forward_item(work, who, plan, mask_name)
            for mask_name in mask_names:
                if wanted("forward", who):
                    yield self.forward_item(work, who, plan, mask_name)
        for who, plan in backward_plans.items():
            for mask_name in mask_names:
                if wanted("backward", who):
                    yield self.backward_item(work, who, plan, mask_name)


def poisoned(work):
    """An output of NaN, so that what a kernel leaves unwritten fails the check."""
    case = work.case
    return torch.full((case.batch, case.heads, case.tokens, case.head_dim), float("nan"), device=work.device,
                      dtype=torch.bfloat16)


def returning(call, result):
    def run():
        call()
        return result
    return run
