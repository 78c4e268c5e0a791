// The C ABI makes the calls of sparge.hpp: the same plans, the same refusals, the same bits.

#include <vector>

#include "contract/c_structs.hpp"
#include "contract/fake_device.hpp"
#include "support/attention_case.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

AttentionProblem some_problem() { return {2, 4, 2, 300, 2100, 64}; }

/// Every way to make a plan, so that what holds for all is stated once.
struct CPlanCall {
  char const* name;
  sparge_code (*make)(sparge_problem const*, sparge_device const*, sparge_options const*, sparge_plan*,
                      sparge_status*);
};

std::vector<CPlanCall> every_attention_plan_call() {
  return {{"pool", with_bf16<sparge_plan_pool>},
          {"select_blocks", sparge_plan_select_blocks},
          {"build_mask", with_bf16<sparge_plan_build_mask>},
          {"mask_stats", sparge_plan_mask_stats},
          {"calibrate", sparge_plan_calibrate},
          {"mask_form", sparge_plan_mask_form},
          {"forward", with_bf16<sparge_plan_forward>},
          {"backward", with_bf16<sparge_plan_backward>},
          {"merge_partials", with_bf16<sparge_plan_merge_partials>}};
}

/// A plan call of distillation as one of attention, on a problem of its own.
template <sparge_code (*make)(sparge_distillation_problem const*, sparge_dtype, sparge_device const*,
                              sparge_options const*, sparge_plan*, sparge_status*)>
sparge_code on_samples(sparge_problem const*, sparge_device const* device, sparge_options const* options,
                       sparge_plan* plan, sparge_status* status) {
  sparge_distillation_problem const problem{sizeof problem, 3, 1000};
  return make(&problem, SPARGE_F32, device, options, plan, status);
}

std::vector<CPlanCall> every_c_plan_call() {
  std::vector<CPlanCall> calls = every_attention_plan_call();
  calls.push_back({"distillation_loss", on_samples<sparge_plan_distillation_loss>});
  calls.push_back({"interpolate", on_samples<sparge_plan_interpolate>});
  return calls;
}

/// Every call that takes a plan, on arguments that are refused later than the plan is.
struct CCall {
  char const *name, *plan;
  sparge_code (*run)(sparge_plan const*, sparge_status*);
};

template <class Args, sparge_code (*call)(sparge_plan const*, Args const*, void*, std::size_t, sparge_stream,
                                          sparge_status*)>
sparge_code on_nothing(sparge_plan const* plan, sparge_status* status) {
  return call(plan, nullptr, nullptr, 0, nullptr, status);
}

template <class Args, sparge_code (*call)(sparge_plan const*, Args const*, sparge_stream, sparge_status*)>
sparge_code without_workspace_on_nothing(sparge_plan const* plan, sparge_status* status) {
  return call(plan, nullptr, nullptr, status);
}

std::vector<CCall> every_c_call() {
  return {
      {"pool", "pool", on_nothing<sparge_pool_args, sparge_pool>},
      {"select_blocks", "select_blocks", on_nothing<sparge_select_blocks_args, sparge_select_blocks>},
      {"build_mask", "build_mask", on_nothing<sparge_build_mask_args, sparge_build_mask>},
      {"mask_stats", "mask_stats", on_nothing<sparge_mask_stats_args, sparge_mask_stats>},
      {"calibrate", "calibrate", on_nothing<sparge_calibrate_args, sparge_calibrate>},
      {"transpose_mask", "mask_form",
       without_workspace_on_nothing<sparge_transpose_mask_args, sparge_transpose_mask>},
      {"slice_mask", "mask_form", without_workspace_on_nothing<sparge_slice_mask_args, sparge_slice_mask>},
      {"mask_to_bytes", "mask_form",
       without_workspace_on_nothing<sparge_byte_mask_args, sparge_mask_to_bytes>},
      {"mask_from_bytes", "mask_form",
       without_workspace_on_nothing<sparge_byte_mask_args, sparge_mask_from_bytes>},
      {"mask_to_lists", "mask_form",
       without_workspace_on_nothing<sparge_block_lists_args, sparge_mask_to_lists>},
      {"mask_from_lists", "mask_form",
       without_workspace_on_nothing<sparge_block_lists_args, sparge_mask_from_lists>},
      {"forward", "forward", on_nothing<sparge_forward_args, sparge_forward>},
      {"backward", "backward", on_nothing<sparge_backward_args, sparge_backward>},
      {"merge_partials", "merge_partials",
       without_workspace_on_nothing<sparge_merge_partials_args, sparge_merge_partials>},
      {"distillation_loss", "distillation_loss",
       on_nothing<sparge_distillation_loss_args, sparge_distillation_loss>},
      {"interpolate", "interpolate",
       without_workspace_on_nothing<sparge_interpolate_args, sparge_interpolate>}};
}

