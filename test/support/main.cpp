/// Runs the tests. Exit code: 0 all passed, 1 something failed, 4 nothing failed and something was skipped.
///
/// Version 2 of Catch2 returns the number of failed assertions, and so do some of version 3; four failures would then
/// look like a skip. A listener counts instead.

#define CATCH_CONFIG_RUNNER
#include "support/catch.hpp"

namespace {

bool something_failed = false, something_skipped = false;

#if __has_include(<catch2/catch_all.hpp>)
using Listener = Catch::EventListenerBase;
bool any_skipped(Catch::Totals const& totals) { return totals.testCases.skipped > 0; }
#else
using Listener = Catch::TestEventListenerBase;
bool any_skipped(Catch::Totals const&) { return sparge::test::skipped_cases > 0; }
#endif

class Outcome : public Listener {
public:
  using Listener::Listener;
  void testRunEnded(Catch::TestRunStats const& stats) override {
    something_failed = stats.totals.testCases.failed > 0 || stats.totals.assertions.failed > 0;
    something_skipped = any_skipped(stats.totals);
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(Outcome)

int main(int argc, char* argv[]) {
  int const result = Catch::Session().run(argc, argv);
  if (something_failed) return 1;
  if (something_skipped) return 4;
  return result == 0 ? 0 : 1;
}
