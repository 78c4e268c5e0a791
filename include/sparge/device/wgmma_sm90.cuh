#pragma once
/// D += A B by the four warps of a warpgroup: A 64x16 and B 16xN in 16 bits, D 64xN in f32 (PTX ISA, "Asynchronous Warpgroup
/// Level Matrix Instructions", sm_90a). Warp w holds rows 16 w .. 16 w + 15 of D and of an A in registers, as Fragment does.
///
/// All calls are made by the whole warpgroup. Between wgmma_commit() and the wait that covers it, no register of the products
/// may be touched, D and A alike; else ptxas serialises every product of the kernel and says so (notes C7510 to C7520).

#include <cstdint>

#include "sparge/core/element.hpp"
#include "sparge/device/fragment.cuh"

namespace sparge {

// ---- Matrices in shared memory -------------------------------------------------------------------------------------

/// A matrix descriptor (PTX ISA, "Matrix Descriptor Format") of a tile in panels: 64 16-bit values a row, rows of 128 bytes,
/// 16-byte chunk c of row r at chunk c ^ (r mod 8), which is what a copy with the 128-byte swizzle writes. A panel starts at a multiple of 1024
/// bytes. Eight rows are one atom of 1024 bytes, and the stride from one to the next is the `stride` field, in 16 bytes.
///
/// Where the panel's rows are what the product sums over (V: "MN-major"), columns 64 and on live in the next panel,
/// `panel_bytes` on: the `leading` field. Where its columns are (Q and K: "K-major"), a step of 16 never leaves a panel and
/// the field is unused.
class PanelDescriptor {
public:
  PanelDescriptor() = default;
  __device__ __forceinline__ PanelDescriptor(std::uint32_t shared, std::uint32_t panel_bytes)
      : low_(broadcast((shared & 0x3ffff) >> 4 | (panel_bytes >> 4) << 16)) {}

  /// What lies `bytes` on.
  __device__ __forceinline__ PanelDescriptor advance(std::uint32_t bytes) const {
    PanelDescriptor moved = *this;
    moved.low_ += bytes >> 4;
    return moved;
  }

  /// Of the same panel, made with 0 panel bytes, for products that sum over its rows.
  __device__ __forceinline__ PanelDescriptor with_panels(std::uint32_t panel_bytes) const {
    PanelDescriptor summed = *this;
    summed.low_ += (panel_bytes >> 4) << 16;
    return summed;
  }

  __device__ __forceinline__ std::uint64_t bits() const {
    constexpr std::uint64_t swizzle_128 = 1u << 30, atom_bytes = 1024;
    return (swizzle_128 | atom_bytes >> 4) << 32 | low_;
  }

private:
  /// Lane 0's, for which ptxas takes a uniform register, as products need it. It leaves the shuffle out, and moves the word for
  /// every product instead, where it sees that all lanes have the same: so the others have 0.
  static __device__ __forceinline__ std::uint32_t broadcast(std::uint32_t low) {
    if (lane_index() != 0) low = 0;
    asm volatile("shfl.sync.idx.b32 %0, %1, 0, 0x1f, 0xffffffff;" : "=r"(low) : "r"(low));
    return low;
  }

  std::uint32_t low_;  ///< the high word is the same for all
};

// ---- Order ---------------------------------------------------------------------------------------------------------

/// Before the first product after registers of one were written or read by anything else.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most `pending` of the latest groups are in flight.
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/// Keeps the compiler from moving uses of the values across this point.
template <int columns>
__device__ __forceinline__ void pin(Fragment<columns>& values) {
#pragma unroll
  for (int group = 0; group < Fragment<columns>::groups; ++group)
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(values.value[group][i]));
}

/// Waits for the other warps of the warpgroup. `barrier` is one of 16 that a thread block has; 0 is __syncthreads().
__device__ __forceinline__ void sync_warpgroup(int barrier) {
  asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
}

/// The warpgroup's share of registers, for each of its threads (PTX ISA, "setmaxnreg"). All four warps make the call.
template <int registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

