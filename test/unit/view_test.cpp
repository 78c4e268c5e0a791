/// What views may be: strides, addresses, and what of them the copy engine takes.

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "sparge/plan/validate.hpp"
#include "support/catch.hpp"

using namespace sparge;

namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

TensorView<bfloat16> view_with_strides(std::vector<std::int64_t> const& stride) {
  TensorView<bfloat16> view{reinterpret_cast<bfloat16*>(256), {2, 3, 5, 64}, {}};
  for (int axis = 0; axis < 4; ++axis) view.stride[axis] = stride[axis];
  return view;
}

Status check_output(TensorView<bfloat16> const& view) {
  return validate_view({"out.data", "out.shape", "out.stride"}, view, 2, 3, 5, 64, Access::write);
}

Status check_input(TensorView<bfloat16> const& view) {
  return validate_view({"q.data", "q.shape", "q.stride"}, view, 2, 3, 5, 64, Access::read);
}

}  // namespace

TEST_CASE("what a descriptor of the copy engine cannot hold is refused by its axis") {
  std::int64_t const limit = box_stride_limit_bytes / 2;
  CHECK(validate_box_strides("k.stride", view_with_strides({limit - 8, 320, 64, 1})).ok());
  Status const status = validate_box_strides("k.stride", view_with_strides({limit, 320, 64, 1}));
  CHECK(status.code == StatusCode::unsupported);
  CHECK(std::string(status.field) == "k.stride");
  CHECK(status.axis == 0);
  CHECK(status.given == limit);
  TensorView<bfloat16> const one{nullptr, {1, 3, 5, 64}, {limit, 320, 64, 1}};
  CHECK(validate_box_strides("k.stride", one).ok());
  TensorView<bfloat16> const empty{nullptr, {2, 3, 0, 64}, {limit, -1, 3, 1}};
  CHECK(validate_box_strides("k.stride", empty).ok());
}

TEST_CASE("U70 an output whose strides overlap is refused and any nesting of axes is accepted") {
  for (std::vector<std::int64_t> const& stride : {std::vector<std::int64_t>{960, 320, 64, 1},
                                                  {960, 64, 192, 1},
                                                  {64, 128, 384, 1},
                                                  {1920, 640, 128, 1},
                                                  {960, 320, 72, 1},
                                                  {8192, 72, 1024, 1}}) {
    bool const nests = stride != std::vector<std::int64_t>{960, 320, 72, 1};
    CAPTURE(stride[0], stride[1], stride[2]);
    CHECK(check_output(view_with_strides(stride)).ok() == nests);
    CHECK(check_input(view_with_strides(stride)).ok());
  }
}

TEST_CASE("U70 U71 a stride of 0 is for inputs alone, and for axes of one entry") {
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<std::int64_t> stride{960, 320, 64, 1};
    stride[axis] = 0;
    CHECK(check_input(view_with_strides(stride)).ok());
    Status const status = check_output(view_with_strides(stride));
    CHECK(status.code == StatusCode::invalid_argument);
    CHECK(std::string(status.field) == "out.stride");
  }
  TensorView<bfloat16> one{reinterpret_cast<bfloat16*>(256), {1, 1, 5, 64}, {0, 0, 64, 1}};
  CHECK(validate_view({"out.data", "out.shape", "out.stride"}, one, 1, 1, 5, 64, Access::write).ok());
}

TEST_CASE("whether strides overlap agrees with marking every element") {
  // Small shapes, every stride up to 12: nesting is sufficient, so a view found free of overlap must be.
  std::int64_t const shape[4] = {2, 3, 2, 2};
  std::int64_t found_free = 0;
  for (std::int64_t a = 0; a <= 12; ++a)
    for (std::int64_t b = 0; b <= 12; ++b)
      for (std::int64_t c = 0; c <= 12; ++c) {
        std::int64_t const stride[4] = {a, b, c, 1};
        if (overlaps_itself(shape, stride)) continue;
        std::set<std::int64_t> offsets;
        for (int i = 0; i < 2 * 3 * 2 * 2; ++i)
          offsets.insert(i / 12 * a + i / 4 % 3 * b + i / 2 % 2 * c + i % 2);
        REQUIRE(offsets.size() == 24);
        ++found_free;
      }
  CHECK(found_free > 40);
}

TEST_CASE("U66 strides whose byte offset does not fit 64 bits are refused") {
  std::int64_t const huge = largest / 16 * 8;
  Status const status = check_input(view_with_strides({huge, 320, 64, 1}));
  CHECK(status.code == StatusCode::invalid_argument);
  CHECK(std::string(status.field) == "q.stride");
  CHECK(status.axis == 0);
  CHECK(status.given == huge);
  CHECK(check_input(view_with_strides({std::int64_t{1} << 40, 320, 64, 1})).ok());
}

TEST_CASE("U68 pointers and strides off 16 bytes are refused with the number given and needed") {
  for (std::int64_t offset : {2, 4, 8}) {
    TensorView<bfloat16> view = view_with_strides({960, 320, 64, 1});
    view.data = reinterpret_cast<bfloat16*>(256 + offset);
    Status const status = check_input(view);
    CHECK(std::string(status.field) == "q.data");
    CHECK(status.given == offset);
    CHECK(status.expected == 16);
  }
  Status const status = check_input(view_with_strides({960, 320, 132, 1}));
  CHECK(std::string(status.field) == "q.stride");
  CHECK(status.axis == 2);
  CHECK(status.given == 132);
  CHECK(status.expected == 8);
}

TEST_CASE("an empty view needs no memory") {
  TensorView<bfloat16> const empty{nullptr, {2, 3, 0, 64}, {0, 0, 0, 1}};
  CHECK(validate_view({"k.data", "k.shape", "k.stride"}, empty, 2, 3, 0, 64, Access::read).ok());
}
