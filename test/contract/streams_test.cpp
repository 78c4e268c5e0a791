/// Streams and host threads: every call stays on the stream it is given and holds no state of its own.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "contract/every_call.hpp"
#include "sparge/plan/mask_config.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/device_buffer.hpp"
#include "support/gpu.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

/// The outputs of a call that ran alone.
std::vector<unsigned char> alone(PublicCall const& call, Workspace scratch) {
  Stream const stream;
  call.poison_outputs();
  must(call.run(scratch, stream));
  stream.wait();
  auto const outputs = call.outputs();
  call.poison_outputs();
  return outputs;
}

}  // namespace

TEST_CASE("U88 two streams with two workspaces at the same time give what each gives alone", "[gpu]") {
  SKIP_WITHOUT_GPU();
  auto const here = every_public_call<bfloat16>(test_device());
  auto const there = every_public_call<bfloat16>(test_device());
  Stream const stream_here, stream_there;
  for (std::size_t i = 0; i < here.size(); ++i) {
    CAPTURE(here[i].name);
    ScratchBuffer const scratch_here(here[i].workspace_bytes), scratch_there(there[i].workspace_bytes);
    there[i].set_inputs(2);
    auto const wanted_here = alone(here[i], scratch_here.workspace());
    auto const wanted_there = alone(there[i], scratch_there.workspace());
    for (int repeat = 0; repeat < 20; ++repeat) {
      must(here[i].run(scratch_here.workspace(), stream_here));
      must(there[i].run(scratch_there.workspace(), stream_there));
    }
    stream_here.wait(), stream_there.wait();
    CHECK(here[i].outputs() == wanted_here);
    CHECK(there[i].outputs() == wanted_there);
  }
}

TEST_CASE("U81 every kind of stream gives the same bits", "[gpu]") {
  SKIP_WITHOUT_GPU();
  Stream const blocking(cudaStreamDefault), non_blocking(cudaStreamNonBlocking);
  for (PublicCall const& call : every_public_call<float16>(test_device())) {
    CAPTURE(call.name);
    ScratchBuffer const scratch(call.workspace_bytes);
    auto const wanted = alone(call, scratch.workspace());
    for (cudaStream_t stream : {static_cast<cudaStream_t>(blocking), static_cast<cudaStream_t>(non_blocking),
                                cudaStreamPerThread, cudaStreamLegacy, static_cast<cudaStream_t>(nullptr)}) {
      call.poison_outputs();
      must(call.run(scratch.workspace(), stream));
      CHECK_CUDA(cudaStreamSynchronize(stream));
      CHECK(call.outputs() == wanted);
    }
  }
}

TEST_CASE("U83 a call returns while its stream is still busy", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (PublicCall const& call : every_public_call<bfloat16>(test_device())) {
    CAPTURE(call.name);
    Stream const stream;
    ScratchBuffer const scratch(call.workspace_bytes);
    auto const wanted = alone(call, scratch.workspace());
    std::atomic<bool> open{false};
    // The stream cannot pass this gate until the call has returned; a call that waits for the stream never would.
    CHECK_CUDA(cudaLaunchHostFunc(
        stream,
        [](void* gate) {
          while (!*static_cast<std::atomic<bool>*>(gate)) std::this_thread::yield();
        },
        &open));
    Status const status = call.run(scratch.workspace(), stream);
    cudaError_t const pending = cudaStreamQuery(stream);
    open = true;
    stream.wait();
    CHECK(text_of(status) == text_of(Status{}));
    CHECK(pending == cudaErrorNotReady);
    CHECK(call.outputs() == wanted);
  }
}

TEST_CASE("U88 threads whose problems need different amounts of shared memory do not disturb each other",
          "[gpu]") {
  SKIP_WITHOUT_GPU();
  std::atomic<int> refusals{0};
  std::vector<PublicCall> calls;
  std::vector<std::unique_ptr<ScratchBuffer>> scratch;
  std::vector<std::unique_ptr<Stream>> streams;
  // More than the 48 KB that a kernel has unasked, and a different amount in every thread.
  for (std::int64_t kv_blocks : {1600, 2048, 2500, 3072}) {
    AttentionProblem const p{1, 1, 1, 128, 64 * kv_blocks, 64};
    RowLayout const layout = RowLayout::of(p, test_device());
    CHECK(layout.shared_bytes() > 48 * 1024);
    calls.push_back(select_blocks_call(p, test_device(), {}));
    calls.back().set_inputs(1);
    scratch.push_back(std::make_unique<ScratchBuffer>(calls.back().workspace_bytes));
    streams.push_back(std::make_unique<Stream>());
  }
  std::vector<std::thread> running;
  for (std::size_t i = 0; i < calls.size(); ++i)
    running.emplace_back([&, i] {
      for (int repeat = 0; repeat < 200; ++repeat)
        refusals += !calls[i].run(scratch[i]->workspace(), *streams[i]).ok();
    });
  for (std::thread& thread : running) thread.join();
  CHECK(refusals == 0);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    streams[i]->wait();
    auto const together = calls[i].outputs();
    CHECK(together == alone(calls[i], scratch[i]->workspace()));
  }
}

TEST_CASE("U88 eight host threads may call at once", "[gpu]") {
  SKIP_WITHOUT_GPU();
  constexpr int threads = 8;
  Device const device = test_device();
  std::vector<std::vector<PublicCall>> calls;
  for (int i = 0; i < threads; ++i) calls.push_back(every_public_call<bfloat16>(device));
  for (std::size_t kind = 0; kind < calls[0].size(); ++kind) {
    CAPTURE(calls[0][kind].name);
    std::vector<std::unique_ptr<ScratchBuffer>> scratch;
    std::vector<std::vector<unsigned char>> wanted;
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i < threads; ++i) {
      PublicCall const& call = calls[static_cast<std::size_t>(i)][kind];
      scratch.push_back(std::make_unique<ScratchBuffer>(call.workspace_bytes));
      streams.push_back(std::make_unique<Stream>());
      call.set_inputs(static_cast<std::uint64_t>(i) + 1);
      wanted.push_back(alone(call, scratch.back()->workspace()));
    }
    std::atomic<int> refusals{0};
    std::vector<std::thread> running;
    for (std::size_t i = 0; i < threads; ++i)
      running.emplace_back([&, i] {
        for (int repeat = 0; repeat < 10; ++repeat)
          refusals += !calls[i][kind].run(scratch[i]->workspace(), *streams[i]).ok();
      });
    for (std::thread& thread : running) thread.join();
    CHECK(refusals == 0);
    for (std::size_t i = 0; i < threads; ++i) {
      streams[i]->wait();
      CHECK(calls[i][kind].outputs() == wanted[i]);
    }
  }
}