/// Plans for the current device, or for one that is not here.
template <class T>
sparge_plan c_forward_plan(AttentionProblem const& p, Device const& device) {
  auto const problem = c_problem(p);
  auto const gpu = c_device(device);
  auto plan = sized<sparge_plan>();
  auto status = sized<sparge_status>();
  check_c_ok(sparge_plan_forward(&problem, c_dtype<T>(), &gpu, nullptr, &plan, &status), status);
  return plan;
}

/// Arguments at imagined addresses, right in everything else.
sparge_forward_args imagined_forward_args(AttentionProblem const& p) {
  Carver memory = imagined_memory();
  auto const tensor = [&](std::int64_t heads, std::int64_t tokens) {
    auto* const data = memory.take<bfloat16>(p.batch * heads * tokens * p.head_dim);
    return c_tensor(contiguous_bhnd(data, p.batch, heads, tokens, p.head_dim));
  };
  auto args = sized<sparge_forward_args>();
  args.q = tensor(p.heads, p.q_tokens), args.out = tensor(p.heads, p.q_tokens);
  args.k = tensor(p.kv_heads, p.kv_tokens), args.v = tensor(p.kv_heads, p.kv_tokens);
  must(mask_words(p, &args.mask.words));
  args.mask.data = memory.take<std::uint32_t>(static_cast<std::int64_t>(args.mask.words));
  return args;
}

template <class T>
void check_forward_is_bit_equal(AttentionProblem const& p) {
  ForwardCase test_case{p};
  test_case.q_layout = Layout::bnhd;
  ForwardInputs<T> const inputs = make_inputs<T>(test_case);
  ForwardRun<T> run(inputs);
  Stream const stream;
  must(run.run(stream));
  ForwardOutput<T> const through_cpp = run.download();
  run.poison_outputs();

  auto plan = c_forward_plan<T>(p, test_device());
  CHECK(plan.kernel == run.plan().kernel);
  CHECK(plan.workspace_bytes == run.plan().workspace_bytes);
  ForwardArgs<T> const from = run.args();
  auto args = sized<sparge_forward_args>();
  args.q = c_tensor(from.q), args.k = c_tensor(from.k), args.v = c_tensor(from.v);
  args.mask = c_mask(from.mask);
  args.out = c_tensor(from.out), args.lse = from.lse;
  auto status = sized<sparge_status>();
  Workspace const workspace = run.workspace();
  check_c_ok(sparge_forward(&plan, &args, workspace.data, workspace.bytes, stream, &status), status);
  stream.wait();
  CHECK(run.download() == through_cpp);
}

