// Every member of the C structs reaches the member of sparge.hpp that it stands for, and every call the right function.

#include <cstring>
#include <vector>

#include "c_api/answer.hpp"
#include "c_api/convert.hpp"
#include "contract/c_arguments.hpp"

using namespace sparge;
using namespace sparge::test;

TEST_CASE("Each member of a C problem is that of the C++ problem") {
  AttentionProblem const wanted{3,  12, 4, 201, 302, 128, 64, 128, 0.3f, TokenOrder::causal_bottom_right,
                                77, 900};
  auto const problem = c_problem(wanted);
  AttentionProblem p;
  must(c_api::convert(&problem, &p));
  CHECK(p == wanted);
}

TEST_CASE("A zero block of a C problem is the block that C++ defaults to") {
  AttentionProblem const wanted{2, 4, 2, 300, 2100, 64};
  auto problem = c_problem(wanted);
  problem.q_block = problem.kv_block = 0;
  AttentionProblem p;
  p.q_block = p.kv_block = 1;
  must(c_api::convert(&problem, &p));
  CHECK(p == wanted);
}

TEST_CASE("Each member of a C device is that of the C++ device and back") {
  Device const wanted{1, 2, 3, 4, 5, 6, 7};
  auto const device = c_device(wanted);
  Device d;
  must(c_api::convert(&device, &d));
  CHECK((d.ordinal == 1 && d.capability_major == 2 && d.capability_minor == 3 && d.sm_count == 4));
  CHECK((d.shared_bytes_per_block == 5 && d.shared_bytes_per_sm == 6 && d.l2_bytes == 7));
  auto back = c_api::as_c(d);
  back.struct_size = sizeof back;
  CHECK(std::memcmp(&back, &device, sizeof back) == 0);
}

TEST_CASE("Each member of C options is that of the C++ options") {
  auto options = sized<sparge_options>();
  PlanOptions o;
  o.force_kernel = 9, o.pointer_check = PointerCheck::location;
  must(c_api::convert(&options, &o));
  CHECK(o.force_kernel == -1);
  CHECK(o.pointer_check == PointerCheck::alignment);
  options.has_force_kernel = 1, options.force_kernel = 5, options.pointer_check = SPARGE_CHECK_LOCATION;
  must(c_api::convert(&options, &o));
  CHECK(o.force_kernel == 5);
  CHECK(o.pointer_check == PointerCheck::location);
  must(c_api::convert(static_cast<sparge_options const*>(nullptr), &o));
  CHECK(o.force_kernel == -1);
}

TEST_CASE("Each member of a C mask rule is that of the C++ rule") {
  float const shares[2] = {};
  auto rule = sized<sparge_mask_rule>();
  rule.top_k = 0.1, rule.top_p = 0.2, rule.top_k_of_head = shares, rule.top_p_of_head = shares + 1;
  rule.min_blocks = 3, rule.has_band = 1, rule.band_tokens = 4, rule.kv_front_tokens = 5;
  rule.kv_back_tokens = 6, rule.dense_q_front_tokens = 7, rule.dense_q_back_tokens = 8;
  MaskRule r;
  must(c_api::convert(&rule, &r));
  CHECK((r.top_k == 0.1 && r.top_p == 0.2 && r.min_blocks == 3));
  CHECK((r.top_k_of_head == shares && r.top_p_of_head == shares + 1));
  CHECK((r.keep.band_tokens == 4 && r.keep.kv_front_tokens == 5 && r.keep.kv_back_tokens == 6));
  CHECK((r.keep.dense_q_front_tokens == 7 && r.keep.dense_q_back_tokens == 8));
  rule.band_tokens = 0;
  must(c_api::convert(&rule, &r));
  CHECK(r.keep.band_tokens == 0);
  rule.has_band = 0;
  must(c_api::convert(&rule, &r));
  CHECK(r.keep.band_tokens == -1);
}

TEST_CASE("Each member of a C status is that of the C++ status") {
  Status status;
  status.code = StatusCode::cuda_error, status.field = "some field", status.reason = "some reason";
  status.axis = 2, status.given = 3, status.expected = 4, status.cuda = cudaErrorInvalidValue;
  status.shows = StatusValue::given_and_expected;
  sparge_status const c = c_api::as_c(status);
  CHECK(c.code == SPARGE_CUDA_ERROR);
  CHECK(c.cuda_error == cudaErrorInvalidValue);
  CHECK((c.axis == 2 && c.given == 3 && c.expected == 4));
  CHECK(std::string(c.field) == "some field");
  CHECK(std::string(c.text) == text_of(status));
}

