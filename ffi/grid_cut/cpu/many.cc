// Grid cuts with 18 and 26 neighbours on the CPU. They are apart from the handler, so that the
// compiler inlines as much as it would without them.
#include <cstdint>

#include "grid_cut/cpu/solve.h"
#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {

template <class T, class V>
void solve_many(const GridCutOperands& o, const GridStarts& starts, int64_t b) {
  if (o.connectivity == 18) {
    solve_problem<18, T, V>(o, starts, b);
  } else {
    solve_problem<26, T, V>(o, starts, b);
  }
}
template void solve_many<int32_t, int32_t>(const GridCutOperands&, const GridStarts&, int64_t);
template void solve_many<int32_t, int64_t>(const GridCutOperands&, const GridStarts&, int64_t);
template void solve_many<int64_t, int64_t>(const GridCutOperands&, const GridStarts&, int64_t);
template void solve_many<float, float>(const GridCutOperands&, const GridStarts&, int64_t);
template void solve_many<double, double>(const GridCutOperands&, const GridStarts&, int64_t);

}  // namespace jaxmatch::grid_cut
