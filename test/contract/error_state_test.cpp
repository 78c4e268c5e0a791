/// What a call leaves behind: the caller's device, the caller's errors, and after a refusal nothing at all.

#include <memory>
#include <string>
#include <vector>

#include "contract/every_call.hpp"
#include "contract/fake_device.hpp"
#include "contract/wrong_backward.hpp"
#include "contract/wrong_distillation.hpp"
#include "contract/wrong_forward.hpp"
#include "contract/wrong_mask_calls.hpp"
#include "contract/wrong_merge.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

/// The refusals of a table on real memory, inside a capture: no work reaches the stream, no byte changes, no error
/// stays, and the right call then succeeds.
template <class Call, class Wrong>
void check_nothing_happens(Call (*lay_out)(CallSite&), Wrong wrong_calls) {
  CallSite counting{{2, 4, 2, 200, 2150, 64}, test_device(), {}, Carver()};
  static_cast<void>(lay_out(counting));
  DeviceBuffer<unsigned char> arena(static_cast<std::int64_t>(counting.carver.bytes()));
  CallSite site{counting.problem, counting.device, {}, Carver(arena.data())};
  Call const right = lay_out(site);
  Stream const stream;
  cudaGraph_t graph = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  check_refusals(wrong_calls(right), stream);
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  std::size_t nodes = 1;
  CHECK_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK_CUDA(cudaGraphDestroy(graph));
  CHECK(nodes == 0);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(arena.is_untouched());
  arena.fill_bytes(0);
  CHECK(text_of(right.run(stream)) == text_of(Status{}));
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
}

/// Refusals by the device or the location of a pointer, which only the runtime can tell.
template <class Call>
struct PointerField {
  char const* field;
  void (*set)(Call&, void*);
};

template <class Call>
void check_locations_of(Call (*lay_out)(CallSite&), std::vector<PointerField<Call>> const& fields) {
  PlanOptions options;
  options.pointer_check = PointerCheck::location;
  CallSite counting{{1, 4, 2, 200, 300, 64}, test_device(), options, Carver()};
  static_cast<void>(lay_out(counting));
  DeviceBuffer<unsigned char> arena(static_cast<std::int64_t>(counting.carver.bytes()));
  CallSite site{counting.problem, counting.device, options, Carver(arena.data())};
  Call const right = lay_out(site);
  Stream const stream;
  std::vector<unsigned char> host(counting.carver.bytes() + 256, 0xFF);
  auto const address = (reinterpret_cast<std::uintptr_t>(host.data()) + 255) / 256 * 256;
  for (PointerField<Call> const& field : fields) {
    CAPTURE(field.field);
    Call call = right;
    field.set(call, reinterpret_cast<void*>(address));
    check_refused(call.run(stream), invalid(field.field));
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  stream.wait();
  CHECK(arena.is_untouched());
  arena.fill_bytes(0);
  CHECK(text_of(right.run(stream)) == text_of(Status{}));
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
}

}  // namespace

TEST_CASE("U68 U99 after each refused forward nothing has happened and the next call works", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_nothing_happens(lay_out_forward<bfloat16>, wrong_forward_calls<bfloat16>);
  check_nothing_happens(lay_out_forward<float16>, wrong_forward_calls<float16>);
}

TEST_CASE("U68 U99 after each refused backward nothing has happened and the next call works", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_nothing_happens(lay_out_backward<bfloat16>, wrong_backward_calls<bfloat16>);
  check_nothing_happens(lay_out_backward<float16>, wrong_backward_calls<float16>);
}

TEST_CASE("U68 U99 after each refused merge nothing has happened and the next call works", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_nothing_happens(lay_out_merge<bfloat16>, wrong_merge_calls<bfloat16>);
  check_nothing_happens(lay_out_merge<float16>, wrong_running_merge_calls<float16>);
  check_nothing_happens(lay_out_merge<float>, wrong_merge_calls<float>);
}

TEST_CASE("U68 U99 after each refused distillation nothing has happened and the next call works", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_nothing_happens(lay_out_distillation_loss<bfloat16>, wrong_distillation_calls<bfloat16>);
  check_nothing_happens(lay_out_distillation_loss<float>, wrong_distillation_calls<float>);
  check_nothing_happens(lay_out_interpolate<float16>, wrong_interpolate_calls<float16>);
  check_nothing_happens(lay_out_interpolate<float>, wrong_interpolate_calls<float>);
}

