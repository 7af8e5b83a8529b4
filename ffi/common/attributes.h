// Named attributes of a call: numbers, values of enums, options of a method, and the names of the
// optional operands that are present.
#ifndef JAXMATCH_ATTRIBUTES_H_
#define JAXMATCH_ATTRIBUTES_H_

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/handler.h"

namespace jaxmatch {

// The name of an enum value. Each enum whose values Python names has a table of these.
template <class E>
struct Name {
  std::string_view name;
  E value;
};

// Finds `name` in a table.
template <class E, size_t kCount>
bool find_name(const Name<E> (&table)[kCount], std::string_view name, E* value) {
  for (const Name<E>& entry : table) {
    if (entry.name == name) {
      *value = entry.value;
      return true;
    }
  }
  return false;
}

// Calls f(word, index) for each word of a text. Words are separated by single spaces.
template <class F>
void for_each_name(std::string_view text, F f) {
  for (int at = 0; !text.empty(); ++at) {
    const size_t end = text.find(' ');
    f(text.substr(0, end), at);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

// Options of a method, as "name=value name=value". A missing option has its default.
class Options {
 public:
  Options() = default;
  explicit Options(std::string_view text) : text_(text) {}

  std::string_view word(std::string_view name, std::string_view otherwise) const {
    std::string_view found = otherwise;
    for_each_name(text_, [&](std::string_view option, int) {
      if (option.size() > name.size() && option[name.size()] == '=' &&
          option.substr(0, name.size()) == name) {
        found = option.substr(name.size() + 1);
      }
    });
    return found;
  }
  double real(std::string_view name, double otherwise) const {
    const std::string value(word(name, ""));
    return value.empty() ? otherwise : std::strtod(value.c_str(), nullptr);
  }
  int64_t integer(std::string_view name, int64_t otherwise) const {
    const std::string value(word(name, ""));
    return value.empty() ? otherwise : std::strtoll(value.c_str(), nullptr, 10);
  }

 private:
  std::string_view text_;
};

// The attributes of a call of `target`. After reading, error() names the first attribute that was
// missing, had another type or an unknown value.
class Attributes {
 public:
  Attributes(const char* target, const ffi::Dictionary& all) : target_(target), all_(all) {}

  int64_t integer(std::string_view name) { return get<int64_t>(name, 0); }
  double real(std::string_view name) { return get<double>(name, 0); }
  bool flag(std::string_view name) { return get<bool>(name, false); }
  std::string_view word(std::string_view name) { return get<std::string_view>(name, ""); }
  template <class E, size_t kCount>
  E named(std::string_view name, const Name<E> (&table)[kCount]) {
    E value = table[0].value;
    const std::string_view given = word(name);
    if (!find_name(table, given, &value)) fail(name, given);
    return value;
  }
  // Index of an optional operand among those that are present; -1 if it is absent.
  int operand(std::string_view name) {
    int found = -1;
    for_each_name(word("present"), [&](std::string_view present, int at) {
      if (present == name) found = at;
    });
    return found;
  }

  bool failed() const { return !message_.empty(); }
  ffi::Error error() const { return ffi::Error::InvalidArgument(message_); }
  // An error of the call for another reason.
  ffi::Error error(const std::string& what) const {
    return ffi::Error::InvalidArgument(std::string(target_) + ": " + what);
  }

 private:
  template <class T>
  T get(std::string_view name, T otherwise) {
    const ffi::ErrorOr<T> value = all_.get<T>(name);
    if (value.has_value()) return *value;
    fail(name, "?");
    return otherwise;
  }
  void fail(std::string_view name, std::string_view given) {
    if (failed()) return;
    message_ = std::string(target_) + ": no meaning of the attribute " + std::string(name) + "=" +
               std::string(given);
  }

  const char* target_;
  const ffi::Dictionary& all_;
  std::string message_;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_ATTRIBUTES_H_
