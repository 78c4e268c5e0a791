// Velocity distillation through the C ABI: the plans, the element types, the refusals and the bits of sparge.hpp.

#include <cstring>
#include <string>
#include <vector>

#include "c_api/plan_bytes.hpp"
#include "contract/c_arguments.hpp"
#include "support/random.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

DistillationProblem some_samples() { return {3, 1003}; }

sparge_distillation_problem c_problem_of(DistillationProblem const& p) {
  return {sizeof(sparge_distillation_problem), p.samples, p.sample_elements};
}

using MakeCPlan = sparge_code (*)(sparge_distillation_problem const*, sparge_dtype, sparge_device const*,
                                  sparge_options const*, sparge_plan*, sparge_status*);

template <class T>
sparge_plan c_plan_of(MakeCPlan make, DistillationProblem const& p, Device const& device) {
  auto const problem = c_problem_of(p);
  auto const gpu = c_device(device);
  auto plan = sized<sparge_plan>();
  auto status = sized<sparge_status>();
  check_c_ok(make(&problem, c_dtype<T>(), &gpu, nullptr, &plan, &status), status);
  return plan;
}

template <class T>
void check_plans_are_those_of_cpp() {
  DistillationLossPlan<T> loss;
  InterpolatePlan<T> interpolation;
  must(plan_distillation_loss(some_samples(), big_device(), {}, &loss));
  must(plan_interpolate(some_samples(), big_device(), {}, &interpolation));
  auto const c_loss = c_plan_of<T>(sparge_plan_distillation_loss, some_samples(), big_device());
  auto const c_interpolation = c_plan_of<T>(sparge_plan_interpolate, some_samples(), big_device());
  CHECK(c_loss.workspace_bytes == loss.workspace_bytes);
  CHECK(c_interpolation.workspace_bytes == 0);
  for (sparge_plan const& plan : {c_loss, c_interpolation}) {
    CHECK(plan.dtype == c_dtype<T>());
    CHECK((plan.kernel == -1 && plan.dq_kernel == -1));
  }
  CHECK(c_api::load<DistillationLossPlan<T>>(&c_loss).problem == some_samples());
  CHECK(c_api::load<InterpolatePlan<T>>(&c_interpolation).problem == some_samples());
}

// ---- Right arguments on imagined memory ----------------------------------------------------------------------------

CArguments<sparge_distillation_loss_args> imagined_loss() {
  Carver memory = imagined_memory();
  DistillationProblem const p = some_samples();
  auto call = CArguments<sparge_distillation_loss_args>{};
  call.plan = c_plan_of<bfloat16>(sparge_plan_distillation_loss, p, big_device());
  call.args = sized<sparge_distillation_loss_args>();
  call.args.dtype = SPARGE_BF16;
  call.args.student = memory.take<bfloat16>(p.elements());
  call.args.teacher = memory.take<bfloat16>(p.elements());
  call.args.weights = memory.take<float>(p.samples), call.args.grad_loss = memory.take<float>(1);
  call.args.loss = memory.take<float>(1), call.args.grad_student = memory.take<bfloat16>(p.elements());
  auto const bytes = call.plan.workspace_bytes;
  call.workspace = {memory.take<unsigned char>(static_cast<std::int64_t>(bytes)), bytes};
  return call;
}

CArguments<sparge_interpolate_args> imagined_interpolation() {
  Carver memory = imagined_memory();
  DistillationProblem const p = some_samples();
  auto call = CArguments<sparge_interpolate_args>{};
  call.plan = c_plan_of<float>(sparge_plan_interpolate, p, big_device());
  call.args = sized<sparge_interpolate_args>();
  call.args.dtype = SPARGE_F32;
  call.args.x0 = memory.take<float>(p.elements()), call.args.x1 = memory.take<float>(p.elements());
  call.args.t = memory.take<float>(p.samples), call.args.x_t = memory.take<float>(p.elements());
  return call;
}

/// An address in an argument, a few bytes on.
template <class Pointer>
Pointer shifted(Pointer at, std::uintptr_t bytes) {
  return reinterpret_cast<Pointer>(reinterpret_cast<std::uintptr_t>(at) + bytes);
}

// ---- On the GPU ----------------------------------------------------------------------------------------------------

template <class T>
std::vector<T> random_values(std::int64_t count, Random& random) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(T(static_cast<float>(random.gaussian())));
  return values;
}