// ---- Products ------------------------------------------------------------------------------------------------------

/// D = A B, or D += A B where `accumulates`: A and B in K-major panels.
template <class T, int columns>
__device__ __forceinline__ void wgmma_shared(Fragment<columns>& d, PanelDescriptor a, PanelDescriptor b,
                                             bool accumulates);

/// The same with A in registers and B in MN-major panels.
template <class T, int columns>
__device__ __forceinline__ void wgmma_registers(Fragment<columns>& d, std::uint32_t const (&a)[4],
                                                PanelDescriptor b, bool accumulates);

template <>
__device__ __forceinline__ void wgmma_shared<bfloat16, 64>(Fragment<64>& d, PanelDescriptor a,
                                                           PanelDescriptor b, bool accumulates) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, p, 1, 1, 0, 0;\n}\n"
      : "+f"(d.value[0][0]), "+f"(d.value[0][1]), "+f"(d.value[0][2]), "+f"(d.value[0][3]),
        "+f"(d.value[1][0]), "+f"(d.value[1][1]), "+f"(d.value[1][2]), "+f"(d.value[1][3]),
        "+f"(d.value[2][0]), "+f"(d.value[2][1]), "+f"(d.value[2][2]), "+f"(d.value[2][3]),
        "+f"(d.value[3][0]), "+f"(d.value[3][1]), "+f"(d.value[3][2]), "+f"(d.value[3][3]),
        "+f"(d.value[4][0]), "+f"(d.value[4][1]), "+f"(d.value[4][2]), "+f"(d.value[4][3]),
        "+f"(d.value[5][0]), "+f"(d.value[5][1]), "+f"(d.value[5][2]), "+f"(d.value[5][3]),
        "+f"(d.value[6][0]), "+f"(d.value[6][1]), "+f"(d.value[6][2]), "+f"(d.value[6][3]),
        "+f"(d.value[7][0]), "+f"(d.value[7][1]), "+f"(d.value[7][2]), "+f"(d.value[7][3])
      : "l"(a.bits()), "l"(b.bits()), "r"(static_cast<int>(accumulates)));
}

template <>
__device__ __forceinline__ void wgmma_registers<bfloat16, 64>(Fragment<64>& d, std::uint32_t const (&a)[4],
                                                              PanelDescriptor b, bool accumulates) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}\n"
      : "+f"(d.value[0][0]), "+f"(d.value[0][1]), "+f"(d.value[0][2]), "+f"(d.value[0][3]),
        "+f"(d.value[1][0]), "+f"(d.value[1][1]), "+f"(d.value[1][2]), "+f"(d.value[1][3]),
        "+f"(d.value[2][0]), "+f"(d.value[2][1]), "+f"(d.value[2][2]), "+f"(d.value[2][3]),
        "+f"(d.value[3][0]), "+f"(d.value[3][1]), "+f"(d.value[3][2]), "+f"(d.value[3][3]),
        "+f"(d.value[4][0]), "+f"(d.value[4][1]), "+f"(d.value[4][2]), "+f"(d.value[4][3]),
        "+f"(d.value[5][0]), "+f"(d.value[5][1]), "+f"(d.value[5][2]), "+f"(d.value[5][3]),
        "+f"(d.value[6][0]), "+f"(d.value[6][1]), "+f"(d.value[6][2]), "+f"(d.value[6][3]),
        "+f"(d.value[7][0]), "+f"(d.value[7][1]), "+f"(d.value[7][2]), "+f"(d.value[7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits()), "r"(static_cast<int>(accumulates)));
}