TEST_CASE("Each argument of sparge_forward and sparge_pool is refused by its own name") {
  using Forward = CArguments<sparge_forward_args>;
  check_each_member<sparge_forward_args>(lay_out_forward<bfloat16>, sparge_forward,
                                         {{"q.data", [](Forward& c) { c.args.q.data = nullptr; }},
                                          {"k.data", [](Forward& c) { c.args.k.data = nullptr; }},
                                          {"v.data", [](Forward& c) { c.args.v.data = nullptr; }},
                                          {"out.data", [](Forward& c) { c.args.out.data = nullptr; }},
                                          {"mask.data", [](Forward& c) { c.args.mask.data = nullptr; }},
                                          {"mask.words", [](Forward& c) { c.args.mask.words += 1; }},
                                          {"lse", [](Forward& c) { c.args.lse += 1; }}});
  using Pool = CArguments<sparge_pool_args>;
  check_each_member<sparge_pool_args>(lay_out_pool<bfloat16>, sparge_pool,
                                      {{"q.data", [](Pool& c) { c.args.q.data = nullptr; }},
                                       {"k.data", [](Pool& c) { c.args.k.data = nullptr; }},
                                       {"pooled_q", [](Pool& c) { c.args.pooled_q = nullptr; }},
                                       {"pooled_k", [](Pool& c) { c.args.pooled_k = nullptr; }}});
}

TEST_CASE("Each argument of the C calls that make or count a mask is refused by its own name") {
  using Select = CArguments<sparge_select_blocks_args>;
  check_each_member<sparge_select_blocks_args>(
      lay_out_select, sparge_select_blocks,
      {{"pooled_q", [](Select& c) { c.args.pooled_q = nullptr; }},
       {"pooled_k", [](Select& c) { c.args.pooled_k = nullptr; }},
       {"rule.min_blocks", [](Select& c) { c.rule.min_blocks = -1; }},
       {"mask.data", [](Select& c) { c.args.mask.data = nullptr; }},
       {"workspace.bytes", [](Select& c) { c.workspace.bytes -= 1; }},
       {"workspace.data", [](Select& c) { c.workspace.data = nullptr; }}});
  using Build = CArguments<sparge_build_mask_args>;
  check_each_member<sparge_build_mask_args>(
      lay_out_build_mask<bfloat16>, sparge_build_mask,
      {{"q.data", [](Build& c) { c.args.q.data = nullptr; }},
       {"k.data", [](Build& c) { c.args.k.data = nullptr; }},
       {"rule.keep.kv_front_tokens", [](Build& c) { c.rule.kv_front_tokens = -1; }},
       {"mask.data", [](Build& c) { c.args.mask.data = nullptr; }},
       {"workspace.bytes", [](Build& c) { c.workspace.bytes -= 1; }}});
  using Stats = CArguments<sparge_mask_stats_args>;
  check_each_member<sparge_mask_stats_args>(
      lay_out_stats, sparge_mask_stats,
      {{"pooled_q", [](Stats& c) { c.args.pooled_q = nullptr; }},
       {"pooled_k", [](Stats& c) { c.args.pooled_k = nullptr; }},
       {"rule.keep.dense_q_back_tokens", [](Stats& c) { c.rule.dense_q_back_tokens = -1; }},
       {"mask.data", [](Stats& c) { c.args.mask.data = nullptr; }},
       {"stats", [](Stats& c) { c.args.stats = nullptr; }},
       {"workspace.bytes", [](Stats& c) { c.workspace.bytes -= 1; }}});
  using Calibrate = CArguments<sparge_calibrate_args>;
  check_each_member<sparge_calibrate_args>(
      lay_out_calibrate, sparge_calibrate,
      {{"pooled_q", [](Calibrate& c) { c.args.pooled_q = nullptr; }},
       {"pooled_k", [](Calibrate& c) { c.args.pooled_k = nullptr; }},
       {"rule.top_k", [](Calibrate& c) { c.rule.top_k = 2; }},
       {"target.value", [](Calibrate& c) { c.args.target = -0.5; }},
       {"target.goal", [](Calibrate& c) { c.args.goal = 2; }},
       {"target.scope", [](Calibrate& c) { c.args.scope = -1; }},
       {"top_p_of_head", [](Calibrate& c) { c.args.top_p_of_head = nullptr; }},
       {"report",
        [](Calibrate& c) {
          c.args.report = reinterpret_cast<sparge_calibration_record*>(&c.args.report->all_pairs);
        }},
       {"workspace.bytes", [](Calibrate& c) { c.workspace.bytes -= 1; }}});
}