TEST_CASE("U68 U99 after each refused mask call nothing has happened and the next call works", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_nothing_happens(lay_out_pool<bfloat16>, wrong_pool_calls<bfloat16>);
  check_nothing_happens(lay_out_select, wrong_select_calls);
  check_nothing_happens(lay_out_build_mask<float16>, wrong_build_mask_calls<float16>);
  check_nothing_happens(lay_out_stats, wrong_stats_calls);
  check_nothing_happens(lay_out_calibrate, wrong_calibrate_calls);
  check_nothing_happens(lay_out_transpose, wrong_transpose_calls);
  check_nothing_happens(lay_out_slice, wrong_slice_calls);
  check_nothing_happens(lay_out_to_bytes, wrong_to_bytes_calls);
  check_nothing_happens(lay_out_from_bytes, wrong_from_bytes_calls);
  check_nothing_happens(lay_out_to_lists, wrong_to_lists_calls);
  check_nothing_happens(lay_out_from_lists, wrong_from_lists_calls);
}

TEST_CASE("U84 a plan for another device is refused and the current device stays", "[gpu]") {
  SKIP_WITHOUT_GPU();
  Device device = test_device();
  int const current = device.ordinal;
  device.ordinal += 1;
  Stream const stream;
  for (PublicCall const& call : every_public_call<bfloat16>(device)) {
    CAPTURE(call.name);
    ScratchBuffer const scratch(call.workspace_bytes);
    call.poison_outputs();
    auto const poison = call.outputs();
    check_refused(call.run(scratch.workspace(), stream),
                  not_the_plans("device.ordinal", current, current + 1));
    stream.wait();
    CHECK(call.outputs() == poison);
    int after = -1;
    CHECK_CUDA(cudaGetDevice(&after));
    CHECK(after == current);
    CHECK(cudaGetLastError() == cudaSuccess);
  }
}

TEST_CASE("U84 each call works on a second GPU while it is current", "[.][multigpu]") {
  SKIP_WITHOUT_GPUS(2);
  struct Restore {
    ~Restore() { static_cast<void>(cudaSetDevice(0)); }
  } const restore;
  std::vector<std::vector<unsigned char>> on_first;
  for (int ordinal : {0, 1}) {
    CHECK_CUDA(cudaSetDevice(ordinal));
    Stream const stream;
    std::size_t index = 0;
    for (PublicCall const& call : every_public_call<bfloat16>(test_device())) {
      CAPTURE(call.name, ordinal);
      ScratchBuffer const scratch(call.workspace_bytes);
      must(call.run(scratch.workspace(), stream));
      stream.wait();
      if (ordinal == 0)
        on_first.push_back(call.outputs());
      else
        CHECK(call.outputs() == on_first[index]);
      ++index;
    }
  }
}

TEST_CASE("U99 a call neither leaves an error behind nor takes the caller's away", "[gpu]") {
  SKIP_WITHOUT_GPU();
  Stream const stream;
  // At head_dim 128 more kernels ask for more than 48 KB of shared memory, which takes a call into the driver.
  for (int head_dim : {64, 128}) {
    AttentionProblem p = contract_problem();
    p.head_dim = head_dim;
    for (PublicCall const& call : every_public_call<float16>(test_device(), {}, p)) {
      CAPTURE(call.name, head_dim);
      ScratchBuffer const scratch(call.workspace_bytes);
      CHECK(call.run(scratch.workspace(), stream).ok());
      CHECK(cudaPeekAtLastError() == cudaSuccess);
      stream.wait();
      CHECK(cudaSetDevice(-1) != cudaSuccess);  // an error of the caller's, not yet looked at
      cudaError_t const callers = cudaPeekAtLastError();
      CHECK(callers != cudaSuccess);
      CHECK(call.run(scratch.workspace(), stream).ok());
      CHECK(cudaPeekAtLastError() == callers);
      if (call.workspace_bytes > 0) CHECK_FALSE(call.run({}, stream).ok());
      CHECK(cudaGetLastError() == callers);
      CHECK(cudaGetLastError() == cudaSuccess);
      stream.wait();
    }
  }
}

