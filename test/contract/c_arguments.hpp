#pragma once
/// The C calls on the arguments that typed_calls.hpp lays out, to spoil them one by one or to compare results with C++.

#include <vector>

#include "contract/c_structs.hpp"
#include "contract/fake_device.hpp"
#include "contract/typed_calls.hpp"
#include "support/device_buffer.hpp"

namespace sparge::test {

// ---- C arguments from those of C++, at the same addresses ----------------------------------------------------------

/// The C plan and arguments of a call that typed_calls.hpp laid out; the rule lives beside the arguments that point to it.
template <class Args>
struct CArguments {
  sparge_plan plan;
  Args args;
  sparge_mask_rule rule;
  Workspace workspace;
};

template <class Args, class Make>
CArguments<Args> c_arguments(CallSite const& site, Workspace workspace, Make make) {
  CArguments<Args> call{sized<sparge_plan>(), sized<Args>(), sized<sparge_mask_rule>(), workspace};
  auto const problem = c_problem(site.problem);
  auto const device = c_device(site.device);
  auto status = sized<sparge_status>();
  check_c_ok(make(&problem, &device, nullptr, &call.plan, &status), status);
  return call;
}

inline CArguments<sparge_forward_args> as_c(CallSite const& site, ForwardCall<bfloat16> const& from) {
  auto call = c_arguments<sparge_forward_args>(site, from.workspace, with_bf16<sparge_plan_forward>);
  call.args.q = c_tensor(from.args.q), call.args.k = c_tensor(from.args.k);
  call.args.v = c_tensor(from.args.v), call.args.out = c_tensor(from.args.out);
  call.args.mask = c_mask(from.args.mask), call.args.lse = from.args.lse;
  return call;
}

inline CArguments<sparge_backward_args> as_c(CallSite const& site, BackwardCall<bfloat16> const& from) {
  auto call = c_arguments<sparge_backward_args>(site, from.workspace, with_bf16<sparge_plan_backward>);
  call.args = c_backward_args(from.args);
  return call;
}

inline CArguments<sparge_pool_args> as_c(CallSite const& site, PoolCall<bfloat16> const& from) {
  auto call = c_arguments<sparge_pool_args>(site, from.workspace, with_bf16<sparge_plan_pool>);
  call.args.q = c_tensor(from.args.q), call.args.k = c_tensor(from.args.k);
  call.args.pooled_q = from.args.pooled_q, call.args.pooled_k = from.args.pooled_k;
  return call;
}

inline CArguments<sparge_select_blocks_args> as_c(CallSite const& site, SelectCall const& from) {
  auto call = c_arguments<sparge_select_blocks_args>(site, from.workspace, sparge_plan_select_blocks);
  call.rule = c_rule(from.args.rule);
  call.args.pooled_q = from.args.pooled_q, call.args.pooled_k = from.args.pooled_k;
  call.args.mask = c_mask(from.args.mask);
  return call;
}

inline CArguments<sparge_build_mask_args> as_c(CallSite const& site, BuildMaskCall<bfloat16> const& from) {
  auto call = c_arguments<sparge_build_mask_args>(site, from.workspace, with_bf16<sparge_plan_build_mask>);
  call.rule = c_rule(from.args.rule);
  call.args.q = c_tensor(from.args.q), call.args.k = c_tensor(from.args.k);
  call.args.mask = c_mask(from.args.mask);
  return call;
}

inline CArguments<sparge_mask_stats_args> as_c(CallSite const& site, StatsCall const& from) {
  auto call = c_arguments<sparge_mask_stats_args>(site, from.workspace, sparge_plan_mask_stats);
  call.rule = c_rule(from.args.rule);
  call.args.pooled_q = from.args.pooled_q, call.args.pooled_k = from.args.pooled_k;
  call.args.mask = c_mask(from.args.mask);
  call.args.stats = reinterpret_cast<sparge_mask_stats_record*>(from.args.stats);
  return call;
}

inline CArguments<sparge_calibrate_args> as_c(CallSite const& site, CalibrateCall const& from) {
  auto call = c_arguments<sparge_calibrate_args>(site, from.workspace, sparge_plan_calibrate);
  call.rule = c_rule(from.args.rule);
  call.args.pooled_q = from.args.pooled_q, call.args.pooled_k = from.args.pooled_k;
  call.args.target = from.args.target.value;
  call.args.goal = static_cast<std::int32_t>(from.args.target.goal);
  call.args.scope = static_cast<std::int32_t>(from.args.target.scope);
  call.args.top_p_of_head = from.args.top_p_of_head;
  call.args.report = reinterpret_cast<sparge_calibration_record*>(from.args.report);
  return call;
}

inline CArguments<sparge_transpose_mask_args> as_c(CallSite const& site, TransposeCall const& from) {
  auto call = c_arguments<sparge_transpose_mask_args>(site, {}, sparge_plan_mask_form);
  call.args.mask = c_mask(from.mask), call.args.transposed = c_mask(from.transposed);
  return call;
}

inline CArguments<sparge_slice_mask_args> as_c(CallSite const& site, SliceCall const& from) {
  auto call = c_arguments<sparge_slice_mask_args>(site, {}, sparge_plan_mask_form);
  call.args.mask = c_mask(from.mask), call.args.shard = c_mask(from.shard);
  call.args.q_first_block = from.q.first, call.args.q_block_count = from.q.count;
  call.args.kv_first_block = from.kv.first, call.args.kv_block_count = from.kv.count;
  return call;
}

template <class Call>
CArguments<sparge_byte_mask_args> bytes_as_c(CallSite const& site, Call const& from) {
  auto call = c_arguments<sparge_byte_mask_args>(site, {}, sparge_plan_mask_form);
  call.args.mask = c_mask(from.mask);
  call.args.bytes = const_cast<std::uint8_t*>(from.bytes.data), call.args.bytes_count = from.bytes.bytes;
  return call;
}
inline CArguments<sparge_byte_mask_args> as_c(CallSite const& site, ToBytesCall const& from) {
  return bytes_as_c(site, from);
}
inline CArguments<sparge_byte_mask_args> as_c(CallSite const& site, FromBytesCall const& from) {
  return bytes_as_c(site, from);
}

template <class Call>
CArguments<sparge_block_lists_args> lists_as_c(CallSite const& site, Call const& from) {
  auto call = c_arguments<sparge_block_lists_args>(site, {}, sparge_plan_mask_form);
  call.args.mask = c_mask(from.mask), call.args.capacity = from.lists.capacity;
  call.args.counts = const_cast<std::int32_t*>(from.lists.counts);
  call.args.indices = const_cast<std::int32_t*>(from.lists.indices);
  return call;
}
inline CArguments<sparge_block_lists_args> as_c(CallSite const& site, ToListsCall const& from) {
  return lists_as_c(site, from);
}
inline CArguments<sparge_block_lists_args> as_c(CallSite const& site, FromListsCall const& from) {
  return lists_as_c(site, from);
}

// ---- Running them --------------------------------------------------------------------------------------------------

template <class Args>
using WithScratch = sparge_code (*)(sparge_plan const*, Args const*, void*, std::size_t, sparge_stream,
                                    sparge_status*);
template <class Args>
using WithoutScratch = sparge_code (*)(sparge_plan const*, Args const*, sparge_stream, sparge_status*);

template <class Args>
sparge_code run(WithScratch<Args> call, CArguments<Args> const& c, sparge_stream stream,
                sparge_status* status) {
  return call(&c.plan, &c.args, c.workspace.data, c.workspace.bytes, stream, status);
}
template <class Args>
sparge_code run(WithoutScratch<Args> call, CArguments<Args> const& c, sparge_stream stream,
                sparge_status* status) {
  return call(&c.plan, &c.args, stream, status);
}

inline void point_to_rule(sparge_select_blocks_args& args, sparge_mask_rule const& rule) {
  args.rule = &rule;
}
inline void point_to_rule(sparge_build_mask_args& args, sparge_mask_rule const& rule) { args.rule = &rule; }
inline void point_to_rule(sparge_calibrate_args& args, sparge_mask_rule const& rule) { args.rule = &rule; }
inline void point_to_rule(sparge_mask_stats_args& args, sparge_mask_rule const& rule) { args.rule = &rule; }
template <class Args>
void point_to_rule(Args&, sparge_mask_rule const&) {}

template <class Args>
struct Spoilt {
  char const* field;
  void (*spoil)(CArguments<Args>&);
};

/// On imagined memory, so every row must be refused, by the name of the member that it spoils.
template <class Args, class Run>
void check_each_member(CArguments<Args> const& right, Run call, std::vector<Spoilt<Args>> const& rows) {
  for (Spoilt<Args> const& row : rows) {
    CAPTURE(row.field);
    CArguments<Args> wrong = right;
    row.spoil(wrong);
    point_to_rule(wrong.args, wrong.rule);
    auto status = sized<sparge_status>();
    CHECK(run<Args>(call, wrong, nullptr, &status) != SPARGE_OK);
    CHECK(std::string(status.field) == row.field);
  }
}

template <class Args, class Call, class Run>
void check_each_member(Call (*lay_out)(CallSite&), Run call, std::vector<Spoilt<Args>> const& rows) {
  CallSite site{{2, 4, 2, 200, 2150, 64}, big_device(), {}, imagined_memory()};
  check_each_member(as_c(site, lay_out(site)), call, rows);
}

/// Every byte outside the workspace after the call in C++ and after the call in C, on the same inputs.
template <class Args, class Call, class Run>
void check_same_bytes(Call (*lay_out)(CallSite&), Run call) {
  CallSite counting{{2, 4, 2, 200, 2150, 64}, test_device(), {}, Carver()};
  static_cast<void>(lay_out(counting));
  DeviceBuffer<unsigned char> arena(static_cast<std::int64_t>(counting.carver.bytes()));
  CallSite site{counting.problem, counting.device, {}, Carver(arena.data())};
  Call const in_cpp = lay_out(site);
  CArguments<Args> in_c = as_c(site, in_cpp);
  point_to_rule(in_c.args, in_c.rule);
  auto const bytes = arena.size() - static_cast<std::int64_t>(in_c.workspace.bytes + 255) / 256 * 256;
  Stream const stream;
  arena.fill_bytes(0x11);
  must(in_cpp.run(stream));
  stream.wait();
  std::vector<unsigned char> const wanted = arena.download(0, bytes);
  CHECK(wanted != std::vector<unsigned char>(wanted.size(), 0x11));
  arena.fill_bytes(0x11);
  auto status = sized<sparge_status>();
  check_c_ok(run<Args>(call, in_c, stream, &status), status);
  stream.wait();
  CHECK(arena.download(0, bytes) == wanted);
}

}  // namespace sparge::test
