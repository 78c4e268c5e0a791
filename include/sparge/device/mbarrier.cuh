#pragma once
/// Barriers in shared memory that count arrivals and bytes of asynchronous copies (PTX ISA, "mbarrier", sm_90).

#include <cstdint>

namespace sparge {

/// A barrier completes a phase when `arrivals` threads have arrived and all bytes expected have come; phases alternate in
/// parity, from 0 on. What a thread did before it arrived is seen by those whose wait for that phase has returned.
class Mbarrier {
public:
  static constexpr std::uint32_t bytes = 8;

  __device__ __forceinline__ explicit Mbarrier(std::uint32_t shared) : shared_(shared) {}

  /// By one thread, and publish_mbarriers() after the last.
  __device__ __forceinline__ void init(int arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_), "r"(arrivals) : "memory");
  }

  __device__ __forceinline__ void arrive() const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_) : "memory");
  }

  /// Arrives and lets the phase wait for so many bytes more.
  __device__ __forceinline__ void arrive_expecting(std::uint32_t copy_bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_), "r"(copy_bytes)
                 : "memory");
  }

  /// Returns once the phase of that parity is complete. Parity 1 of a new barrier counts as complete.
  __device__ __forceinline__ void wait(std::uint32_t parity) const {
    while (!is_complete(parity)) {
    }
  }

  __device__ __forceinline__ std::uint32_t shared() const { return shared_; }

private:
  /// Sleeps up to 10 ms before it says no. Without a hint it would do so after about a microsecond: warps that ask anew take cycles of shared memory
  /// from wgmma, 1.2 % of all in the forward loop.
  __device__ __forceinline__ bool is_complete(std::uint32_t parity) const {
    std::uint32_t complete;
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, 0x989680;\n"
        "selp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(complete)
        : "r"(shared_), "r"(parity)
        : "memory");
    return complete != 0;
  }

  std::uint32_t shared_;
};

/// Makes new barriers known to asynchronous copies; a __syncthreads() makes them known to other threads.
__device__ __forceinline__ void publish_mbarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// A slot of a ring and the parity of the phase that its barriers are in. One register, and no branch.
template <int slots>
class RingPosition {
public:
  static_assert((slots & (slots - 1)) == 0, "so that the count may wrap around");

  __device__ __forceinline__ std::uint32_t slot() const { return count_ % slots; }
  __device__ __forceinline__ std::uint32_t parity() const { return count_ / slots % 2; }
  __device__ __forceinline__ void advance() { ++count_; }

private:
  std::uint32_t count_ = 0;
};

/// Every other entry of a ring of any size, from entry `first` on: that of two kinds of data which take the ring's slots in turn.
template <int slots, int first>
class AlternatePosition {
public:
  __device__ __forceinline__ std::uint32_t slot() const { return slot_; }
  __device__ __forceinline__ std::uint32_t parity() const { return parity_; }
  __device__ __forceinline__ void advance() {
    slot_ += 2;
    if (slot_ >= slots) slot_ -= slots, parity_ ^= 1;
  }

private:
  std::uint32_t slot_ = first, parity_ = 0;
};

}  // namespace sparge
