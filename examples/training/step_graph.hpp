#pragma once
/// A stream, and a CUDA graph of what one function enqueues on it.

#include <cuda_runtime_api.h>

#include "support/device_array.hpp"

namespace training {

class Stream {
public:
  Stream() { demo::check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;

  operator cudaStream_t() const { return stream_; }
  void wait() const { demo::check_cuda(cudaStreamSynchronize(stream_)); }

private:
  cudaStream_t stream_ = nullptr;
};

class StepGraph {
public:
  /// Records `enqueue()`; nothing of it runs yet. A call that allocates or waits would make the capture fail.
  template <class Enqueue>
  StepGraph(Stream const& stream, Enqueue enqueue) {
    cudaGraph_t graph = nullptr;
    demo::check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    try {
      enqueue();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      if (graph) cudaGraphDestroy(graph);
      throw;
    }
    demo::check_cuda(cudaStreamEndCapture(stream, &graph));
    cudaError_t const instantiated = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    demo::check_cuda(instantiated);
  }
  ~StepGraph() { cudaGraphExecDestroy(graph_); }
  StepGraph(StepGraph const&) = delete;
  StepGraph& operator=(StepGraph const&) = delete;

  void replay(Stream const& stream) const { demo::check_cuda(cudaGraphLaunch(graph_, stream)); }

private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace training