template <>
__device__ __forceinline__ void wgmma_shared<float16, 64>(Fragment<64>& d, PanelDescriptor a,
                                                          PanelDescriptor b, bool accumulates) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, p, 1, 1, 0, 0;\n}\n"
      : "+f"(d.value[0][0]), "+f"(d.value[0][1]), "+f"(d.value[0][2]), "+f"(d.value[0][3]),
        "+f"(d.value[1][0]), "+f"(d.value[1][1]), "+f"(d.value[1][2]), "+f"(d.value[1][3]),
        "+f"(d.value[2][0]), "+f"(d.value[2][1]), "+f"(d.value[2][2]), "+f"(d.value[2][3]),
        "+f"(d.value[3][0]), "+f"(d.value[3][1]), "+f"(d.value[3][2]), "+f"(d.value[3][3]),
        "+f"(d.value[4][0]), "+f"(d.value[4][1]), "+f"(d.value[4][2]), "+f"(d.value[4][3]),
        "+f"(d.value[5][0]), "+f"(d.value[5][1]), "+f"(d.value[5][2]), "+f"(d.value[5][3]),
        "+f"(d.value[6][0]), "+f"(d.value[6][1]), "+f"(d.value[6][2]), "+f"(d.value[6][3]),
        "+f"(d.value[7][0]), "+f"(d.value[7][1]), "+f"(d.value[7][2]), "+f"(d.value[7][3])
      : "l"(a.bits()), "l"(b.bits()), "r"(static_cast<int>(accumulates)));
}

template <>
__device__ __forceinline__ void wgmma_registers<float16, 64>(Fragment<64>& d, std::uint32_t const (&a)[4],
                                                             PanelDescriptor b, bool accumulates) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}\n"
      : "+f"(d.value[0][0]), "+f"(d.value[0][1]), "+f"(d.value[0][2]), "+f"(d.value[0][3]),
        "+f"(d.value[1][0]), "+f"(d.value[1][1]), "+f"(d.value[1][2]), "+f"(d.value[1][3]),
        "+f"(d.value[2][0]), "+f"(d.value[2][1]), "+f"(d.value[2][2]), "+f"(d.value[2][3]),
        "+f"(d.value[3][0]), "+f"(d.value[3][1]), "+f"(d.value[3][2]), "+f"(d.value[3][3]),
        "+f"(d.value[4][0]), "+f"(d.value[4][1]), "+f"(d.value[4][2]), "+f"(d.value[4][3]),
        "+f"(d.value[5][0]), "+f"(d.value[5][1]), "+f"(d.value[5][2]), "+f"(d.value[5][3]),
        "+f"(d.value[6][0]), "+f"(d.value[6][1]), "+f"(d.value[6][2]), "+f"(d.value[6][3]),
        "+f"(d.value[7][0]), "+f"(d.value[7][1]), "+f"(d.value[7][2]), "+f"(d.value[7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits()), "r"(static_cast<int>(accumulates)));
}

template <>
__device__ __forceinline__ void wgmma_shared<bfloat16, 128>(Fragment<128>& d, PanelDescriptor a,
                                                            PanelDescriptor b, bool accumulates) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0;\n}\n"
      : "+f"(d.value[0][0]), "+f"(d.value[0][1]), "+f"(d.value[0][2]), "+f"(d.value[0][3]),
        "+f"(d.value[1][0]), "+f"(d.value[1][1]), "+f"(d.value[1][2]), "+f"(d.value[1][3]),
        "+f"(d.value[2][0]), "+f"(d.value[2][1]), "+f"(d.value[2][2]), "+f"(d.value[2][3]),
        "+f"(d.value[3][0]), "+f"(d.value[3][1]), "+f"(d.value[3][2]), "+f"(d.value[3][3]),
        "+f"(d.value[4][0]), "+f"(d.value[4][1]), "+f"(d.value[4][2]), "+f"(d.value[4][3]),
        "+f"(d.value[5][0]), "+f"(d.value[5][1]), "+f"(d.value[5][2]), "+f"(d.value[5][3]),
        "+f"(d.value[6][0]), "+f"(d.value[6][1]), "+f"(d.value[6][2]), "+f"(d.value[6][3]),
        "+f"(d.value[7][0]), "+f"(d.value[7][1]), "+f"(d.value[7][2]), "+f"(d.value[7][3]),
        "+f"(d.value[8][0]), "+f"(d.value[8][1]), "+f"(d.value[8][2]), "+f"(d.value[8][3]),
        "+f"(d.value[9][0]), "+f"(d.value[9][1]), "+f"(d.value[9][2]), "+f"(d.value[9][3]),
        "+f"(d.value[10][0]), "+f"(d.value[10][1]), "+f"(d.value[10][2]), "+f"(d.value[10][3]),
        "+f"(d.value[11][0]), "+f"(d.value[11][1]), "+f"(d.value[11][2]), "+f"(d.value[11][3]),
        "+f"(d.value[12][0]), "+f"(d.value[12][1]), "+f"(d.value[12][2]), "+f"(d.value[12][3]),
        "+f"(d.value[13][0]), "+f"(d.value[13][1]), "+f"(d.value[13][2]), "+f"(d.value[13][3]),
        "+f"(d.value[14][0]), "+f"(d.value[14][1]), "+f"(d.value[14][2]), "+f"(d.value[14][3]),
        "+f"(d.value[15][0]), "+f"(d.value[15][1]), "+f"(d.value[15][2]), "+f"(d.value[15][3])
      : "l"(a.bits()), "l"(b.bits()), "r"(static_cast<int>(accumulates)));
}