template <class T>
bool same_bytes(DeviceBuffer<T> const& a, DeviceBuffer<T> const& b) {
  std::vector<T> const x = a.download(), y = b.download();
  return std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

template <class T>
void check_loss_is_bit_equal(DistillationProblem const& p) {
  Random random(5);
  DeviceBuffer<T> const student(random_values<T>(p.elements(), random)),
      teacher(random_values<T>(p.elements(), random));
  DeviceBuffer<float> const weights(random_values<float>(p.samples, random)),
      grad_loss(random_values<float>(1, random));
  DeviceBuffer<float> cpp_loss(1), c_loss(1);
  DeviceBuffer<T> cpp_grad(p.elements()), c_grad(p.elements());
  DistillationLossPlan<T> plan;
  must(plan_distillation_loss(p, test_device(), {}, &plan));
  ScratchBuffer const scratch(plan.workspace_bytes);
  Workspace const workspace = scratch.workspace();
  Stream const stream;
  DistillationLossArgs<T> const cpp{student.data(),   teacher.data(),  weights.data(),
                                    grad_loss.data(), cpp_loss.data(), cpp_grad.data()};
  must(distillation_loss(plan, cpp, workspace, stream));

  auto const c_plan = c_plan_of<T>(sparge_plan_distillation_loss, p, test_device());
  auto args = sized<sparge_distillation_loss_args>();
  args.dtype = c_dtype<T>(), args.student = student.data(), args.teacher = teacher.data();
  args.weights = weights.data(), args.grad_loss = grad_loss.data();
  args.loss = c_loss.data(), args.grad_student = c_grad.data();
  auto status = sized<sparge_status>();
  check_c_ok(sparge_distillation_loss(&c_plan, &args, workspace.data, workspace.bytes, stream, &status),
             status);
  stream.wait();
  CHECK_FALSE((c_loss.is_untouched() || c_grad.is_untouched()));
  CHECK(same_bytes(c_loss, cpp_loss));
  CHECK(same_bytes(c_grad, cpp_grad));
}

template <class T>
void check_interpolation_is_bit_equal(DistillationProblem const& p) {
  Random random(6);
  DeviceBuffer<T> const x0(random_values<T>(p.elements(), random)),
      x1(random_values<T>(p.elements(), random));
  DeviceBuffer<float> const t(random_values<float>(p.samples, random));
  DeviceBuffer<T> through_cpp(p.elements()), through_c(p.elements());
  InterpolatePlan<T> plan;
  must(plan_interpolate(p, test_device(), {}, &plan));
  Stream const stream;
  must(interpolate(plan, {x0.data(), x1.data(), t.data(), through_cpp.data()}, stream));

  auto const c_plan = c_plan_of<T>(sparge_plan_interpolate, p, test_device());
  auto args = sized<sparge_interpolate_args>();
  args.dtype = c_dtype<T>(), args.x0 = x0.data(), args.x1 = x1.data(), args.t = t.data();
  args.x_t = through_c.data();
  auto status = sized<sparge_status>();
  check_c_ok(sparge_interpolate(&c_plan, &args, stream, &status), status);
  stream.wait();
  CHECK_FALSE(through_c.is_untouched());
  CHECK(same_bytes(through_c, through_cpp));
}

}  // namespace

TEST_CASE("C plans of distillation are those of C++ for every element type") {
  check_plans_are_those_of_cpp<bfloat16>();
  check_plans_are_those_of_cpp<float16>();
  check_plans_are_those_of_cpp<float>();
}

TEST_CASE("f32 is refused by name where C asks it of attention") {
  auto const problem = c_problem({2, 4, 2, 300, 2100, 64});
  auto const device = c_device(big_device());
  auto plan = sized<sparge_plan>();
  auto status = sized<sparge_status>();
  for (auto const make :
       {sparge_plan_pool, sparge_plan_build_mask, sparge_plan_forward, sparge_plan_backward}) {
    check_c_refused(make(&problem, SPARGE_F32, &device, nullptr, &plan, &status), status, SPARGE_UNSUPPORTED,
                    "dtype", SPARGE_F32);
    CHECK(std::string(status.text).find("SPARGE_F32") != std::string::npos);
  }
  REQUIRE(sparge_plan_forward(&problem, SPARGE_BF16, &device, nullptr, &plan, nullptr) == SPARGE_OK);
  auto args = sized<sparge_forward_args>();
  args.q.dtype = SPARGE_F32;
  check_c_refused(sparge_forward(&plan, &args, nullptr, 0, nullptr, &status), status, SPARGE_PLAN_MISMATCH,
                  "q.dtype", SPARGE_F32, SPARGE_BF16);
}

