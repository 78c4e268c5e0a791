/// Scratch memory: whatever it holds, exactly as much as the plan says, aligned as promised.

#include <cstring>
#include <string>
#include <vector>

#include "contract/every_call.hpp"
#include "contract/refusal.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

std::vector<unsigned char> run_in(PublicCall const& call, Workspace scratch) {
  Stream const stream;
  call.poison_outputs();
  must(call.run(scratch, stream));
  stream.wait();
  return call.outputs();
}

void fill_with(ScratchBuffer& scratch, float value) {
  std::vector<unsigned char> bytes(scratch.bytes().bytes());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = reinterpret_cast<unsigned char const*>(&value)[i % sizeof(value)];
  scratch.bytes().upload(bytes);
}

}  // namespace

TEST_CASE("U13 U35 what scratch holds never changes a result", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (PublicCall const& call : every_public_call<bfloat16>(test_device())) {
    CAPTURE(call.name);
    ScratchBuffer scratch(call.workspace_bytes);
    fill_with(scratch, 0.0f);
    auto const wanted = run_in(call, scratch.workspace());
    CHECK(run_in(call, scratch.workspace()) == wanted);  // what it left behind itself
    scratch.bytes().fill_bytes(0xFF);
    CHECK(run_in(call, scratch.workspace()) == wanted);
    fill_with(scratch, 1e30f);
    CHECK(run_in(call, scratch.workspace()) == wanted);
  }
}

TEST_CASE("U13 scratch may be passed from shape to shape", "[gpu]") {
  SKIP_WITHOUT_GPU();
  Device const device = test_device();
  AttentionProblem large = contract_problem(), small = contract_problem();
  large.kv_tokens = 3333, small.q_tokens = 65, small.kv_tokens = 129;
  auto const on_large = every_public_call<bfloat16>(device, {}, large);
  auto const on_small = every_public_call<bfloat16>(device, {}, small);
  for (std::size_t i = 0; i < on_large.size(); ++i) {
    CAPTURE(on_large[i].name);
    ScratchBuffer const fresh_large(on_large[i].workspace_bytes), fresh_small(on_small[i].workspace_bytes);
    auto const wanted_large = run_in(on_large[i], fresh_large.workspace());
    auto const wanted_small = run_in(on_small[i], fresh_small.workspace());
    ScratchBuffer const shared(std::max(on_large[i].workspace_bytes, on_small[i].workspace_bytes));
    for (int repeat = 0; repeat < 3; ++repeat) {
      CHECK(run_in(on_large[i], shared.workspace()) == wanted_large);
      CHECK(run_in(on_small[i], shared.workspace()) == wanted_small);
    }
  }
}

TEST_CASE("U86 U87 exactly the planned bytes suffice for odd shapes and none is written past them", "[gpu]") {
  SKIP_WITHOUT_GPU();
  Device const device = test_device();
  for (int head_dim : {64, 128}) {
    for (std::int64_t tokens : {1, 63, 65, 129, 1001}) {
      AttentionProblem p = contract_problem();
      p.head_dim = head_dim, p.heads = 6, p.q_tokens = tokens, p.kv_tokens = tokens + 2;
      for (PublicCall const& call : every_public_call<float16>(device, {}, p)) {
        CAPTURE(call.name, head_dim, tokens);
        ScratchBuffer scratch(call.workspace_bytes);
        auto const wanted = run_in(call, scratch.workspace());
        CHECK(scratch.bytes().canaries_alive());
        Workspace more = scratch.workspace();
        more.bytes += 4096;  // a caller may own more than is needed
        CHECK(run_in(call, more) == wanted);
        CHECK(scratch.bytes().canaries_alive());
      }
    }
  }
}

TEST_CASE("U86 U89 scratch that is short or null or misaligned is refused and nothing is written", "[gpu]") {
  SKIP_WITHOUT_GPU();
  Stream const stream;
  for (PublicCall const& call : every_public_call<bfloat16>(test_device())) {
    CAPTURE(call.name);
    if (call.workspace_bytes == 0) continue;
    auto const need = static_cast<std::int64_t>(call.workspace_bytes);
    ScratchBuffer scratch(call.workspace_bytes + 256);
    auto const poison = [&] {
      call.poison_outputs();
      return call.outputs();
    }();
    Workspace const right{scratch.workspace().data, call.workspace_bytes};
    auto const too_small = [&](std::int64_t given) {
      return Refusal{StatusCode::workspace_too_small, "workspace.bytes", -1, given, need};
    };
    check_refused(call.run({right.data, right.bytes - 1}, stream), too_small(need - 1));
    check_refused(call.run({right.data, 0}, stream), too_small(0));
    check_refused(call.run({}, stream), too_small(0));
    check_refused(call.run({nullptr, right.bytes}, stream), invalid("workspace.data"));
    for (std::int64_t shift : {1, 2, 4, 8, 16, 128})
      check_refused(call.run({static_cast<char*>(right.data) + shift, right.bytes}, stream),
                    invalid("workspace.data", shift, 256));
    stream.wait();
    CHECK(call.outputs() == poison);
    CHECK(scratch.bytes().is_untouched());
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK(run_in(call, right) != poison);
  }
}