template <>
__device__ __forceinline__ void wgmma_registers<bfloat16, 128>(Fragment<128>& d, std::uint32_t const (&a)[4],
                                                               PanelDescriptor b, bool accumulates) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}\n"
      : "+f"(d.value[0][0]), "+f"(d.value[0][1]), "+f"(d.value[0][2]), "+f"(d.value[0][3]),
        "+f"(d.value[1][0]), "+f"(d.value[1][1]), "+f"(d.value[1][2]), "+f"(d.value[1][3]),
        "+f"(d.value[2][0]), "+f"(d.value[2][1]), "+f"(d.value[2][2]), "+f"(d.value[2][3]),
        "+f"(d.value[3][0]), "+f"(d.value[3][1]), "+f"(d.value[3][2]), "+f"(d.value[3][3]),
        "+f"(d.value[4][0]), "+f"(d.value[4][1]), "+f"(d.value[4][2]), "+f"(d.value[4][3]),
        "+f"(d.value[5][0]), "+f"(d.value[5][1]), "+f"(d.value[5][2]), "+f"(d.value[5][3]),
        "+f"(d.value[6][0]), "+f"(d.value[6][1]), "+f"(d.value[6][2]), "+f"(d.value[6][3]),
        "+f"(d.value[7][0]), "+f"(d.value[7][1]), "+f"(d.value[7][2]), "+f"(d.value[7][3]),
        "+f"(d.value[8][0]), "+f"(d.value[8][1]), "+f"(d.value[8][2]), "+f"(d.value[8][3]),
        "+f"(d.value[9][0]), "+f"(d.value[9][1]), "+f"(d.value[9][2]), "+f"(d.value[9][3]),
        "+f"(d.value[10][0]), "+f"(d.value[10][1]), "+f"(d.value[10][2]), "+f"(d.value[10][3]),
        "+f"(d.value[11][0]), "+f"(d.value[11][1]), "+f"(d.value[11][2]), "+f"(d.value[11][3]),
        "+f"(d.value[12][0]), "+f"(d.value[12][1]), "+f"(d.value[12][2]), "+f"(d.value[12][3]),
        "+f"(d.value[13][0]), "+f"(d.value[13][1]), "+f"(d.value[13][2]), "+f"(d.value[13][3]),
        "+f"(d.value[14][0]), "+f"(d.value[14][1]), "+f"(d.value[14][2]), "+f"(d.value[14][3]),
        "+f"(d.value[15][0]), "+f"(d.value[15][1]), "+f"(d.value[15][2]), "+f"(d.value[15][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits()), "r"(static_cast<int>(accumulates)));
}

