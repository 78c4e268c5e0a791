// Version, device, sizes and kernels.

#include "c_api/answer.hpp"
#include "c_api/convert.hpp"
#include "sparge/plan/built.hpp"

using namespace sparge;
using namespace sparge::c_api;

namespace {

sparge_code describe_kernel(Status (*find)(std::int32_t, KernelInfo*) noexcept, std::int32_t index,
                            sparge_kernel* kernel, sparge_status* status) {
  return answer(status, [&]() -> Status {
    SPARGE_TRY(check_size(kernel));
    KernelInfo info{};
    SPARGE_TRY(find(index, &info));
    write({0, info.name, as_c(info.dtype), info.head_dim, info.q_tile, info.kv_tile}, kernel);
    return {};
  });
}

}  // namespace

char const* sparge_version(void) { return built::version; }

sparge_code sparge_query_device(std::int32_t ordinal, sparge_device* device, sparge_status* status) {
  return answer(status, [&]() -> Status {
    SPARGE_TRY(check_size(device));
    Device found;
    SPARGE_TRY(query_device(ordinal, &found));
    write(as_c(found), device);
    return {};
  });
}

sparge_code sparge_mask_words(sparge_problem const* problem, std::size_t* words, sparge_status* status) {
  return answer(status, [&]() -> Status {
    AttentionProblem p;
    SPARGE_TRY(convert(problem, &p));
    return mask_words(p, words);
  });
}

sparge_code sparge_transposed_mask_words(sparge_problem const* problem, std::size_t* words,
                                         sparge_status* status) {
  return answer(status, [&]() -> Status {
    AttentionProblem p;
    SPARGE_TRY(convert(problem, &p));
    return transposed_mask_words(p, words);
  });
}

std::int32_t sparge_supported_kernels(void) { return supported_kernels(); }

sparge_code sparge_supported_kernel(std::int32_t index, sparge_kernel* kernel, sparge_status* status) {
  return describe_kernel(supported_kernel, index, kernel, status);
}

std::int32_t sparge_supported_backward_kernels(void) { return supported_backward_kernels(); }

sparge_code sparge_supported_backward_kernel(std::int32_t index, sparge_kernel* kernel,
                                             sparge_status* status) {
  return describe_kernel(supported_backward_kernel, index, kernel, status);
}
