#include "probe.hpp"
#include "probe_run.cuh"
#include "sparge/collective/load_tile.cuh"
#include "sparge/device/convert.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/math.cuh"

namespace sparge::probe {

template <class T>
__global__ void pack_kernel(float const* low, float const* high, std::uint32_t* out) {
  out[threadIdx.x] = pack<T>(low[threadIdx.x], high[threadIdx.x]);
}

template <class T>
std::vector<std::uint32_t> run_pack(std::vector<float> const& low, std::vector<float> const& high) {
  Array<float> const device_low(low), device_high(high);
  Array<std::uint32_t> const out(low.size());
  pack_kernel<T><<<1, static_cast<unsigned>(low.size())>>>(device_low.data(), device_high.data(), out.data());
  return out.download();
}

std::vector<std::uint32_t> pack_bf16(std::vector<float> const& low, std::vector<float> const& high) {
  return run_pack<bfloat16>(low, high);
}
std::vector<std::uint32_t> pack_f16(std::vector<float> const& low, std::vector<float> const& high) {
  return run_pack<float16>(low, high);
}

__global__ void exp2_kernel(float const* x, float* y) { y[threadIdx.x] = sparge::exp2_fast(x[threadIdx.x]); }

std::vector<float> exp2_fast(std::vector<float> const& x) {
  Array<float> const in(x), out(x.size());
  exp2_kernel<<<1, static_cast<unsigned>(x.size())>>>(in.data(), out.data());
  return out.download();
}

template <int channels>
__global__ void swizzle_kernel(int* offsets) {
  constexpr int chunks = SwizzledTile<channels>::chunks;
  for (int chunk = 0; chunk < chunks; ++chunk)
    offsets[threadIdx.x * chunks + chunk] =
        SwizzledTile<channels>::offset(static_cast<int>(threadIdx.x), chunk);
}

std::vector<int> swizzle_offsets(int channels, int rows) {
  Array<int> const out(static_cast<std::size_t>(rows) * channels / 8);
  if (channels == 64)
    swizzle_kernel<64><<<1, rows>>>(out.data());
  else
    swizzle_kernel<128><<<1, rows>>>(out.data());
  return out.download();
}

__global__ void swizzle_step_kernel(int* errors) {
  using Tile = SwizzledTile<128>;
  int const row = static_cast<int>(threadIdx.x);
  for (int half = 0; half < 2; ++half)
    for (int on = 0; on < Tile::chunks; on += 2)
      errors[row * Tile::chunks + half + on] =
          static_cast<int>(Tile::step(4096 + Tile::offset(row, half), on)) - 4096 -
          Tile::offset(row, half + on);
}

std::vector<int> swizzle_step_errors(int rows) {
  Array<int> const out(static_cast<std::size_t>(rows) * 16);
  swizzle_step_kernel<<<1, rows>>>(out.data());
  return out.download();
}

__global__ void cp_async_kernel(std::uint8_t const* source, int const* valid, std::uint8_t* out) {
  __shared__ alignas(16) std::uint8_t staged[512];
  for (int i = 0; i < 16; ++i) staged[threadIdx.x * 16 + i] = 0xAB;
  __syncwarp();
  cp_async_16(shared_address(staged + threadIdx.x * 16), source + threadIdx.x * 16, valid[threadIdx.x] != 0);
  cp_async_commit();
  cp_async_wait<0>();
  __syncwarp();
  for (int i = 0; i < 16; ++i) out[threadIdx.x * 16 + i] = staged[threadIdx.x * 16 + i];
}

std::vector<std::uint8_t> cp_async(std::vector<std::uint8_t> const& source, std::vector<int> const& valid) {
  Array<std::uint8_t> const in(source), out(512);
  Array<int> const device_valid(valid);
  cp_async_kernel<<<1, 32>>>(in.data(), device_valid.data(), out.data());
  return out.download();
}

template <int channels>
__global__ void load_tile_kernel(bfloat16 const* tensor, int tokens, int token_stride, int first,
                                 std::uint16_t* out) {
  __shared__ alignas(1024) unsigned char tile[64 * channels * 2];
  sparge::load_tile<64, channels, 128>(shared_address(tile), HeadView<bfloat16>{tensor, token_stride, tokens},
                                       first);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 64 * channels; i += 128) {
    int const offset = SwizzledTile<channels>::offset(i / channels, i % channels / 8) + i % 8 * 2;
    out[i] = *reinterpret_cast<std::uint16_t const*>(tile + offset);
  }
}

std::vector<std::uint16_t> load_tile(std::vector<std::uint16_t> const& tensor, int tokens, int channels,
                                     int token_stride, int first) {
  Array<std::uint16_t> const in(tensor), out(static_cast<std::size_t>(64) * channels);
  auto const* const data = reinterpret_cast<bfloat16 const*>(in.data());
  if (channels == 64)
    load_tile_kernel<64><<<1, 128>>>(data, tokens, token_stride, first, out.data());
  else
    load_tile_kernel<128><<<1, 128>>>(data, tokens, token_stride, first, out.data());
  return out.download();
}

}  // namespace sparge::probe
