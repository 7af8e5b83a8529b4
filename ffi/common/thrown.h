// Conversion of exceptions to messages: no exception may leave a function that another language
// calls.
#ifndef JAXMATCH_THROWN_H_
#define JAXMATCH_THROWN_H_

#include <cstdio>
#include <exception>
#include <new>

namespace jaxmatch {

// The message of an exception. Making it allocates no memory, because memory may have run out.
struct Thrown {
  bool out_of_memory;
  char message[256];

  // Must be called in a catch clause. The message begins with `where`.
  static Thrown current(const char* where) noexcept {
    Thrown t{};
    try {
      throw;
    } catch (const std::bad_alloc&) {
      t.out_of_memory = true;
      t.format(where, "no memory for the workspace");
    } catch (const std::exception& e) {
      t.format(where, e.what());
    } catch (...) {
      t.format(where, "an exception of no known type");
    }
    return t;
  }

 private:
  void format(const char* where, const char* what) noexcept {
    std::snprintf(message, sizeof message, "%s: %s", where, what);
  }
};

}  // namespace jaxmatch

#endif  // JAXMATCH_THROWN_H_
