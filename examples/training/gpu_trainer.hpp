#pragma once
/// One step of velocity distillation on a GPU, as one CUDA graph that is replayed.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "training/gpu_layer.hpp"
#include "training/sgd.hpp"
#include "training/step_graph.hpp"
#include "training/trainer.hpp"

namespace training {

/// What SGD keeps in f32.
struct MasterWeights {
  explicit MasterWeights(std::vector<double> const& w)
      : weights(std::vector<float>(w.begin(), w.end())), momentum(std::vector<float>(w.size(), 0.0f)) {}
  DeviceArray<float> weights, momentum;
};

class GpuTrainer {
public:
  GpuTrainer(Settings const& settings, Weights<double> const& teacher, Weights<double> const& student,
             sparge::Device const& device)
      : s_(settings.shape),
        rule_(settings.rule),
        device_(device),
        layer_(s_, device, stream_),
        teacher_(teacher),
        student_(student),
        master_qkv_(student.qkv),
        master_out_(student.out),
        x0_(std::size_t(s_.elements())),
        x1_(x0_.size()),
        x_(x0_.size()),
        t_(std::size_t(s_.batch)),
        of_teacher_(s_),
        of_student_(s_),
        grad_(s_),
        full_mask_(std::vector<std::uint32_t>(words_of(s_), ~0u)),
        mask_(full_mask_.size()),
        loss_(1),
        learning_rate_(1) {
    sparge::check(sparge::plan_interpolate(s_.samples(), device, {}, &interpolate_plan_));
    sparge::check(sparge::plan_distillation_loss(s_.samples(), device, {}, &loss_plan_));
    sparge::check(sparge::plan_pool(s_.attention(), device, {}, &pool_plan_));
    sparge::check(sparge::plan_mask_stats(s_.attention(), device, {}, &stats_plan_));
    scratch_ = std::make_unique<DeviceArray<std::byte>>(
        std::max({layer_.workspace_bytes(), loss_plan_.workspace_bytes, pool_plan_.workspace_bytes,
                  stats_plan_.workspace_bytes}));
    demo::check_cuda(cudaDeviceSynchronize());  // the arrays above were filled on another stream
  }

  std::string where() const {
    cudaDeviceProp properties{};
    demo::check_cuda(cudaGetDeviceProperties(&properties, device_.ordinal));
    return properties.name;
  }

  /// Returns the loss before the update. Reading it back is what waits here: nothing inside the graph does.
  double step(Batch const& batch, double learning_rate) {
    load(batch);
    if (!graph_) capture();
    set_learning_rate(float(learning_rate));
    graph_->replay(stream_);
    float loss = 0;
    demo::check_cuda(cudaMemcpyAsync(&loss, loss_.data(), sizeof loss, cudaMemcpyDeviceToHost, stream_));
    stream_.wait();
    return loss;
  }

  Comparison compare(Batch const& batch) {
    load(batch);
    enqueue_forward();
    Comparison result;
    result.stats = count_mask();
    add_difference(of_student_.velocity.to_host(), of_teacher_.velocity.to_host(), result);
    return result;
  }

  /// What a step computed, for those who want to check it: see gradient_check.hpp.
  struct StepRecord {
    std::vector<bfloat16> x_t;
    std::vector<std::uint32_t> mask;
    std::vector<float> grad_qkv, grad_out;
  };
  StepRecord record() const {
    stream_.wait();
    return {x_.to_host(), mask_.to_host(), grad_.weights_qkv.to_host(), grad_.weights_out.to_host()};
  }

private:
  static std::size_t words_of(LayerShape const& s) {
    std::size_t words = 0;
    sparge::check(sparge::mask_words(s.attention(), &words));
    return words;
  }

  sparge::Workspace workspace() const { return {scratch_->data(), scratch_->size()}; }
  sparge::MaskOut mask() const { return {mask_.data(), mask_.size()}; }
  sparge::MaskOut full_mask() const { return {full_mask_.data(), full_mask_.size()}; }

  template <class T>
  void copy_in(std::vector<T> const& from, DeviceArray<T> const& to) {
    demo::check_cuda(
        cudaMemcpyAsync(to.data(), from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice, stream_));
  }