TEST_CASE("Each argument of the C conversions of masks is refused by its own name") {
  using Transpose = CArguments<sparge_transpose_mask_args>;
  check_each_member<sparge_transpose_mask_args>(
      lay_out_transpose, sparge_transpose_mask,
      {{"mask.data", [](Transpose& c) { c.args.mask.data = nullptr; }},
       {"transposed.data", [](Transpose& c) { c.args.transposed.data = nullptr; }}});
  using Slice = CArguments<sparge_slice_mask_args>;
  check_each_member<sparge_slice_mask_args>(lay_out_slice, sparge_slice_mask,
                                            {{"mask.data", [](Slice& c) { c.args.mask.data = nullptr; }},
                                             {"shard.data", [](Slice& c) { c.args.shard.data = nullptr; }},
                                             {"shard.words", [](Slice& c) { c.args.q_block_count -= 1; }},
                                             {"q.first", [](Slice& c) { c.args.q_first_block = -1; }},
                                             {"q.count", [](Slice& c) { c.args.q_block_count = -1; }},
                                             {"kv.first", [](Slice& c) { c.args.kv_first_block = 1000; }},
                                             {"kv.count", [](Slice& c) { c.args.kv_block_count += 1; }}});
  using Bytes = CArguments<sparge_byte_mask_args>;
  std::vector<Spoilt<sparge_byte_mask_args>> const bytes{
      {"mask.data", [](Bytes& c) { c.args.mask.data = nullptr; }},
      {"bytes.data", [](Bytes& c) { c.args.bytes = nullptr; }},
      {"bytes.bytes", [](Bytes& c) { c.args.bytes_count -= 1; }}};
  check_each_member(lay_out_to_bytes, sparge_mask_to_bytes, bytes);
  check_each_member(lay_out_from_bytes, sparge_mask_from_bytes, bytes);
  using Lists = CArguments<sparge_block_lists_args>;
  std::vector<Spoilt<sparge_block_lists_args>> const lists{
      {"mask.data", [](Lists& c) { c.args.mask.data = nullptr; }},
      {"lists.counts", [](Lists& c) { c.args.counts = nullptr; }},
      {"lists.indices", [](Lists& c) { c.args.indices = nullptr; }},
      {"lists.capacity", [](Lists& c) { c.args.capacity = -1; }}};
  check_each_member(lay_out_to_lists, sparge_mask_to_lists, lists);
  check_each_member(lay_out_from_lists, sparge_mask_from_lists, lists);
}

TEST_CASE("The device that C reads is the one that C++ reads", "[gpu]") {
  SKIP_WITHOUT_GPU();
  auto const wanted = c_device(test_device());
  auto device = sized<sparge_device>();
  auto status = sized<sparge_status>();
  check_c_ok(sparge_query_device(wanted.ordinal, &device, &status), status);
  CHECK(std::memcmp(&device, &wanted, sizeof device) == 0);
}

TEST_CASE("Pooling, selection, statistics and forms through the C ABI are bit-equal to C++", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_same_bytes<sparge_pool_args>(lay_out_pool<bfloat16>, sparge_pool);
  check_same_bytes<sparge_select_blocks_args>(lay_out_select, sparge_select_blocks);
  check_same_bytes<sparge_mask_stats_args>(lay_out_stats, sparge_mask_stats);
  check_same_bytes<sparge_calibrate_args>(lay_out_calibrate, sparge_calibrate);
  check_same_bytes<sparge_transpose_mask_args>(lay_out_transpose, sparge_transpose_mask);
  check_same_bytes<sparge_slice_mask_args>(lay_out_slice, sparge_slice_mask);
  check_same_bytes<sparge_byte_mask_args>(lay_out_to_bytes, sparge_mask_to_bytes);
  check_same_bytes<sparge_byte_mask_args>(lay_out_from_bytes, sparge_mask_from_bytes);
  check_same_bytes<sparge_block_lists_args>(lay_out_to_lists, sparge_mask_to_lists);
  check_same_bytes<sparge_block_lists_args>(lay_out_from_lists, sparge_mask_from_lists);
}
