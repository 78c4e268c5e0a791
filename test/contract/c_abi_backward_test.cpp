// Backward through the C ABI: the plans, the kernels, the refusals and the bits of sparge.hpp.

#include <string>
#include <vector>

#include "c_api/plan_bytes.hpp"
#include "contract/c_arguments.hpp"
#include "support/gradient_case.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

AttentionProblem some_problem() { return {2, 4, 2, 300, 2100, 64}; }

template <class T>
sparge_plan c_backward_plan(AttentionProblem const& p, Device const& device,
                            sparge_options const* options = nullptr) {
  auto const problem = c_problem(p);
  auto const gpu = c_device(device);
  auto plan = sized<sparge_plan>();
  auto status = sized<sparge_status>();
  check_c_ok(sparge_plan_backward(&problem, c_dtype<T>(), &gpu, options, &plan, &status), status);
  return plan;
}

template <class T>
void check_plan_is_that_of_cpp(AttentionProblem const& p) {
  BackwardPlan<T> wanted;
  must(plan_backward(p, big_device(), {}, &wanted));
  sparge_plan const plan = c_backward_plan<T>(p, big_device());
  CHECK(plan.dtype == c_dtype<T>());
  CHECK(plan.kernel == wanted.dkdv_kernel);
  CHECK(plan.dq_kernel == wanted.dq_kernel);
  CHECK(plan.workspace_bytes == wanted.workspace_bytes);
  auto const inside = c_api::load<BackwardPlan<T>>(&plan);
  CHECK(inside.problem == wanted.problem);
  CHECK(inside.dkdv_kernel == wanted.dkdv_kernel);
  CHECK(inside.dq_kernel == wanted.dq_kernel);
  CHECK(inside.workspace_bytes == wanted.workspace_bytes);
}

template <class T>
void check_backward_is_bit_equal(AttentionProblem const& p, bool with_grad_lse) {
  GradientCase test_case{{p}, 1, with_grad_lse};
  test_case.forward.q_layout = Layout::bnhd;
  GradientChoices choices;
  choices.grad_kv_layout = Layout::bnhd;
  GradientRun<T> run(make_gradient_inputs<T>(test_case), choices);
  Stream const stream;
  must(run.run(stream));
  stream.wait();
  GradientOutput<T> const through_cpp = run.download();
  CHECK_FALSE(run.outputs_untouched());
  run.poison_outputs();

  sparge_plan const plan = c_backward_plan<T>(p, test_device());
  sparge_backward_args const args = c_backward_args(run.args());
  auto status = sized<sparge_status>();
  Workspace const workspace = run.workspace();
  check_c_ok(sparge_backward(&plan, &args, workspace.data, workspace.bytes, stream, &status), status);
  stream.wait();
  CHECK(run.download() == through_cpp);
}

}  // namespace

TEST_CASE("C plans of backward are those of C++") {
  check_plan_is_that_of_cpp<bfloat16>(some_problem());
  check_plan_is_that_of_cpp<float16>({1, 3, 1, 129, 515, 128});
}

TEST_CASE("The backward kernels of C are those of C++") {
  REQUIRE(sparge_supported_backward_kernels() == supported_backward_kernels());
  REQUIRE(supported_backward_kernels() > 0);
  auto status = sized<sparge_status>();
  for (std::int32_t index = 0; index < supported_backward_kernels(); ++index) {
    CAPTURE(index);
    auto kernel = sized<sparge_kernel>();
    KernelInfo info{};
    if (!supported_backward_kernel(index, &info)) {
      check_c_refused(sparge_supported_backward_kernel(index, &kernel, &status), status, SPARGE_UNSUPPORTED,
                      "index", index);
      continue;
    }
    check_c_ok(sparge_supported_backward_kernel(index, &kernel, &status), status);
    CHECK(std::string(kernel.name) == info.name);
    CHECK(kernel.dtype == c_api::as_c(info.dtype));
    CHECK((kernel.head_dim == info.head_dim && kernel.q_tile == info.q_tile));
    CHECK(kernel.kv_tile == info.kv_tile);
  }
  auto kernel = sized<sparge_kernel>();
  check_c_refused(sparge_supported_backward_kernel(-1, &kernel, &status), status, SPARGE_INVALID_ARGUMENT,
                  "index", -1, supported_backward_kernels());
  kernel.struct_size = 8;
  check_c_refused(sparge_supported_backward_kernel(0, &kernel, &status), status, SPARGE_INVALID_ARGUMENT,
                  "kernel.struct_size", 8, 32);
}