  /// New data into the buffers that the graph reads.
  void load(Batch const& batch) {
    copy_in(to_bf16(batch.x0), x0_);  // from pageable memory, which has been read when the call returns
    copy_in(to_bf16(batch.x1), x1_);
    copy_in(batch.t, t_);
  }

  void set_learning_rate(float rate) { copy_in(std::vector<float>{rate}, learning_rate_); }

  /// Teacher and student see the same x_t; the student's own queries and keys choose its mask.
  void enqueue_forward() {
    sparge::check(sparge::interpolate<bfloat16>(interpolate_plan_,
                                                {x0_.data(), x1_.data(), t_.data(), x_.data()}, stream_));
    layer_.project_qkv(teacher_, x_.data(), of_teacher_);
    layer_.attend(teacher_, full_mask(), of_teacher_, workspace());
    layer_.project_qkv(student_, x_.data(), of_student_);
    layer_.build_mask(rule_, of_student_, mask(), workspace());
    layer_.attend(student_, mask(), of_student_, workspace());
  }

  void enqueue_step() {
    enqueue_forward();
    sparge::DistillationLossArgs<bfloat16> args;
    args.student = of_student_.velocity.data(), args.teacher = of_teacher_.velocity.data();
    args.loss = loss_.data(), args.grad_student = grad_.velocity.data();
    sparge::check(sparge::distillation_loss(loss_plan_, args, workspace(), stream_));
    layer_.backward(student_, x_.data(), mask(), of_student_, grad_, workspace());
    descend(student_.qkv, master_qkv_, grad_.weights_qkv);
    descend(student_.out, master_out_, grad_.weights_out);
  }

  void descend(DeviceArray<bfloat16> const& copy, MasterWeights const& master,
               DeviceArray<float> const& grad) {
    demo::check_cuda(training::descend({master.weights.data(), master.momentum.data(), copy.data(),
                                        grad.data(), learning_rate_.data(), std::int64_t(copy.size())},
                                       stream_));
  }

  /// A step at rate 0 runs first: what loads kernels on first use must not do so while a graph is captured.
  void capture() {
    set_learning_rate(0);
    enqueue_step();
    for (MasterWeights const* master : {&master_qkv_, &master_out_})
      demo::check_cuda(
          cudaMemsetAsync(master->momentum.data(), 0, master->momentum.size() * sizeof(float), stream_));
    stream_.wait();
    graph_ = std::make_unique<StepGraph>(stream_, [&] { enqueue_step(); });
  }

  std::vector<sparge::MaskStats> count_mask() {
    sparge::AttentionProblem const p = s_.attention();
    DeviceArray<float> const pooled_q(std::size_t(p.batch * p.heads * p.q_blocks() * p.head_dim));
    DeviceArray<float> const pooled_k(std::size_t(p.batch * p.heads * p.kv_blocks() * p.head_dim));
    DeviceArray<sparge::MaskStats> const stats(std::size_t(p.batch * p.heads));
    sparge::check(sparge::pool<bfloat16>(
        pool_plan_,
        {layer_.part(of_student_.qkv, 0), layer_.part(of_student_.qkv, 1), pooled_q.data(), pooled_k.data()},
        workspace(), stream_));
    sparge::check(sparge::mask_stats(
        stats_plan_, {pooled_q.data(), pooled_k.data(), rule_, mask(), stats.data()}, workspace(), stream_));
    stream_.wait();
    return stats.to_host();
  }

  LayerShape s_;
  sparge::MaskRule rule_;
  sparge::Device device_;
  Stream stream_;
  GpuLayer layer_;
  DeviceWeights teacher_, student_;
  MasterWeights master_qkv_, master_out_;
  DeviceArray<bfloat16> x0_, x1_, x_;
  DeviceArray<float> t_;
  DeviceActivations of_teacher_, of_student_;
  DeviceGradients grad_;
  DeviceArray<std::uint32_t> full_mask_, mask_;
  DeviceArray<float> loss_, learning_rate_;
  sparge::InterpolatePlan<bfloat16> interpolate_plan_;
  sparge::DistillationLossPlan<bfloat16> loss_plan_;
  sparge::PoolPlan<bfloat16> pool_plan_;
  sparge::MaskStatsPlan stats_plan_;
  std::unique_ptr<DeviceArray<std::byte>> scratch_;
  std::unique_ptr<StepGraph> graph_;
};

}  // namespace training
