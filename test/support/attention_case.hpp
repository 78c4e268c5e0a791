#pragma once
/// A forward test from one record: make inputs, run the library, compare with the reference.

#include <cstdint>
#include <utility>
#include <vector>

#include "sparge/reference/attention.hpp"
#include "sparge/reference/naive.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/device_buffer.hpp"
#include "support/device_tensor.hpp"
#include "support/gpu.hpp"
#include "support/host_tensor.hpp"
#include "support/random.hpp"

namespace sparge::test {

enum class Inputs { gaussian, heavy_tailed, common_offset, constant_rows, huge_logits, huge_negative_logits };
inline constexpr Inputs every_inputs[] = {Inputs::gaussian,      Inputs::heavy_tailed,
                                          Inputs::common_offset, Inputs::constant_rows,
                                          Inputs::huge_logits,   Inputs::huge_negative_logits};

enum class MaskKind { full, none, half, tenth, uneven, holes };
inline constexpr MaskKind every_mask_kind[] = {MaskKind::full,  MaskKind::none,   MaskKind::half,
                                               MaskKind::tenth, MaskKind::uneven, MaskKind::holes};

/// Host tensors and mask of one call.
template <class T>
struct ForwardInputs {
  AttentionProblem problem;
  HostTensor<T> q, k, v;
  MaskWords mask;
};

/// What a test case varies.
struct ForwardCase {
  AttentionProblem problem;
  Inputs inputs = Inputs::gaussian;
  MaskKind mask = MaskKind::uneven;
  std::uint64_t seed = 1;
  Layout q_layout = Layout::bhnd, k_layout = Layout::bhnd, v_layout = Layout::bhnd;
};

/// How the library is called.
struct ForwardChoices {
  Layout out_layout = Layout::bhnd;
  bool with_lse = true;
  PlanOptions options;
};

/// A mask of a kind. Its padding bits, which readers must not see, are all ones.
inline MaskWords make_mask(AttentionProblem const& p, MaskKind kind, Random& random) {
  MaskWords words = full_mask(p);
  switch (kind) {
    case MaskKind::full:
      break;
    case MaskKind::none:
      words.assign(words.size(), 0);
      break;
    case MaskKind::half:
      words = random_mask(p, random, 0.5);
      break;
    case MaskKind::tenth:
      words = random_mask(p, random, 0.1);
      break;
    case MaskKind::uneven:
      words = uneven_mask(p, random);
      break;
    case MaskKind::holes:
      clear_some_rows(p, words, random);
      break;
  }
  if (!words.empty()) dirty_padding(p, words);
  return words;
}

/// Logits near `sign` * 1e6 whose winners are thousands of nats ahead or exactly tied: each key is one even number in
/// all its channels, which both element types hold exactly.
template <class T>
void fill_tied_huge_logits(HostTensor<T>& q, HostTensor<T>& k, Random& random, double sign) {
  double key = 0;
  fill(q, [&](auto...) { return 300 + 2 * random.gaussian(); });
  fill(k, [&](auto, auto, auto, auto c) {
    return c == 0 ? key = sign * static_cast<double>(300 + 2 * random.below(100)) : key;
  });
}

template <class T>
void fill_inputs(HostTensor<T>& q, HostTensor<T>& k, HostTensor<T>& v, Inputs kind, Random& random) {
  auto const fill_all = [&](auto fill_one) { fill_one(q), fill_one(k), fill_one(v); };
  switch (kind) {
    case Inputs::gaussian:
      fill_all([&](auto& x) { fill_gaussian(x, random); });
      break;
    case Inputs::heavy_tailed:
      fill_all([&](auto& x) { fill_heavy_tailed(x, random); });
      break;
    case Inputs::common_offset:
      fill_all([&](auto& x) { fill_common_offset(x, random, 1); });
      break;
    case Inputs::constant_rows:
      fill_all([&](auto& x) { fill_constant_rows(x, random); });
      break;
    case Inputs::huge_logits:
    case Inputs::huge_negative_logits:
      fill_gaussian(v, random);
      fill_tied_huge_logits(q, k, random, kind == Inputs::huge_logits ? 1 : -1);
      break;
  }
}

template <class T>
ForwardInputs<T> make_inputs(ForwardCase const& c) {
  Random random(c.seed);
  ForwardInputs<T> inputs{c.problem, HostTensor<T>(q_shape(c.problem), c.q_layout),
                          HostTensor<T>(kv_shape(c.problem), c.k_layout),
                          HostTensor<T>(kv_shape(c.problem), c.v_layout),
                          make_mask(c.problem, c.mask, random)};
  fill_inputs(inputs.q, inputs.k, inputs.v, c.inputs, random);
  return inputs;
}

template <class T>
struct ForwardOutput {
  HostTensor<T> out;
  std::vector<float> lse;  ///< empty where it was not asked for
};

template <class T>
bool operator==(ForwardOutput<T> const& a, ForwardOutput<T> const& b) {
  return element_bits(a.out) == element_bits(b.out) && a.lse == b.lse;
}

/// A planned call with its own device memory. Outputs and scratch start poisoned.
template <class T>
class ForwardRun {
public:
  ForwardRun(ForwardInputs<T> const& inputs, ForwardChoices const& choices = {},
             Device const& device = test_device())
      : plan_(make_plan(inputs.problem, device, choices.options)),
        q_(inputs.q),
        k_(inputs.k),
        v_(inputs.v),
        mask_(inputs.mask),
        out_(q_shape(inputs.problem), choices.out_layout),
        lse_(choices.with_lse ? inputs.problem.batch * inputs.problem.heads * inputs.problem.q_tokens : 0),
        scratch_(plan_.workspace_bytes),
        with_lse_(choices.with_lse) {}