TEST_CASE("A C caller forces the kernel of one pass of backward and leaves the other") {
  auto const chosen = c_backward_plan<bfloat16>(some_problem(), big_device());
  auto options = sized<sparge_options>();
  options.has_force_kernel = 1;
  int forced_dkdv = 0, forced_dq = 0;
  for (std::int32_t index : backward_kernels_for<bfloat16>(some_problem(), big_device())) {
    CAPTURE(index);
    options.force_kernel = index;
    auto const plan = c_backward_plan<bfloat16>(some_problem(), big_device(), &options);
    CHECK(((plan.kernel == index && plan.dq_kernel == chosen.dq_kernel) ||
           (plan.kernel == chosen.kernel && plan.dq_kernel == index)));
    forced_dkdv += plan.kernel == index, forced_dq += plan.dq_kernel == index;
  }
  CHECK((forced_dkdv > 0 && forced_dq > 0));

  auto const problem = c_problem(some_problem());
  auto const device = c_device(big_device());
  auto plan = sized<sparge_plan>();
  auto status = sized<sparge_status>();
  options.force_kernel = supported_backward_kernels();
  check_c_refused(sparge_plan_backward(&problem, SPARGE_BF16, &device, &options, &plan, &status), status,
                  SPARGE_INVALID_ARGUMENT, "options.force_kernel", supported_backward_kernels(),
                  supported_backward_kernels());
}

TEST_CASE("Each argument of sparge_backward is refused by its own name") {
  using Backward = CArguments<sparge_backward_args>;
  check_each_member<sparge_backward_args>(
      lay_out_backward<bfloat16>, sparge_backward,
      {{"q.data", [](Backward& c) { c.args.q.data = nullptr; }},
       {"k.data", [](Backward& c) { c.args.k.data = nullptr; }},
       {"v.data", [](Backward& c) { c.args.v.data = nullptr; }},
       {"out.data", [](Backward& c) { c.args.out.data = nullptr; }},
       {"grad_out.data", [](Backward& c) { c.args.grad_out.data = nullptr; }},
       {"lse", [](Backward& c) { c.args.lse = nullptr; }},
       {"grad_lse", [](Backward& c) { c.args.grad_lse += 1; }},
       {"mask.data", [](Backward& c) { c.args.mask.data = nullptr; }},
       {"mask.words", [](Backward& c) { c.args.mask.words -= 1; }},
       {"grad_q.data", [](Backward& c) { c.args.grad_q.data = nullptr; }},
       {"grad_k.data", [](Backward& c) { c.args.grad_k.data = nullptr; }},
       {"grad_v.data", [](Backward& c) { c.args.grad_v.data = nullptr; }},
       {"q.stride", [](Backward& c) { c.args.q.stride[3] = 2; }},
       {"grad_v.shape", [](Backward& c) { c.args.grad_v.shape[2] -= 1; }},
       {"q.dtype", [](Backward& c) { c.args.q.dtype = SPARGE_F16; }},
       {"k.dtype", [](Backward& c) { c.args.k.dtype = SPARGE_F16; }},
       {"v.dtype", [](Backward& c) { c.args.v.dtype = SPARGE_F16; }},
       {"out.dtype", [](Backward& c) { c.args.out.dtype = SPARGE_F16; }},
       {"grad_out.dtype", [](Backward& c) { c.args.grad_out.dtype = SPARGE_F16; }},
       {"grad_q.dtype", [](Backward& c) { c.args.grad_q.dtype = SPARGE_F16; }},
       {"grad_k.dtype", [](Backward& c) { c.args.grad_k.dtype = SPARGE_F16; }},
       {"grad_v.dtype", [](Backward& c) { c.args.grad_v.dtype = 0; }},
       {"grad_out.reserved", [](Backward& c) { c.args.grad_out.reserved = 1; }},
       {"grad_q.reserved", [](Backward& c) { c.args.grad_q.reserved = 1; }},
       {"grad_k.reserved", [](Backward& c) { c.args.grad_k.reserved = 1; }},
       {"grad_v.reserved", [](Backward& c) { c.args.grad_v.reserved = 1; }},
       {"args.struct_size", [](Backward& c) { c.args.struct_size -= 80; }},
       {"workspace.bytes", [](Backward& c) { c.workspace.bytes -= 1; }},
       {"workspace.data", [](Backward& c) { c.workspace.data = nullptr; }}});
}

TEST_CASE("Backward through the C ABI is bit-equal to C++", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_backward_is_bit_equal<bfloat16>(some_problem(), true);
  check_backward_is_bit_equal<float16>({1, 3, 1, 129, 515, 128}, false);
}
