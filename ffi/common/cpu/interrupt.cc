#include "common/cpu/interrupt.h"

#include <dlfcn.h>
#include <signal.h>

#include <mutex>

namespace jaxmatch {
namespace {

// --- Signals, counted while calls watch for them.

std::mutex mutex;
int watching = 0;             // calls; guarded by the mutex
struct sigaction previous{};  // written before our handler is installed
std::atomic<uint32_t> arrived{0};
std::atomic<int64_t> interrupted_run{0};

void count_and_pass_on(int signal, siginfo_t* info, void* context) {
  arrived.fetch_add(1, std::memory_order_relaxed);
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else {
    previous.sa_handler(signal);
  }
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == count_and_pass_on;
}

void begin_watching() {
  std::lock_guard<std::mutex> lock(mutex);
  if (watching++ > 0) return;
  struct sigaction now{};
  if (sigaction(SIGINT, nullptr, &now) != 0 || is_ours(now)) return;
  // The default ends the process; and who ignores the signal wants no end.
  const bool has_handler =
      (now.sa_flags & SA_SIGINFO) || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN);
  if (!has_handler) return;
  previous = now;
  now.sa_flags |= SA_SIGINFO;
  now.sa_sigaction = count_and_pass_on;
  sigaction(SIGINT, &now, nullptr);
}

void end_watching() {
  std::lock_guard<std::mutex> lock(mutex);
  if (--watching > 0) return;
  struct sigaction now{};
  // Another handler may have come in front since.
  if (sigaction(SIGINT, nullptr, &now) == 0 && is_ours(now)) sigaction(SIGINT, &previous, nullptr);
}

// --- Python's answer.

template <class F>
F* find_in_process(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

// Whether Python raises KeyboardInterrupt for the signal. A program with a handler of its own,
// which may end after the present step, keeps its results. Nothing of this runs Python code, in
// which a pending signal would be handled, and lost. Without Python every signal ends solves.
bool python_raises() {
  using Object = void;
  auto* const initialized = find_in_process<int()>("Py_IsInitialized");
  auto* const ensure = find_in_process<int()>("PyGILState_Ensure");
  auto* const release = find_in_process<void(int)>("PyGILState_Release");
  auto* const import = find_in_process<Object*(const char*)>("PyImport_ImportModule");
  auto* const call =
      find_in_process<Object*(Object*, const char*, const char*, ...)>("PyObject_CallMethod");
  auto* const attribute = find_in_process<Object*(Object*, const char*)>("PyObject_GetAttrString");
  auto* const drop = find_in_process<void(Object*)>("Py_DecRef");
  auto* const clear = find_in_process<void()>("PyErr_Clear");
  if (!initialized || !initialized() || !ensure || !release || !import || !call || !attribute ||
      !drop || !clear) {
    return true;
  }
  const int state = ensure();
  Object* const module = import("_signal");
  Object* const handler = module ? call(module, "getsignal", "i", SIGINT) : nullptr;
  Object* const usual = module ? attribute(module, "default_int_handler") : nullptr;
  const bool raises = handler != nullptr && handler == usual;
  for (Object* object : {usual, handler, module}) {
    if (object) drop(object);
  }
  clear();
  release(state);
  return raises;
}

}  // namespace

InterruptScope::InterruptScope(int64_t run)
    : run_(run),
      seen_(arrived.load(std::memory_order_relaxed)),
      interrupted_(run != 0 && run == interrupted_run.load(std::memory_order_relaxed)) {}

InterruptScope::~InterruptScope() {
  if (watches_) end_watching();
}

void InterruptScope::watch() {
  if (Clock::now() - begun_ >= kPatience && !watches_.exchange(true)) begin_watching();
}

void InterruptScope::poll() {
  if (interrupted_.load(std::memory_order_relaxed)) throw Interrupted{};
  if (!watches_.load(std::memory_order_relaxed)) return watch();
  const uint32_t count = arrived.load(std::memory_order_relaxed);
  // One thread asks.
  if (seen_.load(std::memory_order_relaxed) == count || seen_.exchange(count) == count) return;
  if (!python_raises()) return;
  interrupted_ = true;
  if (run_ != 0) interrupted_run = run_;
  throw Interrupted{};
}

void poll_interrupt() {
  if (InterruptScope* const scope = InterruptScope::current()) scope->poll();
}

}  // namespace jaxmatch