TEST_CASE("U85 plain host memory is refused by name where locations are checked", "[gpu]") {
  SKIP_WITHOUT_GPU();
  using Forward = ForwardCall<bfloat16>;
  check_locations_of<Forward>(
      lay_out_forward<bfloat16>,
      {{"q.data", [](Forward& c, void* at) { c.args.q.data = static_cast<bfloat16*>(at); }},
       {"k.data", [](Forward& c, void* at) { c.args.k.data = static_cast<bfloat16*>(at); }},
       {"v.data", [](Forward& c, void* at) { c.args.v.data = static_cast<bfloat16*>(at); }},
       {"mask.data", [](Forward& c, void* at) { c.args.mask.data = static_cast<std::uint32_t*>(at); }},
       {"out.data", [](Forward& c, void* at) { c.args.out.data = static_cast<bfloat16*>(at); }},
       {"lse", [](Forward& c, void* at) { c.args.lse = static_cast<float*>(at); }}});
  using Pool = PoolCall<float16>;
  check_locations_of<Pool>(
      lay_out_pool<float16>,
      {{"q.data", [](Pool& c, void* at) { c.args.q.data = static_cast<float16*>(at); }},
       {"k.data", [](Pool& c, void* at) { c.args.k.data = static_cast<float16*>(at); }},
       {"pooled_q", [](Pool& c, void* at) { c.args.pooled_q = static_cast<float*>(at); }},
       {"pooled_k", [](Pool& c, void* at) { c.args.pooled_k = static_cast<float*>(at); }}});
  using Build = BuildMaskCall<bfloat16>;
  check_locations_of<Build>(
      lay_out_build_mask<bfloat16>,
      {{"q.data", [](Build& c, void* at) { c.args.q.data = static_cast<bfloat16*>(at); }},
       {"k.data", [](Build& c, void* at) { c.args.k.data = static_cast<bfloat16*>(at); }},
       {"rule.top_k_of_head",
        [](Build& c, void* at) { c.args.rule.top_k_of_head = static_cast<float*>(at); }},
       {"rule.top_p_of_head",
        [](Build& c, void* at) { c.args.rule.top_p_of_head = static_cast<float*>(at); }},
       {"mask.data", [](Build& c, void* at) { c.args.mask.data = static_cast<std::uint32_t*>(at); }},
       {"workspace.data", [](Build& c, void* at) { c.workspace.data = at; }}});
}

TEST_CASE("U85 plain host memory is refused by name by the other mask calls", "[gpu]") {
  SKIP_WITHOUT_GPU();
  using Select = SelectCall;
  check_locations_of<Select>(
      lay_out_select,
      {{"pooled_q", [](Select& c, void* at) { c.args.pooled_q = static_cast<float*>(at); }},
       {"pooled_k", [](Select& c, void* at) { c.args.pooled_k = static_cast<float*>(at); }},
       {"rule.top_k_of_head",
        [](Select& c, void* at) { c.args.rule.top_k_of_head = static_cast<float*>(at); }},
       {"rule.top_p_of_head",
        [](Select& c, void* at) { c.args.rule.top_p_of_head = static_cast<float*>(at); }},
       {"mask.data", [](Select& c, void* at) { c.args.mask.data = static_cast<std::uint32_t*>(at); }},
       {"workspace.data", [](Select& c, void* at) { c.workspace.data = at; }}});
  using Stats = StatsCall;
  check_locations_of<Stats>(
      lay_out_stats,
      {{"pooled_q", [](Stats& c, void* at) { c.args.pooled_q = static_cast<float*>(at); }},
       {"pooled_k", [](Stats& c, void* at) { c.args.pooled_k = static_cast<float*>(at); }},
       {"rule.top_k_of_head",
        [](Stats& c, void* at) { c.args.rule.top_k_of_head = static_cast<float*>(at); }},
       {"rule.top_p_of_head",
        [](Stats& c, void* at) { c.args.rule.top_p_of_head = static_cast<float*>(at); }},
       {"workspace.data", [](Stats& c, void* at) { c.workspace.data = at; }},
       {"mask.data", [](Stats& c, void* at) { c.args.mask.data = static_cast<std::uint32_t*>(at); }},
       {"stats", [](Stats& c, void* at) { c.args.stats = static_cast<MaskStats*>(at); }}});
}

