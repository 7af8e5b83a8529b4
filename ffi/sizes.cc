// The function by which Python queries the sizes of buffers and other numbers (common/sizes.h). So
// only C++ has to know how a buffer is laid out.
#include "common/sizes.h"

#include "assignment/cuda/sizes.h"
#include "assignment/large/sizes.h"
#include "common/handler.h"
#include "flow/cuda/layout.h"
#include "grid_cut/cuda/sizes.h"
#include "k_best/cuda/workspace.h"
#include "matching/cuda/layout.h"
#include "min_cost_flow/cuda/workspace.h"
#include "perturbed/cuda/layout.h"
#include "sparse_assignment/cuda/workspace.h"
#include "transport/cuda/small_memory.h"

namespace jaxmatch {
namespace {

template <size_t kCount>
bool find(const Size (&table)[kCount], std::string_view name, const int64_t* arguments,
          int64_t* size) {
  for (const Size& entry : table) {
    if (entry.name == name) {
      *size = entry.of(arguments);
      return true;
    }
  }
  return false;
}

}  // namespace
}  // namespace jaxmatch

// Returns the number called `name` for these arguments, or -1 if no number has this name.
extern "C" JAXMATCH_EXPORT int64_t jaxmatch_size(const char* name, const int64_t* arguments) {
  using namespace jaxmatch;
  int64_t size = -1;
  find(assignment::kSizes, name, arguments, &size) ||
      find(assignment::large::kSizes, name, arguments, &size) ||
      find(flow::kSizes, name, arguments, &size) ||
      find(grid_cut::kSizes, name, arguments, &size) ||
      find(k_best::kSizes, name, arguments, &size) ||
      find(matching::kSizes, name, arguments, &size) ||
      find(min_cost_flow::kSizes, name, arguments, &size) ||
      find(perturbed::kSizes, name, arguments, &size) ||
      find(sparse_assignment::kSizes, name, arguments, &size) ||
      find(transport::kSizes, name, arguments, &size);
  return size;
}
