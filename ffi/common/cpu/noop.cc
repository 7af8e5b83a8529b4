// A call that does nothing: the floor under the time of every other one.
#include "common/handler.h"

namespace jaxmatch {
namespace {

ffi::Error Noop(ffi::RemainingArgs, ffi::RemainingRets) { return ffi::Error::Success(); }

}  // namespace
}  // namespace jaxmatch

JAXMATCH_HANDLER(jaxmatch_noop, jaxmatch::Noop,
                 xla::ffi::Ffi::Bind().RemainingArgs().RemainingRets());