TEST_CASE("U85 plain host memory is refused by name by calibration", "[gpu]") {
  SKIP_WITHOUT_GPU();
  using Call = CalibrateCall;
  check_locations_of<Call>(
      lay_out_calibrate,
      {{"pooled_q", [](Call& c, void* at) { c.args.pooled_q = static_cast<float*>(at); }},
       {"pooled_k", [](Call& c, void* at) { c.args.pooled_k = static_cast<float*>(at); }},
       {"rule.top_k_of_head", [](Call& c, void* at) { c.args.rule.top_k_of_head = static_cast<float*>(at); }},
       {"workspace.data", [](Call& c, void* at) { c.workspace.data = at; }},
       {"top_p_of_head", [](Call& c, void* at) { c.args.top_p_of_head = static_cast<float*>(at); }},
       {"report", [](Call& c, void* at) { c.args.report = static_cast<Calibration*>(at); }}});
}

TEST_CASE("U85 plain host memory is refused by name by the forms of a mask", "[gpu]") {
  SKIP_WITHOUT_GPU();
  using Transpose = TransposeCall;
  check_locations_of<Transpose>(
      lay_out_transpose,
      {{"mask.data", [](Transpose& c, void* at) { c.mask.data = static_cast<std::uint32_t*>(at); }},
       {"transposed.data",
        [](Transpose& c, void* at) { c.transposed.data = static_cast<std::uint32_t*>(at); }}});
  using Slice = SliceCall;
  check_locations_of<Slice>(
      lay_out_slice,
      {{"mask.data", [](Slice& c, void* at) { c.mask.data = static_cast<std::uint32_t*>(at); }},
       {"shard.data", [](Slice& c, void* at) { c.shard.data = static_cast<std::uint32_t*>(at); }}});
  using ToBytes = ToBytesCall;
  check_locations_of<ToBytes>(
      lay_out_to_bytes,
      {{"mask.data", [](ToBytes& c, void* at) { c.mask.data = static_cast<std::uint32_t*>(at); }},
       {"bytes.data", [](ToBytes& c, void* at) { c.bytes.data = static_cast<std::uint8_t*>(at); }}});
  using FromBytes = FromBytesCall;
  check_locations_of<FromBytes>(
      lay_out_from_bytes,
      {{"bytes.data", [](FromBytes& c, void* at) { c.bytes.data = static_cast<std::uint8_t*>(at); }},
       {"mask.data", [](FromBytes& c, void* at) { c.mask.data = static_cast<std::uint32_t*>(at); }}});
  using ToLists = ToListsCall;
  check_locations_of<ToLists>(
      lay_out_to_lists,
      {{"mask.data", [](ToLists& c, void* at) { c.mask.data = static_cast<std::uint32_t*>(at); }},
       {"lists.counts", [](ToLists& c, void* at) { c.lists.counts = static_cast<std::int32_t*>(at); }},
       {"lists.indices", [](ToLists& c, void* at) { c.lists.indices = static_cast<std::int32_t*>(at); }}});
  using FromLists = FromListsCall;
  check_locations_of<FromLists>(
      lay_out_from_lists,
      {{"lists.counts", [](FromLists& c, void* at) { c.lists.counts = static_cast<std::int32_t*>(at); }},
       {"lists.indices", [](FromLists& c, void* at) { c.lists.indices = static_cast<std::int32_t*>(at); }},
       {"mask.data", [](FromLists& c, void* at) { c.mask.data = static_cast<std::uint32_t*>(at); }}});
}

TEST_CASE("U85 plain host memory is refused by name by merging", "[gpu]") {
  SKIP_WITHOUT_GPU();
  using Merge = MergeCall<bfloat16>;
  check_locations_of<Merge>(
      lay_out_merge<bfloat16>,
      {{"partials[1].out.data",
        [](Merge& c, void* at) { c.args.partials[1].out.data = static_cast<bfloat16*>(at); }},
       {"partials[1].lse", [](Merge& c, void* at) { c.args.partials[1].lse = static_cast<float*>(at); }},
       {"running.out.data", [](Merge& c, void* at) { c.args.running.out.data = static_cast<float*>(at); }},
       {"running.lse", [](Merge& c, void* at) { c.args.running.lse = static_cast<float*>(at); }},
       {"out.data", [](Merge& c, void* at) { c.args.out.data = static_cast<bfloat16*>(at); }},
       {"running_out.data", [](Merge& c, void* at) { c.args.running_out.data = static_cast<float*>(at); }},
       {"lse", [](Merge& c, void* at) { c.args.lse = static_cast<float*>(at); }}});
}

