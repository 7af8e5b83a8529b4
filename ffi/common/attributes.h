// The named attributes of an FFI call: numbers, values of enums, options of a method, and the names
// of the optional operands that are present.
#ifndef JAXMATCH_ATTRIBUTES_H_
#define JAXMATCH_ATTRIBUTES_H_

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "common/handler.h"

namespace jaxmatch {

// The name of an enum value. Each enum whose values Python passes by name has a table of such
// names.
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

// Builds a message such as "no meaning of the option tile=7; known: degree, 4, 8, 16, 32".
template <class E, size_t kCount>
std::string no_meaning(std::string_view kind, std::string_view name, std::string_view value,
                       const Name<E> (&table)[kCount]) {
  std::string text = "no meaning of the ";
  text.append(kind).append(" ").append(name).append("=").append(value).append("; known: ");
  for (const Name<E>& known : table) {
    if (&known != table) text += ", ";
    text += known.name;
  }
  return text;
}

// Options of a method, as "name=value name=value". After reading, error() names the first option
// that was missing or had an unknown value.
class Options {
 public:
  Options(const char* target, std::string_view text) : target_(target), text_(text) {}

  bool has(std::string_view name) const { return find(name, nullptr); }
  template <class E, size_t kCount>
  E named(std::string_view name, const Name<E> (&table)[kCount]) {
    E value = table[0].value;
    const std::string_view given = word(name);
    if (!failed() && !find_name(table, given, &value)) {
      message_ = no_meaning("option", name, given, table);
    }
    return value;
  }
  int64_t integer(std::string_view name) {
    return number<int64_t>(
        name, [](const char* text, char** end) { return std::strtoll(text, end, 10); });
  }
  double real(std::string_view name) { return number<double>(name, std::strtod); }

  bool failed() const { return !message_.empty(); }
  ffi::Error error() const {
    return ffi::Error::InvalidArgument(std::string(target_) + ": " + message_);
  }

 private:
  bool find(std::string_view name, std::string_view* value) const {
    bool found = false;
    for_each_name(text_, [&](std::string_view option, int) {
      if (option.size() > name.size() && option[name.size()] == '=' &&
          option.substr(0, name.size()) == name) {
        found = true;
        if (value) *value = option.substr(name.size() + 1);
      }
    });
    return found;
  }
  std::string_view word(std::string_view name) {
    std::string_view value;
    if (!find(name, &value) && !failed()) {
      message_ = "the option " + std::string(name) + " is missing";
    }
    return value;
  }
  template <class T, class Parse>
  T number(std::string_view name, Parse parse) {
    const std::string value(word(name));
    char* end = nullptr;
    const T found = parse(value.c_str(), &end);
    if (!failed() && (value.empty() || *end != 0)) {
      message_ = "no meaning of the option " + std::string(name) + "=" + value + "; known: numbers";
    }
    return found;
  }

  const char* target_;
  std::string_view text_;
  std::string message_;
};

// The attributes of a call of `target`. After reading, error() names the first attribute that was
// missing, or that had another type or an unknown value.
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
    if (!failed() && !find_name(table, given, &value)) {
      fail(no_meaning("attribute", name, given, table));
    }
    return value;
  }
  // Index of an optional operand among the optional operands that are present; -1 if it is absent.
  int operand(std::string_view name) {
    int found = -1;
    for_each_name(word("present"), [&](std::string_view present, int at) {
      if (present == name) found = at;
    });
    return found;
  }

  // Records an error unless the number of results, `found`, is `count`.
  void expect_results(size_t found, size_t count) {
    if (found == count) return;
    fail(std::to_string(found) + " results instead of " + std::to_string(count));
  }

  // Records an error unless the array `name` has `count` entries.
  template <class Buffer>
  void expect_size(std::string_view name, const Buffer& array, int64_t count) {
    const int64_t found = int64_t(array.element_count());
    if (found == count) return;
    fail("the array " + std::string(name) + " has " + std::to_string(found) +
         " entries where the others ask for " + std::to_string(count));
  }
  template <class Buffer>
  void expect_size(std::string_view name, const std::optional<Buffer>& array, int64_t count) {
    if (array) expect_size(name, *array, count);
  }

  // Records an error of the call, unless an earlier error is recorded.
  void fail(const std::string& what) {
    if (!failed()) message_ = std::string(target_) + ": " + what;
  }
  bool failed() const { return !message_.empty(); }
  ffi::Error error() const { return ffi::Error::InvalidArgument(message_); }
  // Returns an error with the message `what`, without recording it.
  ffi::Error error(const std::string& what) const {
    return ffi::Error::InvalidArgument(std::string(target_) + ": " + what);
  }

 private:
  template <class T>
  T get(std::string_view name, T otherwise) {
    const ffi::ErrorOr<T> value = all_.get<T>(name);
    if (value.has_value()) return *value;
    fail("the attribute " + std::string(name) + " is missing or has another type");
    return otherwise;
  }

  const char* target_;
  const ffi::Dictionary& all_;
  std::string message_;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_ATTRIBUTES_H_
