#include "probe.hpp"
#include "probe_run.cuh"
#include "sparge/collective/store.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/ldmatrix.cuh"
#include "sparge/device/mma_sm80.cuh"

namespace sparge::probe {

template <class T>
__global__ void rows_kernel(std::uint16_t const* a, std::uint16_t const* b, float* d) {
  __shared__ alignas(16) std::uint16_t a_tile[16][16], b_tile[16][16];
  int const lane = lane_index();
  for (int i = lane; i < 256; i += 32)
    a_tile[i / 16][i % 16] = a[i], b_tile[i / 16][i % 16] = i < 128 ? b[i] : 0;
  __syncwarp();
  std::uint32_t a_operand[4], b_operand[4];
  ldmatrix(a_operand, shared_address(&a_tile[lane % 16][lane / 16 * 8]));
  ldmatrix(b_operand, shared_address(&b_tile[lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8]));
  Fragment<8> result;
  result.clear();
  mma_16x8x16<T>(result.value[0], a_operand, b_operand[0], b_operand[1]);
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 2; ++c) d[result.row(r) * 8 + result.column(0, c)] = result.at(r, 0, c);
}

template <class T>
__global__ void columns_kernel(std::uint16_t const* a, std::uint16_t const* b, float* d) {
  __shared__ alignas(16) std::uint16_t a_tile[16][16], b_tile[16][16];
  int const lane = lane_index();
  for (int i = lane; i < 256; i += 32)
    a_tile[i / 16][i % 16] = a[i], b_tile[i / 16][i % 16] = i % 16 < 8 ? b[i / 16 * 8 + i % 16] : 0;
  __syncwarp();
  std::uint32_t a_operand[4], b_operand[4];
  ldmatrix(a_operand, shared_address(&a_tile[lane % 16][lane / 16 * 8]));
  ldmatrix_transposed(b_operand, shared_address(&b_tile[lane % 16][lane / 16 * 8]));
  Fragment<8> result;
  result.clear();
  mma_16x8x16<T>(result.value[0], a_operand, b_operand[0], b_operand[1]);
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 2; ++c) d[result.row(r) * 8 + result.column(0, c)] = result.at(r, 0, c);
}

std::vector<float> product_by_rows(Type type, std::vector<std::uint16_t> const& a,
                                   std::vector<std::uint16_t> const& b) {
  Array<std::uint16_t> const device_a(a), device_b(b);
  Array<float> const d(128);
  auto* const kernel = type == Type::bf16 ? rows_kernel<bfloat16> : rows_kernel<float16>;
  kernel<<<1, 32>>>(device_a.data(), device_b.data(), d.data());
  return d.download();
}

std::vector<float> product_by_columns(Type type, std::vector<std::uint16_t> const& a,
                                      std::vector<std::uint16_t> const& b) {
  Array<std::uint16_t> const device_a(a), device_b(b);
  Array<float> const d(128);
  auto* const kernel = type == Type::bf16 ? columns_kernel<bfloat16> : columns_kernel<float16>;
  kernel<<<1, 32>>>(device_a.data(), device_b.data(), d.data());
  return d.download();
}

template <int columns>
__device__ void read_accumulator(Fragment<columns>& fragment, float const* values) {
  for (int group = 0; group < fragment.groups; ++group)
    for (int r = 0; r < 2; ++r)
      for (int c = 0; c < 2; ++c)
        fragment.at(r, group, c) = values[fragment.row(r) * columns + fragment.column(group, c)];
}

template <class T>
__global__ void operand_kernel(float const* accumulator, int first, float* d) {
  Fragment<64> fragment;
  read_accumulator(fragment, accumulator);
  Fragment<8> result;
  result.clear();
  int const lane = lane_index();
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    std::uint32_t a[4];
    fragment.template to_operand<T>(a, step);
    // Column lane / 4 of the operand B selects accumulator column first + lane / 4.
    auto const one_at = [&](int k) { return 16 * step + k == first + lane / 4 ? 1.0f : 0.0f; };
    int const k = 2 * (lane % 4);
    mma_16x8x16<T>(result.value[0], a, pack<T>(one_at(k), one_at(k + 1)),
                   pack<T>(one_at(k + 8), one_at(k + 9)));
  }
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 2; ++c) d[result.row(r) * 8 + result.column(0, c)] = result.at(r, 0, c);
}

std::vector<float> operand_round_trip(Type type, std::vector<float> const& accumulator, int first) {
  Array<float> const in(accumulator), d(128);
  auto* const kernel = type == Type::bf16 ? operand_kernel<bfloat16> : operand_kernel<float16>;
  kernel<<<1, 32>>>(in.data(), first, d.data());
  return d.download();
}

__global__ void store_kernel(float const* accumulator, bfloat16* out, int row_stride, int valid_rows) {
  __shared__ alignas(1024) unsigned char tile[16 * 256];
  Fragment<128> fragment;
  read_accumulator(fragment, accumulator);
  stage_rows<bfloat16>(tile, fragment);
  __syncwarp();
  store_rows<16, 128>(tile, out, row_stride, valid_rows);
}

std::vector<std::uint16_t> stage_and_store(std::vector<float> const& accumulator,
                                           std::vector<std::uint16_t> out, int row_stride, int valid_rows) {
  Array<float> const in(accumulator);
  Array<std::uint16_t> const device_out(out);
  store_kernel<<<1, 32>>>(in.data(), reinterpret_cast<bfloat16*>(device_out.data()), row_stride, valid_rows);
  return device_out.download();
}

}  // namespace sparge::probe
