/// The parts of the example inference_engine that need no GPU: arena, layout, projection, and the layer that the engine is compared with.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "inference_engine/arena.hpp"
#include "inference_engine/host_layer.hpp"
#include "inference_engine/load.hpp"
#include "inference_engine/projection.hpp"
#include "support/catch.hpp"
#include "training/random.hpp"

using namespace engine;

namespace {

/// Memory that nobody touches.
void* const somewhere = reinterpret_cast<void*>(std::uintptr_t{1} << 20);

sparge::Device h200() { return {0, 9, 0, 132, 232448, 233472, 62914560}; }

Shape with_layers(Model const& model, std::int64_t layers) {
  Shape shape = model.shape;
  shape.layers = layers;
  return shape;
}

/// A layer with its inputs.
struct Case {
  Shape shape{256, 512, 1, {3, 4, 8}, 90};
  HostWeights weights;
  HostInputs inputs;
  std::uint64_t drawn = 0;

  Case() {
    shape.text_tokens = 40;
    visit_weights(shape, weights, [&](Numbers& member, std::int64_t count, Distribution d) {
      bool const is_matrix = count > modulations * shape.dim;
      fill(member, count, {d.mean, is_matrix ? d.deviation : spread_of_vectors});
    });
    fill(inputs.x, shape.tokens * shape.dim, {});
    fill(inputs.text, shape.text_tokens * shape.dim, {});
    fill(inputs.time, modulations * shape.dim, of_modulation);
  }
  void fill(Numbers& numbers, std::int64_t count, Distribution d) {
    training::Random const random(5);
    for (std::int64_t i = 0; i < count; ++i)
      numbers.push_back(double(d.mean) + double(d.deviation) * random.normal(drawn++));
  }
  Numbers run(Storage storage) const { return HostLayer(shape, weights, inputs, storage).run(); }
};

}  // namespace

// ---- Arena ---------------------------------------------------------------------------------------------------------

TEST_CASE("An arena hands out aligned pieces one behind the other") {
  Arena arena(somewhere, 4096);
  auto* const first = arena.take<float>(3);
  auto* const second = arena.take<std::byte>(257);
  auto* const third = arena.take<double>(1);
  CHECK(static_cast<void*>(first) == somewhere);
  CHECK(reinterpret_cast<std::byte*>(second) - reinterpret_cast<std::byte*>(first) == 256);
  CHECK(reinterpret_cast<std::byte*>(third) - second == 512);
  CHECK(arena.used() == 1024);
}

TEST_CASE("An arena that is full refuses and stays as it was") {
  Arena arena(somewhere, 1024);
  arena.take<std::byte>(512);
  CHECK_THROWS_AS(arena.take<std::byte>(513), std::length_error);
  CHECK(arena.used() == 512);
  CHECK(arena.take<std::byte>(512) != nullptr);
  CHECK_THROWS_AS(arena.take<std::byte>(1), std::length_error);
}

TEST_CASE("An arena gives null for nothing and takes no memory for it") {
  Arena arena(somewhere, 256);
  CHECK(arena.take<float>(0) == nullptr);
  CHECK(arena.used() == 0);
}

TEST_CASE("An arena refuses counts that do not fit and memory that is not aligned") {
  Arena arena(somewhere, 1024), measuring;
  CHECK_THROWS_AS(arena.take<float>(-1), std::length_error);
  CHECK_THROWS_AS(measuring.take<double>(std::int64_t{1} << 61), std::length_error);
  CHECK_THROWS_AS(Arena(static_cast<std::byte*>(somewhere) + 16, 1024), std::invalid_argument);
}

TEST_CASE("An arena without memory measures what one with memory hands out") {
  Shape const shape = with_layers(models[0], 2);
  Plans const plans(shape, h200());
  std::size_t const bytes = measure(shape, plans, 1 << 20);
  Arena exact(somewhere, bytes);
  Buffers const buffers = lay_out(exact, shape, plans, 1 << 20);
  CHECK(exact.used() == bytes);
  CHECK(buffers.layers.size() == 2);
  CHECK(buffers.layers[0].qkv == static_cast<void*>(somewhere));
  Arena short_of_one(somewhere, bytes - 1);
  CHECK_THROWS_AS(lay_out(short_of_one, shape, plans, 1 << 20), std::length_error);
}

// ---- Plans ---------------------------------------------------------------------------------------------------------

TEST_CASE("Both models are planned without a GPU") {
  for (Model const& model : models) {
    Plans const plans(with_layers(model, model.shape.layers), h200());
    CHECK(plans.layers.size() == std::size_t(model.shape.layers));
    sparge::AttentionProblem const p = model.shape.self_attention();
    CHECK(plans.mask_words == std::size_t(p.heads * p.q_blocks() * p.row_words()));
    for (LayerPlan const& layer : plans.layers) {
      CHECK(layer.self.problem == p);
      CHECK(layer.cross.problem.kv_tokens == 512);
      CHECK(layer.mask.workspace_bytes <= plans.workspace_bytes);
    }
  }
}

