/// Loaded into a program through CUDA_INJECTION64_PATH: writes the mangled name of every kernel that the program
/// launches, itself or as a node of a graph, to the file that LAUNCHED_KERNELS names. Each name once a process.

#include <cupti.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

namespace {

/// Leaked on purpose: the driver may call back while the process is being torn down.
std::set<std::string>& names() {
  static auto* const set = new std::set<std::string>;
  return *set;
}

void note(char const* name) {
  static std::mutex mutex;
  std::lock_guard const lock(mutex);
  char const* const path = std::getenv("LAUNCHED_KERNELS");
  if (name == nullptr || path == nullptr || !names().insert(name).second) return;
  if (std::FILE* const file = std::fopen(path, "a")) {
    std::fprintf(file, "%s\n", name);
    std::fclose(file);
  }
}

void CUPTIAPI on_driver_call(void*, CUpti_CallbackDomain, CUpti_CallbackId id, void const* data) {
  auto const* const call = static_cast<CUpti_CallbackData const*>(data);
  if (call->callbackSite != CUPTI_API_ENTER) return;
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz:
      note(call->symbolName);
      break;
    default:
      break;
  }
}

}  // namespace

extern "C" int InitializeInjection() {
  CUpti_SubscriberHandle subscriber;
  if (cuptiSubscribe(&subscriber, &on_driver_call, nullptr) != CUPTI_SUCCESS) return 0;
  return cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) == CUPTI_SUCCESS;
}
