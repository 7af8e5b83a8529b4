#include "common/cpu/interrupt.h"

#include <dlfcn.h>
#include <signal.h>

#include <initializer_list>
#include <mutex>

namespace jaxmatch {
namespace {

std::mutex mutex;

// --- Counts signals, from the first call that lasts longer than kPatience until the process ends.

struct sigaction previous{};  // written before count_and_pass_on() is installed
bool installed = false;       // true once count_and_pass_on() handles SIGINT; guarded by the mutex
std::atomic<uint32_t> arrived{0};

void count_and_pass_on(int signal, siginfo_t* info, void* context) {
  arrived.fetch_add(1, std::memory_order_relaxed);
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else {
    previous.sa_handler(signal);
  }
}

const void* handler_of(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) ? reinterpret_cast<const void*>(action.sa_sigaction)
                                        : reinterpret_cast<const void*>(action.sa_handler);
}

// Installs our handler in front of the current one. Installs it again if Python's `signal.signal`
// has replaced it.
void count_signals() {
  std::lock_guard<std::mutex> lock(mutex);
  struct sigaction now{};
  if (sigaction(SIGINT, nullptr, &now) != 0) return;
  const void* const handler = handler_of(now);
  if (handler == reinterpret_cast<const void*>(count_and_pass_on)) return;
  // The default action ends the process anyway. A program that ignores the signal must not be
  // interrupted.
  if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) return;
  // The current handler may be another library's, which passes signals on to ours. If ours were
  // installed in front and passed them back, the two would call each other forever.
  if (installed && handler != handler_of(previous)) return;
  previous = now;
  now.sa_flags |= SA_SIGINFO;
  now.sa_sigaction = count_and_pass_on;
  installed = sigaction(SIGINT, &now, nullptr) == 0 || installed;
}

// --- Asks Python what the signal means.

template <class F>
F* find_in_process(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

// Whether Python raises KeyboardInterrupt for the signal. It does not if the program has its own
// signal handler. Such a program may want to finish the current step, so its solve goes on. This
// function runs no Python code: while running such code, the interpreter would handle the pending
// signal, and the signal would be lost. Without Python, every signal ends the solve.
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

namespace {

// The latest execution of a compiled program. All native calls of the execution share this record.
// So a signal between two of the calls counts, and kPatience is measured from the start of the
// first call.
InterruptScope::Execution latest;  // guarded by the mutex

InterruptScope::Execution join(int64_t run) {
  const InterruptScope::Execution begun{run, arrived.load(), false,
                                        std::chrono::steady_clock::now()};
  if (run == 0) return begun;
  std::lock_guard<std::mutex> lock(mutex);
  if (latest.run != run) latest = begun;
  return latest;
}

}  // namespace

InterruptScope::InterruptScope(int64_t run)
    : execution_(join(run)), seen_(execution_.seen), interrupted_(execution_.interrupted) {}

void InterruptScope::poll() {
  if (interrupted_.load(std::memory_order_relaxed)) throw Interrupted{};
  const uint32_t count = arrived.load(std::memory_order_relaxed);
  // Only one thread asks Python about a new signal.
  if (seen_.load(std::memory_order_relaxed) != count && seen_.exchange(count) != count) {
    const bool raises = python_raises();
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (latest.run == execution_.run) {
        latest.seen = count;
        latest.interrupted |= raises;
      }
    }
    if (raises) {
      interrupted_ = true;
      throw Interrupted{};
    }
  }
  if (!counts_ && std::chrono::steady_clock::now() - execution_.begun >= kPatience &&
      !counts_.exchange(true)) {
    count_signals();
  }
}

void poll_interrupt() {
  if (InterruptScope* const scope = InterruptScope::current()) scope->poll();
}

}  // namespace jaxmatch
