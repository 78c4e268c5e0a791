// Merging through the C ABI: the refusals and the bits of sparge.hpp.

#include <string>
#include <vector>

#include "contract/c_arguments.hpp"
#include "contract/merge_calls.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

/// The C plan and arguments of a merge; the array lives beside the arguments that point to it.
template <class T>
struct CMerge {
  sparge_plan plan = sized<sparge_plan>();
  sparge_merge_partials_args args = sized<sparge_merge_partials_args>();
  std::vector<sparge_partial> partials;

  CMerge(AttentionProblem const& p, Device const& device, MergeArgs<T> const& from) {
    auto const problem = c_problem(p);
    auto const gpu = c_device(device);
    auto status = sized<sparge_status>();
    check_c_ok(sparge_plan_merge_partials(&problem, c_dtype<T>(), &gpu, nullptr, &plan, &status), status);
    for (int i = 0; i < from.count; ++i) partials.push_back(c_partial(from.partials[i]));
    args.count = from.count;
    args.running = c_partial(from.running);
    args.out = c_tensor(from.out), args.running_out = c_tensor(from.running_out), args.lse = from.lse;
  }

  sparge_code run(sparge_stream stream, sparge_status* status) {
    args.partials = partials.data();
    return sparge_merge_partials(&plan, &args, stream, status);
  }
};

CMerge<bfloat16> imagined_merge() {
  CallSite site{{2, 4, 2, 200, 2150, 64}, big_device(), {}, imagined_memory()};
  return {site.problem, site.device, lay_out_merge<bfloat16>(site).args};
}

struct SpoiltMerge {
  char const* field;
  void (*spoil)(CMerge<bfloat16>&);
};

template <class T>
void check_merge_is_bit_equal(AttentionProblem const& p) {
  MergeInputs<T> const inputs = make_merge_inputs<T>({p, 3, true});
  MergeRun<T> run(inputs);
  Stream const stream;
  must(run.run(stream));
  stream.wait();
  MergeOutput<T> const through_cpp = run.download();
  run.poison_outputs();
  CMerge<T> call(p, test_device(), run.args());
  auto status = sized<sparge_status>();
  check_c_ok(call.run(stream, &status), status);
  stream.wait();
  CHECK(run.download() == through_cpp);
}

}  // namespace

TEST_CASE("Each argument of sparge_merge_partials is refused by its own name") {
  using Merge = CMerge<bfloat16>;
  std::vector<SpoiltMerge> const rows{
      {"partials[0].out.data", [](Merge& c) { c.partials[0].out.data = nullptr; }},
      {"partials[1].out.stride", [](Merge& c) { c.partials[1].out.stride[1] += 1; }},
      {"partials[1].lse", [](Merge& c) { c.partials[1].lse = nullptr; }},
      {"partials.out.dtype", [](Merge& c) { c.partials[1].out.dtype = SPARGE_F32; }},
      {"partials.out.reserved", [](Merge& c) { c.partials[1].out.reserved = 1; }},
      {"count", [](Merge& c) { c.args.count = SPARGE_MOST_PARTIALS + 1; }},
      {"count", [](Merge& c) { c.args.count = -1; }},
      {"count", [](Merge& c) { c.args.count = 0, c.args.running = {}; }},
      {"args.reserved", [](Merge& c) { c.args.reserved = 1; }},
      {"args.struct_size", [](Merge& c) { c.args.struct_size = 8; }},
      {"running.out.dtype", [](Merge& c) { c.args.running.out.dtype = SPARGE_BF16; }},
      {"running.out.data", [](Merge& c) { c.args.running.out.data = nullptr; }},
      {"running.lse", [](Merge& c) { c.args.running.lse = nullptr; }},
      {"out.dtype", [](Merge& c) { c.args.out.dtype = SPARGE_F16; }},
      {"out.shape", [](Merge& c) { c.args.out.shape[2] -= 1; }},
      {"out.data", [](Merge& c) { c.args.out = {}, c.args.running_out = {}; }},
      {"running_out.dtype", [](Merge& c) { c.args.running_out.dtype = SPARGE_BF16; }},
      {"running_out.stride", [](Merge& c) { c.args.running_out.stride[0] = 0; }},
      {"lse", [](Merge& c) { c.args.lse += 1; }}};
  for (SpoiltMerge const& row : rows) {
    CAPTURE(row.field);
    CMerge<bfloat16> call = imagined_merge();
    row.spoil(call);
    auto status = sized<sparge_status>();
    CHECK(call.run(nullptr, &status) != SPARGE_OK);
    CHECK(std::string(status.field) == row.field);
  }
}

TEST_CASE("sparge_merge_partials names a missing array and the entry of a wrong element type") {
  CMerge<bfloat16> call = imagined_merge();
  auto status = sized<sparge_status>();
  check_c_refused(sparge_merge_partials(&call.plan, &call.args, nullptr, &status), status,
                  SPARGE_INVALID_ARGUMENT, "partials", 0);
  call.partials[1].out.dtype = SPARGE_F32;
  check_c_refused(call.run(nullptr, &status), status, SPARGE_PLAN_MISMATCH, "partials.out.dtype", SPARGE_F32,
                  SPARGE_BF16);
  CHECK(status.axis == 1);
}

TEST_CASE("Merging through the C ABI is bit-equal to C++ for every element type", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_merge_is_bit_equal<bfloat16>({2, 4, 2, 200, 2150, 64});
  check_merge_is_bit_equal<float16>({1, 3, 1, 129, 515, 128});
  check_merge_is_bit_equal<float>({1, 3, 3, 31, 515, 128});
}
