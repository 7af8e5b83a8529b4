// A call that does nothing. Its time is a lower bound for every other call.
#include "common/handler.h"

namespace jaxmatch {
namespace {

ffi::Error Noop(ffi::RemainingArgs, ffi::RemainingRets) { return ffi::Error::Success(); }

}  // namespace
}  // namespace jaxmatch

JAXMATCH_HANDLER(jaxmatch_noop, jaxmatch::Noop,
                 xla::ffi::Ffi::Bind().RemainingArgs().RemainingRets());