  ForwardPlan<T> const& plan() const { return plan_; }
  ForwardArgs<T> args() const {
    return {q_.view(),   k_.view(),
            v_.view(),   {mask_.data(), static_cast<std::size_t>(mask_.size())},
            out_.view(), with_lse_ ? lse_.data() : nullptr};
  }
  Workspace workspace() const { return scratch_.workspace(); }
  DeviceBuffer<unsigned char>& scratch() { return scratch_.bytes(); }
  DeviceTensor<T>& out() { return out_; }
  DeviceBuffer<float>& lse() { return lse_; }

  Status run(cudaStream_t stream) const { return forward(plan_, args(), workspace(), stream); }

  /// New inputs of the same shapes and layouts, at the same addresses.
  void upload(ForwardInputs<T> const& inputs) {
    q_.upload(inputs.q), k_.upload(inputs.k), v_.upload(inputs.v);
    mask_.upload(inputs.mask);
  }

  void poison_outputs() {
    out_.buffer().fill_bytes(GuardedMemory::poison_byte);
    lse_.fill_bytes(GuardedMemory::poison_byte);
  }
  bool outputs_untouched() const { return out_.buffer().is_untouched() && lse_.is_untouched(); }
  ForwardOutput<T> download() const { return {out_.download(), lse_.download()}; }

private:
  static ForwardPlan<T> make_plan(AttentionProblem const& problem, Device const& device,
                                  PlanOptions const& options) {
    ForwardPlan<T> plan;
    must(plan_forward(problem, device, options, &plan));
    return plan;
  }

  ForwardPlan<T> plan_;
  DeviceTensor<T> q_, k_, v_;
  DeviceBuffer<std::uint32_t> mask_;
  DeviceTensor<T> out_;
  DeviceBuffer<float> lse_;
  ScratchBuffer scratch_;
  bool with_lse_;
};

/// Runs once on a stream of its own. Throws where the call is refused.
template <class T>
ForwardOutput<T> run_forward(ForwardInputs<T> const& inputs, ForwardChoices const& choices = {}) {
  ForwardRun<T> const run(inputs, choices);
  Stream const stream;
  must(run.run(stream));
  stream.wait();
  ForwardOutput<T> output = run.download();
  CHECK(padding_is_poison(output.out));
  return output;
}

/// What rows must be, from the reference, and the yardstick for their error.
struct ForwardTruth {
  std::vector<reference::QueryRow> rows;
  reference::Attention exact, naive;
};

template <class T>
ForwardTruth truth_of(ForwardInputs<T> const& inputs, std::vector<reference::QueryRow> rows) {
  AttentionProblem const& p = inputs.problem;
  auto const q = inputs.q.view(), k = inputs.k.view(), v = inputs.v.view();
  MaskView const mask = view_of(inputs.mask);
  auto exact = reference::attention_rows(p, q, k, v, mask, rows);
  auto naive = reference::naive_attention_rows(p, q, k, v, mask, rows);
  return {std::move(rows), std::move(exact), std::move(naive)};
}

template <class T>
ForwardTruth truth_of(ForwardInputs<T> const& inputs) {
  return truth_of(inputs, reference::all_rows(inputs.problem));
}

/// Compares the rows of a result by the project's rule; `floor` as in compare(), for O.
template <class T>
void check_forward(AttentionProblem const& p, ForwardTruth const& truth, ForwardOutput<T> const& output,
                   double floor = 0) {
  std::vector<double> out, lse;
  for (reference::QueryRow const& row : truth.rows) {
    for (std::int64_t c = 0; c < p.head_dim; ++c)
      out.push_back(reference::to_double(output.out.at(row.batch, row.head, row.token, c)));
    if (!output.lse.empty())
      lse.push_back(
          output.lse[static_cast<std::size_t>((row.batch * p.heads + row.head) * p.q_tokens + row.token)]);
  }
  CHECK(compare<T>(out, truth.exact.out, truth.naive.out, floor));
  // The logarithm of a sum near 1 cancels to nothing: allow a few units in the last place of that 1.
  double const lse_floor = 1e-6;
  if (!output.lse.empty()) CHECK(compare<float>(lse, truth.exact.lse, truth.naive.lse, lse_floor));
}

template <class T>
void check_forward(ForwardInputs<T> const& inputs, ForwardOutput<T> const& output, double floor = 0) {
  check_forward(inputs.problem, truth_of(inputs), output, floor);
}

/// The whole test of one case.
template <class T>
void check_case(ForwardCase const& c, ForwardChoices const& choices = {}) {
  AttentionProblem const& p = c.problem;
  CAPTURE(p.batch, p.heads, p.kv_heads, p.q_tokens, p.kv_tokens, p.head_dim, p.q_block, p.kv_block, p.scale);
  CAPTURE(static_cast<int>(c.inputs), static_cast<int>(c.mask), c.seed, choices.options.force_kernel);
  ForwardInputs<T> const inputs = make_inputs<T>(c);
  check_forward(inputs, run_forward(inputs, choices));
}

/// Every kernel of the table that can be forced for a problem on a device.
inline std::vector<std::int32_t> kernels_for(ElementType type, AttentionProblem const& p,
                                             Device const& device) {
  std::vector<std::int32_t> serving;
  for (std::int32_t index = 0; index < supported_kernels(); ++index) {
    PlanOptions options;
    options.force_kernel = index;
    ForwardPlan<bfloat16> bf16;
    ForwardPlan<float16> f16;
    bool const serves = type == ElementType::bf16 ? plan_forward(p, device, options, &bf16).ok()
                                                  : plan_forward(p, device, options, &f16).ok();
    if (serves) serving.push_back(index);
  }
  return serving;
}

}  // namespace sparge::test