template <class T>
void check_build_mask_is_bit_equal(AttentionProblem const& p) {
  Random random(7);
  HostTensor<T> host_q(q_shape(p)), host_k(kv_shape(p));
  fill_clustered(host_q, host_k, random);
  DeviceTensor<T> const q(host_q), k(host_k);
  std::size_t words = 0;
  must(mask_words(p, &words));
  DeviceBuffer<std::uint32_t> through_cpp(static_cast<std::int64_t>(words)),
      through_c(static_cast<std::int64_t>(words));
  MaskRule rule;
  rule.top_k = 0.1, rule.top_p = 0.3, rule.keep.band_tokens = 70, rule.keep.kv_back_tokens = 5;

  BuildMaskPlan<T> plan;
  must(plan_build_mask(p, test_device(), {}, &plan));
  ScratchBuffer const scratch(plan.workspace_bytes);
  Workspace const workspace = scratch.workspace();
  Stream const stream;
  must(build_mask(plan, {q.view(), k.view(), rule, {through_cpp.data(), words}}, workspace, stream));

  auto const problem = c_problem(p);
  auto const device = c_device(test_device());
  auto const c_keep = c_rule(rule);
  auto c_plan = sized<sparge_plan>();
  auto status = sized<sparge_status>();
  check_c_ok(sparge_plan_build_mask(&problem, c_dtype<T>(), &device, nullptr, &c_plan, &status), status);
  CHECK(c_plan.workspace_bytes == plan.workspace_bytes);
  auto args = sized<sparge_build_mask_args>();
  args.q = c_tensor(q.view()), args.k = c_tensor(k.view());
  args.rule = &c_keep, args.mask = {through_c.data(), words};
  check_c_ok(sparge_build_mask(&c_plan, &args, workspace.data, workspace.bytes, stream, &status), status);
  stream.wait();
  CHECK(through_c.download() == through_cpp.download());
  CHECK_FALSE(through_c.is_untouched());
}

}  // namespace

TEST_CASE("C plans are those of C++") {
  ForwardPlan<bfloat16> plan;
  must(plan_forward(some_problem(), big_device(), {}, &plan));
  auto const c_plan = c_forward_plan<bfloat16>(some_problem(), big_device());
  CHECK(c_plan.kernel == plan.kernel);
  CHECK(c_plan.workspace_bytes == plan.workspace_bytes);
  CHECK(c_plan.dtype == SPARGE_BF16);
  CHECK(c_plan.dq_kernel == -1);

  auto kernel = sized<sparge_kernel>();
  auto status = sized<sparge_status>();
  check_c_ok(sparge_supported_kernel(c_plan.kernel, &kernel, &status), status);
  KernelInfo info{};
  must(supported_kernel(plan.kernel, &info));
  CHECK(std::string(kernel.name) == info.name);
  CHECK(kernel.dtype == SPARGE_BF16);
  CHECK(kernel.head_dim == 64);
  CHECK(sparge_supported_kernels() == supported_kernels());
  check_c_refused(sparge_supported_kernel(-1, &kernel, &status), status, SPARGE_INVALID_ARGUMENT, "index", -1,
                  supported_kernels());
}

TEST_CASE("Zeros in a C problem mean the blocks and the scale that C++ defaults to") {
  auto problem = c_problem(some_problem());
  problem.q_block = problem.kv_block = 0;
  auto const device = c_device(big_device());
  auto const wanted = c_forward_plan<bfloat16>(some_problem(), big_device());
  auto plan = sized<sparge_plan>();
  REQUIRE(sparge_plan_forward(&problem, SPARGE_BF16, &device, nullptr, &plan, nullptr) == SPARGE_OK);
  CHECK(plan.kernel == wanted.kernel);
  CHECK(plan.workspace_bytes == wanted.workspace_bytes);
  std::size_t words = 0, wanted_words = 0;
  REQUIRE(sparge_transposed_mask_words(&problem, &words, nullptr) == SPARGE_OK);
  must(transposed_mask_words(some_problem(), &wanted_words));
  CHECK(words == wanted_words);
}

