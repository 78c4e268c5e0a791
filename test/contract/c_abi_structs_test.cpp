// Structs that begin with their size, between callers and libraries of different versions.

#include <cstring>

#include "c_api/structs.hpp"
#include "contract/c_structs.hpp"
#include "contract/fake_device.hpp"
#include "support/gpu.hpp"

// A struct that grew once: `first` is all that its first version had.
struct grown_struct {
  std::size_t struct_size;
  std::int64_t first, second;
};

template <>
inline constexpr std::size_t sparge::c_api::first_bytes<grown_struct> = 16;

using namespace sparge;
using namespace sparge::test;

namespace {

/// A version of a struct that has one more member.
template <class T>
struct Newer {
  T known{};
  std::int64_t later = 0;

  explicit Newer(T const& from) : known(from) { known.struct_size = sizeof(Newer); }
  T* get() { return reinterpret_cast<T*>(this); }
};

AttentionProblem some_problem() { return {2, 4, 2, 300, 2100, 64}; }

}  // namespace

TEST_CASE("Sizes of the C structs stay what they were published as") {
  CHECK(sizeof(sparge_status) == 512);
  CHECK(sizeof(sparge_plan) == 512);
  CHECK(sizeof(sparge_device) == 48);
  CHECK(sizeof(sparge_problem) == 88);
  CHECK(sizeof(sparge_options) == 24);
  CHECK(sizeof(sparge_tensor) == 80);
  CHECK(sizeof(sparge_mask) == 16);
  CHECK(sizeof(sparge_mask_rule) == 88);
  CHECK(sizeof(sparge_mask_stats_record) == 56);
  CHECK(sizeof(sparge_kernel) == 32);
  CHECK(sizeof(sparge_pool_args) == 184);
  CHECK(sizeof(sparge_select_blocks_args) == 48);
  CHECK(sizeof(sparge_build_mask_args) == 192);
  CHECK(sizeof(sparge_mask_stats_args) == 56);
  CHECK(sizeof(sparge_calibration_record) == 64);
  CHECK(sizeof(sparge_calibrate_args) == 64);
  CHECK(sizeof(sparge_forward_args) == 352);
  CHECK(sizeof(sparge_backward_args) == 680);
  CHECK(sizeof(sparge_partial) == 88);
  CHECK(sizeof(sparge_merge_partials_args) == 280);
  CHECK(sizeof(sparge_distillation_problem) == 24);
  CHECK(sizeof(sparge_distillation_loss_args) == 64);
  CHECK(sizeof(sparge_interpolate_args) == 48);
  CHECK(sizeof(sparge_transpose_mask_args) == 40);
  CHECK(sizeof(sparge_slice_mask_args) == 72);
  CHECK(sizeof(sparge_byte_mask_args) == 40);
  CHECK(sizeof(sparge_block_lists_args) == 48);
}

TEST_CASE("A struct of an older caller reads as zero where it ends") {
  grown_struct given{16, 7, 99}, known{};
  must(c_api::read(&given, &known));
  CHECK(known.first == 7);
  CHECK(known.second == 0);
  given.struct_size = 24;
  must(c_api::read(&given, &known));
  CHECK(known.second == 99);
}

TEST_CASE("A struct of an older caller is written only where it has room") {
  grown_struct to{16, 1, 99};
  must(c_api::check_size(&to));
  c_api::write(grown_struct{0, 5, 6}, &to);
  CHECK(to.struct_size == 16);
  CHECK(to.first == 5);
  CHECK(to.second == 99);
}

TEST_CASE("A struct smaller than its first version or absurdly large is refused") {
  grown_struct given{};
  for (std::size_t size :
       {std::size_t{0}, std::size_t{8}, std::size_t{15}, std::size_t{1} << 20, ~std::size_t{0}}) {
    CAPTURE(size);
    given.struct_size = size;
    CHECK(c_api::check_size(&given).code == StatusCode::invalid_argument);
  }
}

TEST_CASE("Members of a newer caller are accepted at zero and refused by name where they are used") {
  Newer<sparge_problem> problem(c_problem(some_problem()));
  auto status = sized<sparge_status>();
  std::size_t words = 0;
  check_c_ok(sparge_mask_words(problem.get(), &words, &status), status);
  CHECK(words == 2u * 4 * 3 * 2);
  problem.later = std::int64_t{1} << 56;
  words = 99;
  check_c_refused(sparge_mask_words(problem.get(), &words, &status), status, SPARGE_UNSUPPORTED,
                  "problem.struct_size", 96, 88);
  CHECK(words == 99);
}

