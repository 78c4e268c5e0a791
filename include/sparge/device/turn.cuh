#pragma once
/// Two warpgroups take turns (PTX ISA, "barrier" with a number; sm_70).

namespace sparge {

/// Both must take as many turns as the other. Warpgroup 0 begins.
class Turn {
public:
  /// Uses barriers `first_barrier` and the next one, of 16 that a thread block has; 0 is __syncthreads().
  __device__ __forceinline__ Turn(int first_barrier, int warpgroup)
      : mine_(first_barrier + warpgroup), theirs_(first_barrier + 1 - warpgroup), warpgroup_(warpgroup) {}

  __device__ __forceinline__ void init() const {
    if (warpgroup_ == 1) pass();
  }
  __device__ __forceinline__ void take() const { asm volatile("bar.sync %0, 256;" ::"r"(mine_) : "memory"); }
  __device__ __forceinline__ void pass() const {
    asm volatile("bar.arrive %0, 256;" ::"r"(theirs_) : "memory");
  }

private:
  int mine_, theirs_, warpgroup_;
};

}  // namespace sparge