TEST_CASE("C plans of distillation are refused as in C++ and leave the plan alone") {
  auto const device = c_device(big_device());
  auto status = sized<sparge_status>();
  for (MakeCPlan const make : {sparge_plan_distillation_loss, sparge_plan_interpolate}) {
    auto plan = sized<sparge_plan>();
    plan.kernel = 77;
    auto problem = c_problem_of(some_samples());
    auto options = sized<sparge_options>();
    auto const plan_it = [&](sparge_dtype dtype) {
      return make(&problem, dtype, &device, &options, &plan, &status);
    };
    for (sparge_dtype dtype : {0, 4, -1})
      check_c_refused(plan_it(dtype), status, SPARGE_UNSUPPORTED, "dtype", dtype);
    problem.samples = -1;
    check_c_refused(plan_it(SPARGE_F32), status, SPARGE_INVALID_ARGUMENT, "problem.samples", -1);
    problem.samples = 3, problem.sample_elements = -2;
    check_c_refused(plan_it(SPARGE_F32), status, SPARGE_INVALID_ARGUMENT, "problem.sample_elements", -2);
    problem.sample_elements = 8, problem.struct_size = 8;
    check_c_refused(plan_it(SPARGE_F32), status, SPARGE_INVALID_ARGUMENT, "problem.struct_size", 8, 24);
    problem.struct_size = sizeof problem, options.has_force_kernel = 1;
    CHECK(plan_it(SPARGE_F32) != SPARGE_OK);
    CHECK(std::string(status.field) == "options.force_kernel");
    check_c_refused(make(nullptr, SPARGE_F32, &device, nullptr, &plan, &status), status,
                    SPARGE_INVALID_ARGUMENT, "problem", 0);
    check_c_refused(make(&problem, SPARGE_F32, nullptr, nullptr, &plan, &status), status,
                    SPARGE_INVALID_ARGUMENT, "device", 0);
    CHECK(plan.kernel == 77);
    check_c_refused(make(&problem, SPARGE_F32, &device, nullptr, nullptr, &status), status,
                    SPARGE_INVALID_ARGUMENT, "plan", 0);
  }
}

TEST_CASE("Each argument of sparge_distillation_loss is refused by its own name") {
  using Loss = CArguments<sparge_distillation_loss_args>;
  check_each_member<sparge_distillation_loss_args>(
      imagined_loss(), sparge_distillation_loss,
      {{"args.dtype", [](Loss& c) { c.args.dtype = SPARGE_F32; }},
       {"args.reserved", [](Loss& c) { c.args.reserved = 1; }},
       {"args.struct_size", [](Loss& c) { c.args.struct_size = 8; }},
       {"student", [](Loss& c) { c.args.student = nullptr; }},
       {"teacher", [](Loss& c) { c.args.teacher = nullptr; }},
       {"weights", [](Loss& c) { c.args.weights = shifted(c.args.weights, 1); }},
       {"grad_loss", [](Loss& c) { c.args.grad_loss = shifted(c.args.grad_loss, 1); }},
       {"loss", [](Loss& c) { c.args.loss = nullptr; }},
       {"grad_student", [](Loss& c) { c.args.grad_student = shifted(c.args.grad_student, 2); }},
       {"workspace.bytes", [](Loss& c) { c.workspace.bytes -= 1; }},
       {"workspace.data", [](Loss& c) { c.workspace.data = nullptr; }}});
}

TEST_CASE("Each argument of sparge_interpolate is refused by its own name") {
  using Interpolation = CArguments<sparge_interpolate_args>;
  check_each_member<sparge_interpolate_args>(
      imagined_interpolation(), sparge_interpolate,
      {{"args.dtype", [](Interpolation& c) { c.args.dtype = SPARGE_BF16; }},
       {"args.reserved", [](Interpolation& c) { c.args.reserved = 1; }},
       {"args.struct_size", [](Interpolation& c) { c.args.struct_size = 8; }},
       {"x0", [](Interpolation& c) { c.args.x0 = nullptr; }},
       {"x1", [](Interpolation& c) { c.args.x1 = nullptr; }},
       {"t", [](Interpolation& c) { c.args.t = nullptr; }},
       {"x_t", [](Interpolation& c) { c.args.x_t = nullptr; }}});
}

TEST_CASE("Distillation through the C ABI is bit-equal to C++ for every element type", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_loss_is_bit_equal<bfloat16>(some_samples());
  check_loss_is_bit_equal<float16>({2, 70001});
  check_loss_is_bit_equal<float>({5, 640});
  check_interpolation_is_bit_equal<bfloat16>(some_samples());
  check_interpolation_is_bit_equal<float16>({2, 70001});
  check_interpolation_is_bit_equal<float>({5, 640});
}