TEST_CASE("Members of a newer caller are set to zero where the library writes") {
  Newer<sparge_kernel> kernel(sized<sparge_kernel>());
  kernel.later = 77;
  auto status = sized<sparge_status>();
  check_c_ok(sparge_supported_kernel(0, kernel.get(), &status), status);
  CHECK(kernel.known.struct_size == sizeof kernel);
  CHECK(kernel.known.head_dim > 0);
  CHECK(kernel.later == 0);
}

TEST_CASE("A struct whose size was not set is refused by name") {
  auto problem = c_problem(some_problem());
  auto device = c_device(big_device());
  auto options = sized<sparge_options>();
  auto plan = sized<sparge_plan>();
  auto status = sized<sparge_status>();
  auto const plan_forward = [&] {
    return sparge_plan_forward(&problem, SPARGE_BF16, &device, &options, &plan, &status);
  };
  check_c_ok(plan_forward(), status);
  problem.struct_size = 0;
  check_c_refused(plan_forward(), status, SPARGE_INVALID_ARGUMENT, "problem.struct_size", 0, 88);
  problem.struct_size = sizeof problem, device.struct_size = sizeof(void*);
  check_c_refused(plan_forward(), status, SPARGE_INVALID_ARGUMENT, "device.struct_size", 8, 48);
  device.struct_size = sizeof device, options.struct_size = sizeof(void*);
  check_c_refused(plan_forward(), status, SPARGE_INVALID_ARGUMENT, "options.struct_size", 8, 24);
  options.struct_size = sizeof options, plan.struct_size = sizeof plan + 8;
  check_c_refused(plan_forward(), status, SPARGE_INVALID_ARGUMENT, "plan.struct_size", 520, 512);
}

TEST_CASE("A status may be null and one of a wrong size stops the call") {
  auto problem = c_problem(some_problem());
  std::size_t words = 99;
  CHECK(sparge_mask_words(&problem, &words, nullptr) == SPARGE_OK);
  CHECK(words == 48);
  CHECK(sparge_mask_words(nullptr, &words, nullptr) == SPARGE_INVALID_ARGUMENT);

  words = 99;
  sparge_status unset;
  std::memset(&unset, 0xAB, sizeof unset);
  sparge_status const before = unset;
  CHECK(sparge_mask_words(&problem, &words, &unset) == SPARGE_INVALID_ARGUMENT);
  CHECK(words == 99);
  CHECK(std::memcmp(&unset, &before, sizeof unset) == 0);
}

TEST_CASE("Reserved members and switched-off values that are set are refused by name") {
  auto problem = c_problem(some_problem());
  auto device = c_device(big_device());
  auto options = sized<sparge_options>();
  auto plan = sized<sparge_plan>();
  auto status = sized<sparge_status>();
  auto const plan_pool = [&] {
    return sparge_plan_pool(&problem, SPARGE_F16, &device, &options, &plan, &status);
  };
  problem.reserved = 3;
  check_c_refused(plan_pool(), status, SPARGE_UNSUPPORTED, "problem.reserved", 3);
  problem.reserved = 0, options.reserved = 4;
  check_c_refused(plan_pool(), status, SPARGE_UNSUPPORTED, "options.reserved", 4);
  options.reserved = 0, options.force_kernel = 5;
  check_c_refused(plan_pool(), status, SPARGE_INVALID_ARGUMENT, "options.force_kernel", 5);
  options.has_force_kernel = 2;
  check_c_refused(plan_pool(), status, SPARGE_INVALID_ARGUMENT, "options.has_force_kernel", 2);
  options.has_force_kernel = 1, options.force_kernel = -1;
  check_c_refused(plan_pool(), status, SPARGE_INVALID_ARGUMENT, "options.force_kernel", -1);
  options = sized<sparge_options>(), options.pointer_check = 9;
  check_c_refused(plan_pool(), status, SPARGE_INVALID_ARGUMENT, "options.pointer_check", 9);
}