TEST_CASE("The grids have the token counts of the models") {
  CHECK(models[0].shape.tokens == 32760);
  CHECK(models[1].shape.tokens == 75600);
  CHECK(models[0].shape.heads() == 12);
  CHECK(models[1].shape.heads() == 40);
}

TEST_CASE("A width that the kernels cannot deal out is refused") {
  for (std::int64_t dim : {384, 5376, 0}) {
    Shape shape = with_layers(models[0], 1);
    shape.dim = dim;
    CHECK_THROWS_AS(Plans(shape, h200()), std::invalid_argument);
  }
}

// ---- Projection ----------------------------------------------------------------------------------------------------

TEST_CASE("Amdahl's law") {
  CHECK(amdahl(0, 10) == Approx(1));
  CHECK(amdahl(1, 10) == Approx(10));
  CHECK(amdahl(0.75, 4) == Approx(1 / (0.25 + 0.1875)));
  CHECK(amdahl(0.5, 1e12) == Approx(2));
}

TEST_CASE("Amdahl's law of the parts is the ratio of the layers where only attention differs") {
  PartTimes dense, sparse;
  dense[Part::linear] = sparse[Part::linear] = 3;
  dense[Part::cross_attention] = sparse[Part::cross_attention] = 0.5;
  dense[Part::elementwise] = sparse[Part::elementwise] = 1.5;
  dense[Part::self_attention] = 15;
  sparse[Part::self_attention] = 1, sparse[Part::mask] = 0.25;
  CHECK(dense.attention_share() == Approx(0.75));
  CHECK(sparse.attention() == Approx(1.25));
  CHECK(amdahl(dense.attention_share(), dense.attention() / sparse.attention()) ==
        Approx(dense.total() / sparse.total()));
}

TEST_CASE("A generation runs every layer in every pass of every step") {
  Generation generation;
  generation.layers = 40, generation.steps = 50, generation.passes = 2;
  CHECK(generation.seconds(10) == Approx(40));
}

// ---- Rotations and the host's layer --------------------------------------------------------------------------------

TEST_CASE("Tokens are turned by frame and row and column") {
  Shape shape{256, 512, 1, {3, 4, 8}, 3 * 4 * 8};
  std::vector<Turn> const turns = make_turns(shape);
  REQUIRE(turns.size() == 96u * 64);
  auto const angle = [&](std::int64_t token, std::int64_t pair) {
    Turn const turn = turns[std::size_t(token * 64 + pair)];
    CHECK(turn.cosine * turn.cosine + turn.sine * turn.sine == Approx(1));
    return std::atan2(double(turn.sine), double(turn.cosine));
  };
  std::int64_t const token = 2 * 32 + 3 * 8 + 1;  // frame 2, row 3, column 1
  CHECK(angle(token, 0) == Approx(2));
  CHECK(angle(token, 22) == Approx(3));
  CHECK(angle(token, 43) == Approx(1));
  CHECK(angle(token, 21) == Approx(2 * std::pow(1e4, -21.0 / 22)));
  CHECK(angle(token, 63) == Approx(std::pow(1e4, -20.0 / 21)));
  for (std::int64_t pair = 0; pair < 64; ++pair) CHECK(angle(0, pair) == 0);
}

TEST_CASE("Leaving out any weight moves the layer by more than the comparison allows") {
  Case const whole;
  Numbers const exact = whole.run(Storage::exact);
  double const allowed = 2 * relative_error(whole.run(Storage::bf16), exact, whole.inputs.x);
  CHECK(allowed > 1e-3);
  CHECK(allowed < 2e-2);
  Case changed = whole;
  int members = 0;
  visit_weights(changed.shape, changed.weights, [&](Numbers& member, std::int64_t, Distribution d) {
    Numbers const kept = member;
    for (double& x : member) x = double(d.mean);
    CAPTURE(members++);
    CHECK(relative_error(changed.run(Storage::exact), exact, changed.inputs.x) > allowed);
    member = kept;
  });
  CHECK(members == 22);
}

TEST_CASE("The host's layer sees the mask") {
  Case masked;
  Numbers const exact = masked.run(Storage::exact);
  masked.inputs.mask.assign(std::size_t(masked.shape.heads()), ~0u);  // one query block, two key blocks
  CHECK(relative_error(masked.run(Storage::exact), exact, masked.inputs.x) == 0);
  masked.inputs.mask[1] = 1;  // the second head keeps the first key block alone
  CHECK(relative_error(masked.run(Storage::exact), exact, masked.inputs.x) > 0.01);
}