TEST_CASE("Every C plan call of attention refuses what C++ refuses and leaves the plan alone") {
  AttentionProblem p = some_problem();
  p.head_dim = 96;
  auto const problem = c_problem(p);
  auto const device = c_device(big_device());
  for (CPlanCall const& call : every_attention_plan_call()) {
    CAPTURE(call.name);
    auto plan = sized<sparge_plan>();
    plan.kernel = 77;
    auto status = sized<sparge_status>();
    check_c_refused(call.make(&problem, &device, nullptr, &plan, &status), status, SPARGE_UNSUPPORTED,
                    "problem.head_dim", 96);
    CHECK(std::string(status.text).find("64") != std::string::npos);
    CHECK(plan.kernel == 77);
    check_c_refused(call.make(&problem, &device, nullptr, nullptr, &status), status, SPARGE_INVALID_ARGUMENT,
                    "plan", 0);
    check_c_refused(call.make(nullptr, &device, nullptr, &plan, &status), status, SPARGE_INVALID_ARGUMENT,
                    "problem", 0);
    check_c_refused(call.make(&problem, nullptr, nullptr, &plan, &status), status, SPARGE_INVALID_ARGUMENT,
                    "device", 0);
  }
}

TEST_CASE("A dtype that the C ABI does not know is refused by its number") {
  auto const problem = c_problem(some_problem());
  auto const device = c_device(big_device());
  auto plan = sized<sparge_plan>();
  auto status = sized<sparge_status>();
  for (sparge_dtype dtype : {0, 4, -1, 1 << 20}) {
    CAPTURE(dtype);
    check_c_refused(sparge_plan_forward(&problem, dtype, &device, nullptr, &plan, &status), status,
                    SPARGE_UNSUPPORTED, "dtype", dtype);
    check_c_refused(sparge_plan_backward(&problem, dtype, &device, nullptr, &plan, &status), status,
                    SPARGE_UNSUPPORTED, "dtype", dtype);
    check_c_refused(sparge_plan_pool(&problem, dtype, &device, nullptr, &plan, &status), status,
                    SPARGE_UNSUPPORTED, "dtype", dtype);
    check_c_refused(sparge_plan_build_mask(&problem, dtype, &device, nullptr, &plan, &status), status,
                    SPARGE_UNSUPPORTED, "dtype", dtype);
  }
}

TEST_CASE("Every C call refuses the plan of another operation by the name of the right one") {
  auto const problem = c_problem(some_problem());
  auto const device = c_device(big_device());
  auto const operation_of = [&](std::string const& name) {
    auto plan = sized<sparge_plan>();
    for (CPlanCall const& call : every_c_plan_call())
      if (call.name == name) REQUIRE(call.make(&problem, &device, nullptr, &plan, nullptr) == SPARGE_OK);
    return plan.operation;
  };
  for (CPlanCall const& made : every_c_plan_call()) {
    auto plan = sized<sparge_plan>();
    REQUIRE(made.make(&problem, &device, nullptr, &plan, nullptr) == SPARGE_OK);
    for (CCall const& call : every_c_call()) {
      CAPTURE(made.name, call.name);
      auto status = sized<sparge_status>();
      sparge_code const code = call.run(&plan, &status);
      if (std::string(call.plan) == made.name) {
        check_c_refused(code, status, SPARGE_INVALID_ARGUMENT, "args", 0);
        continue;
      }
      check_c_refused(code, status, SPARGE_PLAN_MISMATCH, "plan.operation", plan.operation,
                      operation_of(call.plan));
      CHECK(std::string(status.text).find(std::string("sparge_plan_") + call.plan + "()") !=
            std::string::npos);
    }
  }
}

TEST_CASE("Every C call refuses a plan that no plan call made") {
  for (CCall const& call : every_c_call()) {
    CAPTURE(call.name);
    auto status = sized<sparge_status>();
    auto plan = sized<sparge_plan>();
    check_c_refused(call.run(nullptr, &status), status, SPARGE_INVALID_ARGUMENT, "plan", 0);
    check_c_refused(call.run(&plan, &status), status, SPARGE_INVALID_ARGUMENT, "plan", 0);
    plan.struct_size = 0;
    check_c_refused(call.run(&plan, &status), status, SPARGE_INVALID_ARGUMENT, "plan.struct_size", 0, 512);
  }
}