template <>
__device__ __forceinline__ void wgmma_shared<float16, 128>(Fragment<128>& d, PanelDescriptor a,
                                                           PanelDescriptor b, bool accumulates) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0;\n}\n"
      : "+f"(d.value[0][0]), "+f"(d.value[0][1]), "+f"(d.value[0][2]), "+f"(d.value[0][3]),
        "+f"(d.value[1][0]), "+f"(d.value[1][1]), "+f"(d.value[1][2]), "+f"(d.value[1][3]),
        "+f"(d.value[2][0]), "+f"(d.value[2][1]), "+f"(d.value[2][2]), "+f"(d.value[2][3]),
        "+f"(d.value[3][0]), "+f"(d.value[3][1]), "+f"(d.value[3][2]), "+f"(d.value[3][3]),
        "+f"(d.value[4][0]), "+f"(d.value[4][1]), "+f"(d.value[4][2]), "+f"(d.value[4][3]),
        "+f"(d.value[5][0]), "+f"(d.value[5][1]), "+f"(d.value[5][2]), "+f"(d.value[5][3]),
        "+f"(d.value[6][0]), "+f"(d.value[6][1]), "+f"(d.value[6][2]), "+f"(d.value[6][3]),
        "+f"(d.value[7][0]), "+f"(d.value[7][1]), "+f"(d.value[7][2]), "+f"(d.value[7][3]),
        "+f"(d.value[8][0]), "+f"(d.value[8][1]), "+f"(d.value[8][2]), "+f"(d.value[8][3]),
        "+f"(d.value[9][0]), "+f"(d.value[9][1]), "+f"(d.value[9][2]), "+f"(d.value[9][3]),
        "+f"(d.value[10][0]), "+f"(d.value[10][1]), "+f"(d.value[10][2]), "+f"(d.value[10][3]),
        "+f"(d.value[11][0]), "+f"(d.value[11][1]), "+f"(d.value[11][2]), "+f"(d.value[11][3]),
        "+f"(d.value[12][0]), "+f"(d.value[12][1]), "+f"(d.value[12][2]), "+f"(d.value[12][3]),
        "+f"(d.value[13][0]), "+f"(d.value[13][1]), "+f"(d.value[13][2]), "+f"(d.value[13][3]),
        "+f"(d.value[14][0]), "+f"(d.value[14][1]), "+f"(d.value[14][2]), "+f"(d.value[14][3]),
        "+f"(d.value[15][0]), "+f"(d.value[15][1]), "+f"(d.value[15][2]), "+f"(d.value[15][3])
      : "l"(a.bits()), "l"(b.bits()), "r"(static_cast<int>(accumulates)));
}

template <>
__device__ __forceinline__ void wgmma_registers<float16, 128>(Fragment<128>& d, std::uint32_t const (&a)[4],
                                                              PanelDescriptor b, bool accumulates) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}\n"
      : "+f"(d.value[0][0]), "+f"(d.value[0][1]), "+f"(d.value[0][2]), "+f"(d.value[0][3]),
        "+f"(d.value[1][0]), "+f"(d.value[1][1]), "+f"(d.value[1][2]), "+f"(d.value[1][3]),
        "+f"(d.value[2][0]), "+f"(d.value[2][1]), "+f"(d.value[2][2]), "+f"(d.value[2][3]),
        "+f"(d.value[3][0]), "+f"(d.value[3][1]), "+f"(d.value[3][2]), "+f"(d.value[3][3]),
        "+f"(d.value[4][0]), "+f"(d.value[4][1]), "+f"(d.value[4][2]), "+f"(d.value[4][3]),
        "+f"(d.value[5][0]), "+f"(d.value[5][1]), "+f"(d.value[5][2]), "+f"(d.value[5][3]),
        "+f"(d.value[6][0]), "+f"(d.value[6][1]), "+f"(d.value[6][2]), "+f"(d.value[6][3]),
        "+f"(d.value[7][0]), "+f"(d.value[7][1]), "+f"(d.value[7][2]), "+f"(d.value[7][3]),
        "+f"(d.value[8][0]), "+f"(d.value[8][1]), "+f"(d.value[8][2]), "+f"(d.value[8][3]),
        "+f"(d.value[9][0]), "+f"(d.value[9][1]), "+f"(d.value[9][2]), "+f"(d.value[9][3]),
        "+f"(d.value[10][0]), "+f"(d.value[10][1]), "+f"(d.value[10][2]), "+f"(d.value[10][3]),
        "+f"(d.value[11][0]), "+f"(d.value[11][1]), "+f"(d.value[11][2]), "+f"(d.value[11][3]),
        "+f"(d.value[12][0]), "+f"(d.value[12][1]), "+f"(d.value[12][2]), "+f"(d.value[12][3]),
        "+f"(d.value[13][0]), "+f"(d.value[13][1]), "+f"(d.value[13][2]), "+f"(d.value[13][3]),
        "+f"(d.value[14][0]), "+f"(d.value[14][1]), "+f"(d.value[14][2]), "+f"(d.value[14][3]),
        "+f"(d.value[15][0]), "+f"(d.value[15][1]), "+f"(d.value[15][2]), "+f"(d.value[15][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits()), "r"(static_cast<int>(accumulates)));
}

