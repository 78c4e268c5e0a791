#pragma once
/// Threads over independent pieces of work, with progress for long runs.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace sparge::reference {

struct RunOptions {
  int threads = 0;  ///< 0 = one per hardware thread
  /// Called now and then, from any one thread at a time, with pieces done and pieces in all.
  std::function<void(std::int64_t done, std::int64_t total)> progress;
};

/// Calls `worker(piece)` for each piece in [0, pieces), where each thread has a worker of its own from `make_worker()`,
/// so that a worker may own scratch. Pieces must not depend on each other. The first exception is rethrown here.
template <class MakeWorker>
void for_each_piece(std::int64_t pieces, RunOptions const& options, MakeWorker make_worker) {
  std::atomic<std::int64_t> next{0}, done{0};
  std::mutex mutex;
  std::exception_ptr failure;
  auto run = [&] {
    try {
      auto worker = make_worker();
      for (std::int64_t piece; (piece = next++) < pieces;) {
        worker(piece);
        std::int64_t const finished = ++done;
        if (!options.progress) continue;
        std::lock_guard lock(mutex);
        options.progress(finished, pieces);
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = pieces;
    }
  };
  unsigned const hardware = std::max(1u, std::thread::hardware_concurrency());
  std::int64_t const wanted = options.threads > 0 ? options.threads : hardware;
  std::vector<std::thread> threads;
  try {
    for (std::int64_t i = 1; i < std::min(wanted, pieces); ++i) threads.emplace_back(run);
  } catch (std::system_error const&) {
    // No more threads to be had: those that run, this one included, share the work.
  }
  run();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace sparge::reference
