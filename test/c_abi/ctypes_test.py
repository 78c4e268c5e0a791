"""ctypes_test.py LIBRARY LAYOUT: sparge_ctypes.py against the built library; LAYOUT prints the structs as C has them."""

import ctypes
import subprocess
import sys
import unittest

import sparge_ctypes
from sparge_ctypes import (BF16, F16, F32, INVALID_ARGUMENT, PLAN_MISMATCH, UNSUPPORTED, BackwardArgs, CalibrateArgs,
                           Device, DistillationLossArgs, DistillationProblem, Error, ForwardArgs, InterpolateArgs,
                           Library, Mask, MaskRule, MergePartialsArgs, Options, Partial, Problem, SliceMaskArgs, Tensor)

LIBRARY, LAYOUT = sys.argv[1:3]

# What Python calls differently.
RENAMED = {"MaskStats": "sparge_mask_stats_record", "Calibration": "sparge_calibration_record"}


def c_name(python_name):
    snake = "".join("_" + letter.lower() if letter.isupper() else letter for letter in python_name)
    return RENAMED.get(python_name, "sparge" + snake)


def python_layout():
    lines = []
    for name, struct in vars(sparge_ctypes).items():
        if not isinstance(struct, type) or not issubclass(struct, sparge_ctypes.Struct) or not hasattr(struct, "_fields_"):
            continue
        lines.append(f"{c_name(name)} {ctypes.sizeof(struct)}")
        for member, *_ in struct._fields_:
            field = getattr(struct, member)
            lines.append(f"{c_name(name)}.{member} {field.offset} {field.size}")
    return lines


def some_problem(**changes):
    return Problem(**{"batch": 2, "heads": 4, "kv_heads": 2, "q_tokens": 300, "kv_tokens": 2100, "head_dim": 64, **changes})


def some_device():
    return Device(capability_major=9, sm_count=132, shared_bytes_per_block=232448, shared_bytes_per_sm=233472,
                  l2_bytes=62914560)


