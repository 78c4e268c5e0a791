/// Every public call inside a CUDA graph: only kernels and memsets, replayed on changed inputs bit for bit as eager.

#include <functional>
#include <string>
#include <vector>

#include "contract/every_call.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

/// What a call enqueued, captured instead of run.
class Captured {
public:
  Captured(cudaStream_t stream, cudaStreamCaptureMode mode, std::function<Status()> const& call) {
    CHECK_CUDA(cudaStreamBeginCapture(stream, mode));
    status_ = call();
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph_));
  }
  ~Captured() {
    if (exec_ != nullptr) static_cast<void>(cudaGraphExecDestroy(exec_));
    if (graph_ != nullptr) static_cast<void>(cudaGraphDestroy(graph_));
  }
  Captured(Captured const&) = delete;
  Captured& operator=(Captured const&) = delete;

  Status const& status() const { return status_; }

  std::vector<cudaGraphNodeType> node_types() const {
    std::size_t count = 0;
    CHECK_CUDA(cudaGraphGetNodes(graph_, nullptr, &count));
    std::vector<cudaGraphNode_t> nodes(count);
    if (count > 0) CHECK_CUDA(cudaGraphGetNodes(graph_, nodes.data(), &count));
    std::vector<cudaGraphNodeType> types(count);
    for (std::size_t i = 0; i < count; ++i) CHECK_CUDA(cudaGraphNodeGetType(nodes[i], &types[i]));
    return types;
  }

  void replay(cudaStream_t stream) {
    if (exec_ == nullptr) CHECK_CUDA(cudaGraphInstantiate(&exec_, graph_, 0));
    CHECK_CUDA(cudaGraphLaunch(exec_, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
  }

private:
  Status status_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

std::vector<unsigned char> eager(PublicCall const& call, std::uint64_t seed, Workspace scratch,
                                 Stream const& stream) {
  call.set_inputs(seed);
  call.poison_outputs();
  must(call.run(scratch, stream));
  stream.wait();
  return call.outputs();
}

std::vector<unsigned char> replayed(PublicCall const& call, std::uint64_t seed, Captured& graph,
                                    Stream const& stream) {
  call.set_inputs(seed);
  call.poison_outputs();
  graph.replay(stream);
  return call.outputs();
}

void check_capture(PublicCall const& call, cudaStreamCaptureMode mode) {
  CAPTURE(call.name, static_cast<int>(mode));
  Stream const stream;
  ScratchBuffer const scratch(call.workspace_bytes);
  auto const first = eager(call, 1, scratch.workspace(), stream);
  auto const second = eager(call, 2, scratch.workspace(), stream);
  CHECK(first != second);  // else a stale replay would not show
  Captured graph(stream, mode, [&] { return call.run(scratch.workspace(), stream); });
  REQUIRE(text_of(graph.status()) == text_of(Status{}));
  CHECK_FALSE(graph.node_types().empty());
  for (cudaGraphNodeType type : graph.node_types())
    CHECK((type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemset));
  CHECK(replayed(call, 1, graph, stream) == first);
  CHECK(replayed(call, 2, graph, stream) == second);
  CHECK(replayed(call, 1, graph, stream) == first);
}

}  // namespace

TEST_CASE("U81 U82 U83 every call can be captured in global mode and replays on changed inputs", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (PublicCall const& call : every_public_call<bfloat16>(test_device()))
    check_capture(call, cudaStreamCaptureModeGlobal);
}

TEST_CASE("U81 U82 U83 every call can be captured in relaxed mode and replays on changed inputs", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (PublicCall const& call : every_public_call<float16>(test_device()))
    check_capture(call, cudaStreamCaptureModeRelaxed);
}

TEST_CASE("U82 U85 every call can be captured with pointer locations checked", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PlanOptions options;
  options.pointer_check = PointerCheck::location;
  for (PublicCall const& call : every_public_call<bfloat16>(test_device(), options))
    check_capture(call, cudaStreamCaptureModeGlobal);
}

TEST_CASE("U81 the first call of a process may be a captured one", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (PublicCall const& call : every_public_call<bfloat16>(test_device())) {
    CAPTURE(call.name);
    Stream const stream;
    ScratchBuffer const scratch(call.workspace_bytes);
    Captured graph(stream, cudaStreamCaptureModeGlobal,
                   [&] { return call.run(scratch.workspace(), stream); });
    REQUIRE(text_of(graph.status()) == text_of(Status{}));
    auto const captured = replayed(call, 3, graph, stream);
    CHECK(captured == eager(call, 3, scratch.workspace(), stream));
  }
}