/// D = A B, or D += A B where `accumulates`: A in registers and B in K-major panels.
template <class T, int columns>
__device__ __forceinline__ void wgmma_registers_k_major(Fragment<columns>& d, std::uint32_t const (&a)[4],
                                                        PanelDescriptor b, bool accumulates);

template <>
__device__ __forceinline__ void wgmma_registers_k_major<bfloat16, 128>(Fragment<128>& d,
                                                                       std::uint32_t const (&a)[4],
                                                                       PanelDescriptor b, bool accumulates) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, p, 1, 1, 0;\n}\n"
      : "+f"(d.value[0][0]), "+f"(d.value[0][1]), "+f"(d.value[0][2]), "+f"(d.value[0][3]),
        "+f"(d.value[1][0]), "+f"(d.value[1][1]), "+f"(d.value[1][2]), "+f"(d.value[1][3]),
        "+f"(d.value[2][0]), "+f"(d.value[2][1]), "+f"(d.value[2][2]), "+f"(d.value[2][3]),
        "+f"(d.value[3][0]), "+f"(d.value[3][1]), "+f"(d.value[3][2]), "+f"(d.value[3][3]),
        "+f"(d.value[4][0]), "+f"(d.value[4][1]), "+f"(d.value[4][2]), "+f"(d.value[4][3]),
        "+f"(d.value[5][0]), "+f"(d.value[5][1]), "+f"(d.value[5][2]), "+f"(d.value[5][3]),
        "+f"(d.value[6][0]), "+f"(d.value[6][1]), "+f"(d.value[6][2]), "+f"(d.value[6][3]),
        "+f"(d.value[7][0]), "+f"(d.value[7][1]), "+f"(d.value[7][2]), "+f"(d.value[7][3]),
        "+f"(d.value[8][0]), "+f"(d.value[8][1]), "+f"(d.value[8][2]), "+f"(d.value[8][3]),
        "+f"(d.value[9][0]), "+f"(d.value[9][1]), "+f"(d.value[9][2]), "+f"(d.value[9][3]),
        "+f"(d.value[10][0]), "+f"(d.value[10][1]), "+f"(d.value[10][2]), "+f"(d.value[10][3]),
        "+f"(d.value[11][0]), "+f"(d.value[11][1]), "+f"(d.value[11][2]), "+f"(d.value[11][3]),
        "+f"(d.value[12][0]), "+f"(d.value[12][1]), "+f"(d.value[12][2]), "+f"(d.value[12][3]),
        "+f"(d.value[13][0]), "+f"(d.value[13][1]), "+f"(d.value[13][2]), "+f"(d.value[13][3]),
        "+f"(d.value[14][0]), "+f"(d.value[14][1]), "+f"(d.value[14][2]), "+f"(d.value[14][3]),
        "+f"(d.value[15][0]), "+f"(d.value[15][1]), "+f"(d.value[15][2]), "+f"(d.value[15][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits()), "r"(static_cast<int>(accumulates)));
}