TEST_CASE("C arguments are refused as in C++ and by the element type") {
  auto const plan = c_forward_plan<bfloat16>(some_problem(), big_device());
  auto const good = imagined_forward_args(some_problem());
  auto status = sized<sparge_status>();
  auto const run = [&](sparge_forward_args const& args) {
    void* const scratch = reinterpret_cast<void*>(std::uintptr_t{1} << 40);
    return sparge_forward(&plan, &args, scratch, plan.workspace_bytes, nullptr, &status);
  };
  auto args = good;
  args.k.dtype = SPARGE_F16;
  check_c_refused(run(args), status, SPARGE_PLAN_MISMATCH, "k.dtype", SPARGE_F16, SPARGE_BF16);
  args = good, args.out.reserved = 1;
  check_c_refused(run(args), status, SPARGE_UNSUPPORTED, "out.reserved", 1);
  args = good, args.q.shape[2] = 299;
  check_c_refused(run(args), status, SPARGE_PLAN_MISMATCH, "q.shape", 299, 300);
  CHECK(status.axis == 2);
  args = good, args.mask.words -= 1;
  check_c_refused(run(args), status, SPARGE_PLAN_MISMATCH, "mask.words", 47, 48);
  args = good, args.out.data = args.q.data;
  check_c_refused(run(args), status, SPARGE_INVALID_ARGUMENT, "out.data", 0);
}

TEST_CASE("A C mask rule is refused as in C++ and may not be null") {
  auto const problem = c_problem(some_problem());
  auto const device = c_device(big_device());
  auto plan = sized<sparge_plan>();
  auto status = sized<sparge_status>();
  REQUIRE(sparge_plan_select_blocks(&problem, &device, nullptr, &plan, &status) == SPARGE_OK);
  Carver memory = imagined_memory();
  auto args = sized<sparge_select_blocks_args>();
  args.pooled_q = memory.take<float>(2 * 4 * 3 * 64), args.pooled_k = memory.take<float>(2 * 2 * 33 * 64);
  args.mask = {memory.take<std::uint32_t>(48), 48};
  auto* const workspace = memory.take<unsigned char>(static_cast<std::int64_t>(plan.workspace_bytes));
  auto const run = [&] {
    return sparge_select_blocks(&plan, &args, workspace, plan.workspace_bytes, nullptr, &status);
  };
  check_c_refused(run(), status, SPARGE_INVALID_ARGUMENT, "rule", 0);
  auto rule = sized<sparge_mask_rule>();
  args.rule = &rule;
  rule.top_p = 1.5;
  check_c_refused(run(), status, SPARGE_INVALID_ARGUMENT, "rule.top_p", 0);
  CHECK(std::string(status.text).find("1.5") != std::string::npos);
  rule.top_p = 0.2, rule.band_tokens = 64;
  check_c_refused(run(), status, SPARGE_INVALID_ARGUMENT, "rule.band_tokens", 64);
  rule.has_band = 1, rule.band_tokens = -64;
  check_c_refused(run(), status, SPARGE_INVALID_ARGUMENT, "rule.band_tokens", -64);
  rule.band_tokens = 64, rule.struct_size = 8;
  check_c_refused(run(), status, SPARGE_INVALID_ARGUMENT, "rule.struct_size", 8, 88);
}

TEST_CASE("Forward through the C ABI is bit-equal to C++", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_forward_is_bit_equal<bfloat16>(some_problem());
  check_forward_is_bit_equal<float16>({1, 3, 1, 129, 515, 128});
}

TEST_CASE("Mask building through the C ABI is bit-equal to C++", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_build_mask_is_bit_equal<bfloat16>(some_problem());
  check_build_mask_is_bit_equal<float16>({1, 3, 1, 129, 515, 128});
}