TEST_CASE("U85 plain host memory is refused by name by distillation", "[gpu]") {
  SKIP_WITHOUT_GPU();
  using Loss = DistillationCall<bfloat16>;
  check_locations_of<Loss>(
      lay_out_distillation_loss<bfloat16>,
      {{"student", [](Loss& c, void* at) { c.args.student = static_cast<bfloat16*>(at); }},
       {"teacher", [](Loss& c, void* at) { c.args.teacher = static_cast<bfloat16*>(at); }},
       {"weights", [](Loss& c, void* at) { c.args.weights = static_cast<float*>(at); }},
       {"grad_loss", [](Loss& c, void* at) { c.args.grad_loss = static_cast<float*>(at); }},
       {"loss", [](Loss& c, void* at) { c.args.loss = static_cast<float*>(at); }},
       {"grad_student", [](Loss& c, void* at) { c.args.grad_student = static_cast<bfloat16*>(at); }},
       {"workspace.data", [](Loss& c, void* at) { c.workspace.data = at; }}});
  using Between = InterpolateCall<float>;
  check_locations_of<Between>(lay_out_interpolate<float>,
                              {{"x0", [](Between& c, void* at) { c.args.x0 = static_cast<float*>(at); }},
                               {"x1", [](Between& c, void* at) { c.args.x1 = static_cast<float*>(at); }},
                               {"t", [](Between& c, void* at) { c.args.t = static_cast<float*>(at); }},
                               {"x_t", [](Between& c, void* at) { c.args.x_t = static_cast<float*>(at); }}});
}

TEST_CASE("U85 memory of another GPU is refused by name where locations are checked", "[.][multigpu]") {
  SKIP_WITHOUT_GPUS(2);
  CHECK_CUDA(cudaSetDevice(1));
  DeviceBuffer<bfloat16> const there(1 << 20);
  CHECK_CUDA(cudaSetDevice(0));
  ForwardChoices choices;
  choices.options.pointer_check = PointerCheck::location;
  ForwardRun<bfloat16> run(make_inputs<bfloat16>({{1, 2, 2, 200, 300, 64}}), choices);
  ForwardArgs<bfloat16> args = run.args();
  args.q.data = there.data();
  Stream const stream;
  check_refused(forward(run.plan(), args, run.workspace(), stream), not_the_plans("q.data", 1, 0));
  stream.wait();
  CHECK(run.outputs_untouched());
}

TEST_CASE("U85 managed and pinned memory are accepted and give the same result", "[gpu]") {
  SKIP_WITHOUT_GPU();
  ForwardChoices choices;
  choices.options.pointer_check = PointerCheck::location;
  auto const inputs = make_inputs<bfloat16>({{1, 2, 2, 200, 300, 64}});
  ForwardRun<bfloat16> run(inputs, choices);
  Stream const stream;
  must(run.run(stream));
  stream.wait();
  auto const wanted = run.download();
  check_forward(inputs, wanted);
  std::size_t const bytes = inputs.q.storage().size() * sizeof(bfloat16);
  auto const check_with = [&](void* memory) {
    std::memcpy(memory, inputs.q.storage().data(), bytes);
    ForwardArgs<bfloat16> args = run.args();
    args.q.data = static_cast<bfloat16*>(memory);
    run.poison_outputs();
    CHECK(text_of(forward(run.plan(), args, run.workspace(), stream)) == text_of(Status{}));
    stream.wait();
    CHECK(run.download() == wanted);
  };
  void* memory = nullptr;
  CHECK_CUDA(cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal));
  check_with(memory);
  CHECK_CUDA(cudaFree(memory));
  CHECK_CUDA(cudaMallocHost(&memory, bytes));
  check_with(memory);
  CHECK_CUDA(cudaFreeHost(memory));
}