class CtypesTest(unittest.TestCase):
    def setUp(self):
        self.sparge = Library(LIBRARY)

    def refused(self, code, field, call, *arguments):
        with self.assertRaises(Error) as caught:
            call(*arguments)
        self.assertEqual((caught.exception.code, caught.exception.field), (code, field))
        return str(caught.exception)

    def test_structs_are_laid_out_as_in_c(self):
        c_layout = subprocess.run([LAYOUT], check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertEqual(sorted(python_layout()), sorted(c_layout))

    def test_every_struct_sets_its_size(self):
        self.assertEqual(some_problem().struct_size, 88)
        self.assertEqual(ForwardArgs().struct_size, 352)
        self.assertEqual(BackwardArgs().struct_size, 680)
        with self.assertRaises(TypeError):
            Problem(head_dims=64)

    def test_every_declared_function_has_a_method(self):
        symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True)
        for symbol in (line.split()[-1] for line in symbols.stdout.splitlines()):
            self.assertTrue(hasattr(Library, symbol.removeprefix("sparge_")), symbol)

    def test_plans_need_no_gpu(self):
        problem, device = some_problem(), some_device()
        plan = self.sparge.plan_forward(problem, BF16, device)
        kernel = self.sparge.supported_kernel(plan.kernel)
        self.assertRegex(kernel.name.decode(), r"^sm\d+a? bf16 d64 ")
        self.assertEqual(plan.dtype, BF16)
        self.assertGreater(self.sparge.plan_build_mask(problem, F16, device).workspace_bytes, 0)
        self.assertGreater(self.sparge.plan_select_blocks(problem, device).workspace_bytes, 0)
        self.assertGreater(self.sparge.plan_mask_stats(problem, device).workspace_bytes, 0)
        self.assertEqual(self.sparge.plan_mask_form(problem, device).workspace_bytes, 0)
        self.assertEqual(self.sparge.plan_pool(problem, BF16, device).kernel, -1)
        forced = Options(has_force_kernel=1, force_kernel=plan.kernel)
        self.assertEqual(self.sparge.plan_forward(problem, BF16, device, forced).kernel, plan.kernel)

    def test_backward_plans_need_no_gpu(self):
        problem, device = some_problem(), some_device()
        plan = self.sparge.plan_backward(problem, F16, device)
        names = [self.sparge.supported_backward_kernel(index).name.decode() for index in (plan.kernel, plan.dq_kernel)]
        self.assertRegex(names[0], r"^dkdv sm\d+a? f16 d64 ")
        self.assertRegex(names[1], r"^dq sm\d+a? f16 d64 ")
        self.assertGreater(plan.workspace_bytes, 8 * 2 * 4 * 300)
        self.assertLess(plan.workspace_bytes, 8 * 2 * 4 * 512 + (64 << 20))  # lse and delta of rows, and pieces of long lines
        forced = Options(has_force_kernel=1, force_kernel=plan.dq_kernel)
        again = self.sparge.plan_backward(problem, F16, device, forced)
        self.assertEqual((again.kernel, again.dq_kernel), (plan.kernel, plan.dq_kernel))
        self.assertEqual(self.sparge.plan_forward(problem, F16, device).dq_kernel, -1)

    def test_distillation_plans_need_no_gpu(self):
        problem, device = DistillationProblem(samples=3, sample_elements=100003), some_device()
        for dtype in (BF16, F16, F32):
            self.assertGreater(self.sparge.plan_distillation_loss(problem, dtype, device).workspace_bytes, 0)
            plan = self.sparge.plan_interpolate(problem, dtype, device)
            self.assertEqual((plan.workspace_bytes, plan.dtype, plan.kernel), (0, dtype, -1))
        negative = DistillationProblem(samples=-1)
        self.refused(INVALID_ARGUMENT, "problem.samples", self.sparge.plan_interpolate, negative, F32, device)

    def test_merging_plans_and_arguments_need_no_gpu(self):
        problem, device = some_problem(), some_device()
        for dtype in (BF16, F16, F32):
            plan = self.sparge.plan_merge_partials(problem, dtype, device)
            self.assertEqual((plan.workspace_bytes, plan.dtype, plan.kernel), (0, dtype, -1))
        args = MergePartialsArgs(count=2)
        self.refused(INVALID_ARGUMENT, "partials", self.sparge.merge_partials, plan, args, None)
        parts = (Partial * 2)(Partial(out=Tensor(dtype=F32)), Partial(out=Tensor(dtype=F32)))
        args = MergePartialsArgs(partials=parts, count=2)
        self.refused(PLAN_MISMATCH, "partials[0].out.shape", self.sparge.merge_partials, plan, args, None)
        parts[1].out.dtype = BF16
        self.refused(PLAN_MISMATCH, "partials.out.dtype", self.sparge.merge_partials, plan, args, None)
        args.count = 17
        self.refused(INVALID_ARGUMENT, "count", self.sparge.merge_partials, plan, args, None)

    def test_masks_of_shards_are_checked_before_a_gpu_is_needed(self):
        problem, device = some_problem(q_offset=256, all_q_tokens=1000, q_tokens=256), some_device()
        plan = self.sparge.plan_mask_form(problem, device)
        args = SliceMaskArgs(mask=Mask(4096, 2 * 4 * 2 * 2), q_block_count=2, kv_first_block=1, kv_block_count=33)
        self.refused(INVALID_ARGUMENT, "kv.count", self.sparge.slice_mask, plan, args, None)
        self.refused(INVALID_ARGUMENT, "problem.q_offset", self.sparge.plan_mask_form, some_problem(q_offset=1), device)

    def test_calibration_is_planned_and_checked_before_a_gpu_is_needed(self):
        problem, device = some_problem(), some_device()
        plan = self.sparge.plan_calibrate(problem, device)
        self.assertGreaterEqual(plan.workspace_bytes, self.sparge.plan_select_blocks(problem, device).workspace_bytes)
        args = CalibrateArgs(pooled_q=4096, pooled_k=8192, rule=MaskRule(min_blocks=1), target=1.5, top_p_of_head=16384)
        self.refused(INVALID_ARGUMENT, "target.value", self.sparge.calibrate, plan, args, None, 0, None)
        args.target, args.goal = 0.9, 2
        self.refused(INVALID_ARGUMENT, "target.goal", self.sparge.calibrate, plan, args, None, 0, None)
        args.goal, args.top_p_of_head = 1, 0
        self.refused(INVALID_ARGUMENT, "top_p_of_head", self.sparge.calibrate, plan, args, None, 0, None)

    def test_plans_of_equal_inputs_are_equal_bytes(self):
        for make in (self.sparge.plan_forward, self.sparge.plan_backward, self.sparge.plan_build_mask):
            plans = [bytes(make(some_problem(q_tokens=tokens), BF16, some_device())) for tokens in (300, 300, 301)]
            self.assertEqual(plans[0], plans[1])
            self.assertNotEqual(plans[0], plans[2])

    def test_sizes_follow_from_shapes(self):
        problem = some_problem()
        self.assertEqual((problem.q_blocks, problem.kv_blocks), (3, 33))
        self.assertEqual(self.sparge.mask_words(problem), 2 * 4 * 3 * 2)
        self.assertEqual(self.sparge.transposed_mask_words(problem), 2 * 4 * 33 * 1)
        self.assertRegex(self.sparge.version, r"^\d+\.\d+\.\d+$")

    def test_refusals_say_what_would_work(self):
        device = some_device()
        text = self.refused(UNSUPPORTED, "problem.head_dim", self.sparge.plan_forward, some_problem(head_dim=96), BF16, device)
        for part in ("96", "64", "128"):
            self.assertIn(part, text)
        self.refused(INVALID_ARGUMENT, "problem.kv_heads", self.sparge.plan_pool, some_problem(kv_heads=3), BF16, device)
        self.refused(UNSUPPORTED, "dtype", self.sparge.plan_forward, some_problem(), 9, device)
        for plan in (self.sparge.plan_forward, self.sparge.plan_backward, self.sparge.plan_pool):
            self.assertIn("SPARGE_F32", self.refused(UNSUPPORTED, "dtype", plan, some_problem(), F32, device))
        self.refused(INVALID_ARGUMENT, "index", self.sparge.supported_kernel, 1000)
        self.refused(INVALID_ARGUMENT, "index", self.sparge.supported_backward_kernel, -1)

    def test_a_plan_of_another_call_is_refused(self):
        plan = self.sparge.plan_pool(some_problem(), BF16, some_device())
        text = self.refused(PLAN_MISMATCH, "plan.operation", self.sparge.forward, plan, ForwardArgs(), None, 0, None)
        self.assertIn("sparge_plan_forward()", text)
        forward = self.sparge.plan_forward(some_problem(), BF16, some_device())
        text = self.refused(PLAN_MISMATCH, "plan.operation", self.sparge.backward, forward, BackwardArgs(), None, 0, None)
        self.assertIn("sparge_plan_backward()", text)
        text = self.refused(PLAN_MISMATCH, "plan.operation", self.sparge.interpolate, forward, InterpolateArgs(), None)
        self.assertIn("sparge_plan_interpolate()", text)

    def test_arguments_are_checked_before_a_gpu_is_needed(self):
        plan = self.sparge.plan_forward(some_problem(), BF16, some_device())
        args = ForwardArgs(q=Tensor(dtype=F16))
        self.refused(PLAN_MISMATCH, "q.dtype", self.sparge.forward, plan, args, None, 0, None)
        args.q.dtype = BF16
        for other in (args.k, args.v, args.out):
            other.dtype = BF16
        self.refused(PLAN_MISMATCH, "q.shape", self.sparge.forward, plan, args, None, 0, None)
        plan = self.sparge.plan_backward(some_problem(), BF16, some_device())
        args = BackwardArgs(**{name: Tensor(dtype=BF16) for name in ("q", "k", "v", "out", "grad_out", "grad_q", "grad_k")})
        self.refused(PLAN_MISMATCH, "grad_v.dtype", self.sparge.backward, plan, args, None, 0, None)
        samples = DistillationProblem(samples=2, sample_elements=64)
        plan = self.sparge.plan_distillation_loss(samples, F32, some_device())
        loss = DistillationLossArgs(dtype=BF16)
        self.refused(PLAN_MISMATCH, "args.dtype", self.sparge.distillation_loss, plan, loss, None, 0, None)
        loss.dtype = F32
        self.refused(INVALID_ARGUMENT, "student", self.sparge.distillation_loss, plan, loss, None, 0, None)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