template <>
__device__ __forceinline__ void wgmma_registers_k_major<float16, 128>(Fragment<128>& d,
                                                                      std::uint32_t const (&a)[4],
                                                                      PanelDescriptor b, bool accumulates) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, p, 1, 1, 0;\n}\n"
      : "+f"(d.value[0][0]), "+f"(d.value[0][1]), "+f"(d.value[0][2]), "+f"(d.value[0][3]),
        "+f"(d.value[1][0]), "+f"(d.value[1][1]), "+f"(d.value[1][2]), "+f"(d.value[1][3]),
        "+f"(d.value[2][0]), "+f"(d.value[2][1]), "+f"(d.value[2][2]), "+f"(d.value[2][3]),
        "+f"(d.value[3][0]), "+f"(d.value[3][1]), "+f"(d.value[3][2]), "+f"(d.value[3][3]),
        "+f"(d.value[4][0]), "+f"(d.value[4][1]), "+f"(d.value[4][2]), "+f"(d.value[4][3]),
        "+f"(d.value[5][0]), "+f"(d.value[5][1]), "+f"(d.value[5][2]), "+f"(d.value[5][3]),
        "+f"(d.value[6][0]), "+f"(d.value[6][1]), "+f"(d.value[6][2]), "+f"(d.value[6][3]),
        "+f"(d.value[7][0]), "+f"(d.value[7][1]), "+f"(d.value[7][2]), "+f"(d.value[7][3]),
        "+f"(d.value[8][0]), "+f"(d.value[8][1]), "+f"(d.value[8][2]), "+f"(d.value[8][3]),
        "+f"(d.value[9][0]), "+f"(d.value[9][1]), "+f"(d.value[9][2]), "+f"(d.value[9][3]),
        "+f"(d.value[10][0]), "+f"(d.value[10][1]), "+f"(d.value[10][2]), "+f"(d.value[10][3]),
        "+f"(d.value[11][0]), "+f"(d.value[11][1]), "+f"(d.value[11][2]), "+f"(d.value[11][3]),
        "+f"(d.value[12][0]), "+f"(d.value[12][1]), "+f"(d.value[12][2]), "+f"(d.value[12][3]),
        "+f"(d.value[13][0]), "+f"(d.value[13][1]), "+f"(d.value[13][2]), "+f"(d.value[13][3]),
        "+f"(d.value[14][0]), "+f"(d.value[14][1]), "+f"(d.value[14][2]), "+f"(d.value[14][3]),
        "+f"(d.value[15][0]), "+f"(d.value[15][1]), "+f"(d.value[15][2]), "+f"(d.value[15][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits()), "r"(static_cast<int>(accumulates)));
}

template <>
__device__ __forceinline__ void wgmma_registers_k_major<float16, 64>(Fragment<64>& d,
                                                                     std::uint32_t const (&a)[4],
                                                                     PanelDescriptor b, bool accumulates) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}\n"
      : "+f"(d.value[0][0]), "+f"(d.value[0][1]), "+f"(d.value[0][2]), "+f"(d.value[0][3]),
        "+f"(d.value[1][0]), "+f"(d.value[1][1]), "+f"(d.value[1][2]), "+f"(d.value[1][3]),
        "+f"(d.value[2][0]), "+f"(d.value[2][1]), "+f"(d.value[2][2]), "+f"(d.value[2][3]),
        "+f"(d.value[3][0]), "+f"(d.value[3][1]), "+f"(d.value[3][2]), "+f"(d.value[3][3]),
        "+f"(d.value[4][0]), "+f"(d.value[4][1]), "+f"(d.value[4][2]), "+f"(d.value[4][3]),
        "+f"(d.value[5][0]), "+f"(d.value[5][1]), "+f"(d.value[5][2]), "+f"(d.value[5][3]),
        "+f"(d.value[6][0]), "+f"(d.value[6][1]), "+f"(d.value[6][2]), "+f"(d.value[6][3]),
        "+f"(d.value[7][0]), "+f"(d.value[7][1]), "+f"(d.value[7][2]), "+f"(d.value[7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits()), "r"(static_cast<int>(accumulates)));
}

}  // namespace sparge
